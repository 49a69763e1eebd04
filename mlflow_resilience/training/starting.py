"""Where an attempt starts from: a state found, the newest checkpoint, or the model as the script made it."""

from __future__ import annotations

from mlflow_resilience.core.action import OlderCheckpoint
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Position
from mlflow_resilience.errors import CheckpointError
from mlflow_resilience.training import (
    batches,
    build,
    environment,
    learning_rate,
    preflight,
    pristine,
    randomness,
    replicas,
    state,
)
from mlflow_resilience.training.callback_state import CallbackStates
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.mending import asks
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.telling import Telling


class Starting:
    """The start of each attempt of one `fit`. ``resume`` is the state that the next one goes on from, if any."""

    def __init__(self, plan: Plan, ports: Ports, callbacks: CallbackStates, tell: Telling) -> None:
        self._plan, self._ports, self._callbacks, self._tell = plan, ports, callbacks, tell
        self._initial: TrainingState | None = None
        self.resume: TrainingState | None = None
        self.resumed = False  # whether another process began this training
        self.exporter: Exporter | None = None

    @property
    def position(self) -> Position:
        """Where training goes on."""
        return self._plan.start if self.resume is None else Position(**self.resume.meta["position"])

    @property
    def has_any(self) -> bool:
        """Whether there is anything to go back to."""
        return self._initial is not None or self._ports.keeper.has_any

    @property
    def is_complete(self) -> bool:
        """Whether the start itself is kept."""
        return self._initial is not None

    def start(self) -> None:
        """The first attempt of this process."""
        plan = self._plan
        whole = build.build(plan.model, build.element_spec(plan.training))
        plan.origin = {**plan.origin, "python": randomness.capture()["python"]}
        plan.environment = environment.facts({**self._ports.environment, "replicas": replicas.count(plan.model)})
        plan.rates = learning_rate.given(plan.model)
        preflight.say(plan, self._ports.journal)
        self.resume = self._ports.find_resume()
        if self.resume is not None:
            self.resumed = True
            self._inherit(self.resume)
            preflight.say_of_resume(plan, self.resume.meta, self._ports.journal)
        if whole:
            self.complete()

    def complete(self) -> None:
        """Model and optimiser are whole and nothing is trained yet: what has to be known of that is kept."""
        plan, model = self._plan, self._plan.model
        plan.exempt = state.not_finite(model)
        if self._ports.make_exporter is not None:
            self.exporter = self._ports.make_exporter()
        self._ports.keeper.begin(self.exporter, plan.exempt)
        self._ports.keeper.warn_of_space(state.size(model))
        if self.resume is None:
            self._initial = TrainingState(tensors=state.snapshot(model, state.LASTING))

    def roll_back(self, decision: Decision) -> None:
        """The attempt after a fault. Raises CheckpointError when there is nothing to go back to."""
        self._ports.keeper.wait()
        if asks(decision, OlderCheckpoint):
            self._ports.keeper.set_newest_aside()
        found = self._ports.keeper.newest()
        self._renew_data(self._plan.first_step if found is None else int(found.meta["position"]["global_step"]))
        if found is not None:
            self.resume = found
            # An earlier process's, from before the one that this one went on with: what was said then is undone.
            if self._plan.environment:  # else nothing was ever begun in this process, and all is said when it is
                preflight.say_of_place(self._plan, found.meta, self._ports.journal)
            return
        self.resume = None
        if self._initial is None:
            raise CheckpointError("there is no checkpoint, and the state at the start was not kept")
        state.restore(self._plan.model, self._initial.tensors, state.LASTING)
        self._callbacks.reset()

    def _inherit(self, resume: TrainingState) -> None:
        """A job that goes on with another one's state goes on with its settings: they are part of the state."""
        log = self._ports.judge.log
        if not log.attempt:
            log.settings = Settings.from_dict(resume.meta["settings"])

    def _renew_data(self, step: int) -> None:
        plan = self._plan
        try:
            plan.training = batches.renewed(plan.training)
            plan.validation = batches.renewed(plan.validation) if plan.validation else None
        except pristine.NotCopyable as error:
            self._tell.semantic_change(f"the data after the roll-back comes in another order: {error}", step)
