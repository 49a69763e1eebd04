"""One attempt: Keras's `fit` once through, from where the training state says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import keras

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Phase, Position
from mlflow_resilience.errors import Divergence
from mlflow_resilience.training import boundary, build, epoch_iterator, learning_rate, randomness, state
from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.boundary import Boundary
from mlflow_resilience.training.callback_state import CallbackStates
from mlflow_resilience.training.callbacks import Closing, Opening
from mlflow_resilience.training.data_position import DataPosition
from mlflow_resilience.training.health import Finding, Health
from mlflow_resilience.training.packing import pack, unpack
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.py_dataset import Given
from mlflow_resilience.training.records import Bad
from mlflow_resilience.training.signs import Signs
from mlflow_resilience.training.snapshots import Snapshots
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.step import Step
from mlflow_resilience.training.telling import numbers
from mlflow_resilience.training.watch import Watch

_UNCHANGED = Settings()


class Attempt:
    """Runs `fit` under our train function and callbacks, and can tell the training state at each boundary."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        watch: Watch,
        fit: Callable[..., Any],
        callbacks: CallbackStates,
        held: Settings = _UNCHANGED,
    ) -> None:
        self.plan, self.settings, self.watch = plan, settings, watch
        self._callbacks = callbacks
        self._rate_held = held.learning_rate_scale  # the factor that the state's learning rate already has
        self.at_boundary = True  # whether `capture` would give a state that training can go on from
        self._fit = fit
        self.model = plan.model
        self.position = plan.start if plan.resume is None else Position(**plan.resume.meta["position"])
        self.logs: dict[str, float] = {}
        self.phase: Phase = "start"
        self._meta = plan.resume.meta if plan.resume is not None else None
        self._origin = self._meta["origin"] if self._meta is not None else plan.origin
        data = self._meta["data"] if self._meta is not None else {}
        self.feed = self._feed_of(plan.training, data.get("training"), plan.given, training=True)
        self.feed.differs = watch.data_differs
        self.validation: Feed | None = None
        if plan.validation:
            stored = data.get("validation")
            self.validation = self._feed_of(plan.validation, stored, plan.given_validation, training=False)
        self.boundary: Boundary
        self.signs: Signs
        self._health = Health(self._meta.get("losses", {}) if self._meta is not None else {})
        self._snapshots = Snapshots(self.model)
        self._held: dict[str, Any] | None = None  # the snapshot that validation may be left with
        self._held_validation: DataPosition | None = None
        self._data = self.feed.now()  # the position at the last boundary: Keras's loop runs ahead of the steps

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self) -> keras.callbacks.History:
        """Train to the end. Whatever is raised in training comes out as it is."""
        plan, meta = self.plan, self._meta
        epoch_iterator.install()
        randomness.restore(self._origin)
        arguments = dict(plan.arguments)
        if self.validation is not None:
            arguments["validation_data"] = (self.validation, None, None)
        self._callbacks.before_begin(meta["callbacks"] if meta is not None else [])
        initial_epoch = plan.initial_epoch if meta is None else meta["position"]["epoch"]
        if meta is not None and self._stopped(meta):
            initial_epoch = plan.epochs
        self.model.train_function = None  # one traced by an earlier fit knows nothing of this boundary
        self.model._initial_epoch = 0  # Keras would prefer what an earlier fit's BackupAndRestore left there
        try:
            callbacks = [Opening(self), *plan.all_callbacks, Closing(self)]
            self._fit(x=self.feed, epochs=plan.epochs, initial_epoch=initial_epoch, callbacks=callbacks, **arguments)
        finally:
            boundary.release_updates(self.model)
            self.model.train_function = None
        self._refuse_broken_weights()
        return plan.history

    def begin(self) -> None:
        """Keras is about to train: put our step in the place of its own."""
        # What the first step would create must be there to be restored.
        self.watch.begun(whole=build.build(self.model, self.feed.element_spec))
        self.boundary = Boundary(self.model)
        self.signs = Signs(self.model)
        boundary.hold_updates(self.model, self.boundary, self.signs, lambda: self.settings.gradient_bound)
        self.model.train_function = Step(self.model, self, self.model.train_function)
        self.enter("start")
        meta = self._meta
        if meta is None:
            learning_rate.scale(self.model, self.settings.learning_rate_scale, 1.0)
        elif self._stopped(meta) or meta["position"]["epoch"] >= self.plan.epochs:
            self.restore()  # nothing is left to do but the end

    def _stopped(self, meta: dict[str, Any]) -> bool:
        """Whether a callback had ended training before this state was taken; in mid-epoch, its end is still to come."""
        return meta["stop_training"] and meta["position"]["step"] == 0

    # -- where training stands: called by the step and the callbacks -------------------------------------------------

    def enter(self, phase: Phase) -> None:
        self.watch.entered(phase, self.position)  # may hold us back for good: until then this is the boundary
        self.phase = phase
        if phase in ("step", "trace"):
            self.at_boundary = False

    def next_step(self) -> int:
        return self.position.global_step + 1

    def advance(self) -> None:
        """One more batch is done."""
        position = self.position
        self.phase = "callback"
        self.position = replace(position, global_step=position.global_step + 1, step=position.step + 1)

    def recalled(self) -> dict[str, float]:
        """The results of the last step before the resume: Keras's loop is shown them again, in place of doing it."""
        assert self._meta is not None
        return dict(self._meta["logs"])

    def before(self, step: int, batch: Any) -> Any:
        return self.watch.before(step, batch)

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        return self.watch.judge(error, phase, batch_size=batch_size, in_place=in_place)

    def quarantined(self, bad: list[Bad]) -> None:
        self.watch.quarantined(bad, self.next_step())

    def traced(self, function: Any) -> None:
        self._snapshots.forget()
        self.watch.traced(function)

    def in_force(self, decision: Decision) -> None:
        self.settings = self.watch.in_force(decision)

    def epoch_begun(self, epoch: int) -> None:
        if self.position.epoch != epoch:
            self.position = replace(self.position, epoch=epoch, step=0)
        self.enter("data")

    def step_ended(self, logs: dict[str, Any]) -> None:
        self.logs = {name: float(value) for name, value in logs.items()}
        signs = self.signs.take()
        found = self._health.look(self.logs, signs, self.signs, self.position.global_step)
        if found is not None:
            self._refuse(found)
        self.stand()
        self.watch.stepped(self.position, self.logs, signs[-1].norm if signs else None)
        self.watch.boundary(self, epoch_end=False)

    def stand(self) -> None:
        self._data = self.feed.now()
        self.at_boundary = True

    def validation_begun(self) -> None:
        self._held = self._snapshots.take()
        if self.validation is not None:
            self._held_validation = _between(self.validation.now())
        self.enter("validation")

    def validation_step_ended(self) -> None:
        self.enter("validation")
        self.watch.boundary(self, epoch_end=False)

    def epoch_ended(self, epoch: int, logs: dict[str, Any]) -> None:
        self._held = None
        self.enter("epoch_end")
        floats = numbers(logs)
        self.watch.epoch_ended(epoch, self.position, floats)
        self.position = replace(self.position, epoch=epoch + 1, step=0)
        self.feed.epoch_ended()
        self._data = self.feed.now()
        self.watch.boundary(self, epoch_end=True)

    def _refuse_broken_weights(self) -> None:
        """The loss of the last step does not show what its update did."""
        broken = state.not_finite(self.model) - self.plan.exempt
        if broken:
            raise Divergence(f"{min(broken)} holds values that are not finite after the last step")

    def _refuse(self, found: Finding) -> None:
        """Training stands again where it stood before the step that was found void; a suspicion may be dropped."""
        error, done, phase = Divergence(found.text), self.position, self.phase
        undone = done.global_step + 1 - found.step
        self.position = replace(done, global_step=found.step - 1, step=done.step - undone)
        self.phase = "step"
        if found.certain or self.watch.recoverable(error):
            raise error
        self._health.accept(found)
        self.position, self.phase = done, phase

    # -- the training state ------------------------------------------------------------------------------------------

    def capture(self) -> TrainingState:
        """The training state at the last boundary. Costs a snapshot; anything else is small."""
        arrays: dict[str, Any] = {}
        tensors = dict(self._held) if self._held is not None else self._snapshots.take()
        meta = {
            "position": dataclasses.asdict(self.position),
            "data": {
                "training": _describe(self._data, arrays, "data/training"),
                "validation": self._validation_data(arrays),
            },
            "origin": self._origin,
            "random": randomness.capture(),
            "callbacks": self._callbacks.capture(arrays),
            "logs": self.logs,
            "losses": self._health.history.to_dict(),
            "stop_training": bool(self.model.stop_training),
            "settings": self.settings.to_dict(),
            "first_step": self.plan.first_step,
            "environment": self.plan.environment,
            "rates": self.plan.rates,
        }
        return TrainingState(tensors={**tensors, **arrays}, meta=meta)

    def _feed_of(self, arguments: dict[str, Any], stored: Any, given: Given | None, *, training: bool) -> Feed:
        resume, start = self.plan.resume, None
        if stored is not None and resume is not None:
            start = DataPosition(**unpack(stored, resume.tensors))
        distributed = self.model._distribute_strategy is not None
        return Feed(arguments, training=training, start=start, given=given, distributed=distributed)

    def _validation_data(self, arrays: dict[str, Any]) -> Any:
        if self.validation is None:
            return None
        held = self._held_validation if self._held is not None else None
        return _describe(held or _between(self.validation.now()), arrays, "data/validation")

    def restore_at(self, place: Literal["epoch", "step"]) -> bool:
        """Restore the state that this attempt starts from, if this is the place for it. True when it was done."""
        if self._meta is None:
            return False
        mid_epoch = self._meta["position"]["step"] > 0
        if place == "epoch" and mid_epoch:
            assert self.plan.resume is not None
            with self.watch.restoring(self._meta):
                state.restore(self.model, self.plan.resume.tensors)  # what callbacks see meanwhile is right already
            return False
        self.restore()
        return True

    def restore(self) -> None:
        """Put model, optimiser, metrics, callbacks and random state back as they were."""
        resume, meta = self.plan.resume, self._meta
        assert resume is not None and meta is not None
        mid_epoch = meta["position"]["step"] > 0
        self.enter("restore")
        with self.watch.restoring(meta):
            # Between epochs Keras has reset the metrics already, and that is right.
            state.restore(self.model, resume.tensors, state.GROUPS if mid_epoch else state.LASTING)
        learning_rate.carry_over(self.model, meta.get("rates", []), self.plan.rates)
        learning_rate.scale(self.model, self.settings.learning_rate_scale, self._rate_held)
        self.watch.restored(self._callbacks.restore(meta["callbacks"], resume.tensors))
        self.position = Position(**meta["position"])
        self.logs = meta["logs"]
        self.model.stop_training = meta["stop_training"]
        # Finding the place in data that Python makes has left Python's random state where it was.
        parts = ("tensorflow", "keras") if self.feed.is_python and mid_epoch else randomness.PARTS
        randomness.restore(meta["random"], only=parts)
        self.boundary.passed()
        self.stand()
        self._meta = None
        self.plan.resume = None
        self.enter("start")  # what the user's callbacks do next is no restoring


def _between(position: DataPosition) -> DataPosition:
    """A validation is never resumed in its middle: it begins anew, with the random state of that moment."""
    return dataclasses.replace(position, step=0, random=None)


def _describe(position: DataPosition, arrays: dict[str, Any], name: str) -> Any:
    return pack(dict(vars(position)), arrays, name)
