"""The callback that watches a training, and says what ails it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from mlflow_resilience.diagnostics import judging, outlet
from mlflow_resilience.diagnostics.layout import Layout, layout_of
from mlflow_resilience.diagnostics.measuring import Gauge
from mlflow_resilience.diagnostics.outlet import Outlet
from mlflow_resilience.diagnostics.recorder import Recorder
from mlflow_resilience.diagnostics.table import metrics, table, tags
from mlflow_resilience.diagnostics.trace import Trace
from mlflow_resilience.diagnostics.verdict import Verdict
from mlflow_resilience.diagnostics.weights import Sampler
from mlflow_resilience.errors import UsageError
from mlflow_resilience.training import learning_rate


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """Training does not suffer from what fails in here: diagnostics end, and that is said."""

    @functools.wraps(method)
    def guarded(self: Diagnostics, *args: Any, **kwargs: Any) -> None:
        if self.failure:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self._fail(error)

    return guarded


class Diagnostics(keras.callbacks.Callback):
    """Records gradients, weights, updates and losses, and judges them; works under plain `fit` and under ours.

    A reading is taken every ``every`` steps (with `steps_per_execution`, of the last step of such an execution); the
    training is the same with it and without, bit for bit. ``trace`` is what was recorded, ``verdicts`` what it means.

    Under `mlflow_resilience.fit` and in recipes all is told through the job's journal: metrics ``diagnostics/...``, an
    event for each new verdict, tags ``resilience.diagnostics...``, a table and a figure. Under plain `fit` the same is
    logged at the end, to the MLflow run that is open when training begins; with ``log=False``, or no run, nowhere.

    Raises UsageError where ``every`` is no number from 1.
    """

    def __init__(self, every: int = 50, *, log: bool = True) -> None:
        super().__init__()
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise UsageError(f"Diagnostics(every=...) is a number of steps from 1, and not {every!r}")
        self.every = every
        self.failure = ""  # why nothing more is recorded
        self.outlet: Outlet | None = None  # that `fit` has given; nobody else's is kept from one training to the next
        self._log = log
        self._own: Outlet | None = None
        self._recorder = Recorder()
        self._layout: Layout | None = None
        self._gauge: Gauge | None = None
        self._sampler: Sampler | None = None
        self._before: Any = None  # the sample of the weights before a step that is looked at, and how many were done
        self._from = 0
        self._after: Any = None  # the sample after the last one; where the next one is looked at too, it is taken once

    @property
    def trace(self) -> Trace:
        """What was recorded so far."""
        return self._recorder.trace()

    @property
    def verdicts(self) -> list[Verdict]:
        """What is wrong with the training, as it is now; worst first."""
        return judging.verdicts(self.trace)

    def get_state(self) -> dict[str, Any]:
        """All that was recorded: a resumed training has one trace."""
        return self._recorder.to_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`get_state`."""
        self._recorder = Recorder.from_state(state)
        self._after = None

    # -- Keras's calls -----------------------------------------------------------------------------------------------

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.failure = ""
        self._recorder = Recorder()
        self._layout = self._before = self._after = None
        self._own = outlet.active_run() if self._log and self.outlet is None else None
        self._begin()

    @_harmless
    def _begin(self) -> None:
        # One that was traced by an earlier fit knows nothing of what we add.
        self.model.make_train_function(force=True)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._recorder.begin_epoch(epoch)
        self._after = None

    @_harmless
    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._layout is None:
            self._prepare()
        assert self._gauge is not None and self._sampler is not None
        done, after, self._after = self._recorder.epoch_start + batch, self._after, None
        due = (done + self.model.steps_per_execution) // self.every > done // self.every
        self._gauge.want(due)
        if due:
            self._before, self._from = self._sampler.take()[0] if after is None else after, done

    @_harmless
    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._recorder.steps = self._recorder.epoch_start + batch + 1
        if self._before is not None:
            before, self._before = self._before, None
            self._read(before, logs or {})

    @_harmless
    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        told = logs or {}
        self._recorder.end_epoch(epoch, _number(told, "loss"), _number(told, "val_loss"), self._rate())
        for verdict in self.verdicts:
            if verdict.symptom not in self._recorder.told:
                self._recorder.told.append(verdict.symptom)
                if (to := self._to) is not None:
                    to.verdict(self._recorder.steps, verdict)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._finish()
        if self._gauge is not None:
            self._gauge.remove()
            self.model.train_function = None
        self._gauge = self._sampler = self._layout = None

    # ----------------------------------------------------------------------------------------------------------------

    @property
    def _to(self) -> Outlet | None:
        return self.outlet if self.outlet is not None else self._own

    def _prepare(self) -> None:
        self._layout = layout_of(self.model)
        self._gauge = Gauge(self.model, self._layout)
        rate = learning_rate.variable(self.model)
        self._sampler = Sampler(self._layout, self._gauge.told, *([] if rate is None else [rate]))
        self._recorder.layers = self._layout.layers

    def _read(self, before: Any, logs: dict[str, Any]) -> None:
        assert self._gauge is not None and self._sampler is not None and self._layout is not None
        after, (told, *rates) = self._sampler.take()
        taken = self._gauge.norms(told.numpy())
        if taken is None:  # the step was left out, or is only shown once more
            return
        norms, units = taken
        self._after = after
        recorder = self._recorder
        statistics = self._sampler.statistics(before, after, recorder.steps - self._from)
        shares = recorder.silenced(units, self._layout.units)
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, as it is in the graph
            values = np.concatenate([norms[:, np.newaxis], statistics, shares], axis=1).astype(np.float32)
        rate = float(rates[0]) if rates else self._rate()
        recorder.add(self._loss(_number(logs, "loss")), rate, values)
        if self._to is not None:
            self._to.points(recorder.steps, metrics(recorder.last()))

    def _loss(self, told: float) -> float:
        """The mean since the reading before; what a `train_step` of the user's own calls loss is taken as it is."""
        trackers = [each for each in self.model.metrics if each.name == "loss" and isinstance(each, keras.metrics.Mean)]
        return self._recorder.loss_since(told) if trackers else told

    def _rate(self) -> float:
        optimizer = getattr(self.model, "optimizer", None)
        return float(optimizer.learning_rate) if optimizer is not None else math.nan

    @_harmless
    def _finish(self) -> None:
        to = self._to
        if to is None or not len(self._recorder.readings):
            return
        from mlflow_resilience.diagnostics.figure import png

        trace = self.trace
        found = judging.verdicts(trace)
        to.finish(table(trace, found, self.every), tags(found), png(trace, found))

    def _fail(self, error: Exception) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        text = f"diagnostics end here, and training goes on without: {self.failure}"
        if self._gauge is not None:
            self._gauge.remove()
        warnings.warn(text, stacklevel=4)
        if self._to is not None:
            self._to.failed(self._recorder.steps, text)


def _number(logs: dict[str, Any], name: str) -> float:
    try:
        return float(logs.get(name, math.nan))
    except (TypeError, ValueError):
        return math.nan
