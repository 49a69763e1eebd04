"""One training step under recovery: take the batch, train it, and on a fault do what was decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import reduce_per_replica

from mlflow_resilience.core.action import Quarantine
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Phase
from mlflow_resilience.training import mending
from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.boundary import Boundary
from mlflow_resilience.training.cursor import Cursor
from mlflow_resilience.training.microbatch import in_pieces
from mlflow_resilience.training.records import Bad
from mlflow_resilience.training.replicas import fewest_records, records
from mlflow_resilience.training.signs import Signs


class Surroundings(Protocol):
    """What a step needs from the attempt that it belongs to."""

    settings: Settings
    boundary: Boundary
    signs: Signs
    feed: Feed

    def enter(self, phase: Phase) -> None:
        """Training is now in ``phase``."""

    def next_step(self) -> int:
        """The number of the global step about to be done, from 1."""

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        """What is to be done about ``error``, recorded."""

    def in_force(self, decision: Decision) -> None:
        """A decision was carried out in place: its settings hold from now on."""

    def advance(self) -> None:
        """One more batch is done."""

    def stand(self) -> None:
        """Training is at a boundary, and its data where the feed says."""

    def quarantined(self, bad: list[Bad]) -> None:
        """These records are left out."""

    def traced(self, function: Any) -> None:
        """The step was traced: ``function`` is what will run."""

    def recalled(self) -> Any:
        """The results of the last step before a resume."""

    def before(self, step: int, batch: Any) -> Any:
        """The batch to train at ``step``; faults on purpose happen here."""


class Step:
    """Stands in for Keras's train function within `fit`.

    The batch is taken outside of the graph, so that it is still there when training it fails, and waiting for data is
    told apart from computing. The computation is Keras's own, with its element spec, so its bits are Keras's own.
    """

    def __init__(self, model: keras.Model, around: Surroundings, plain: Callable[[Any], Any]) -> None:
        self._model = model
        self._around = around
        self._plain = plain
        self._compiled: dict[tuple[int, bool, float | None], Any] = {}
        self.data_seconds = 0.0

    def __call__(self, cursor: Cursor) -> Any:
        if self._around.feed.recall:
            self._around.feed.recall = False
            return self._around.recalled()
        logs: Any = None
        for _ in range(self._model.steps_per_execution):
            try:
                batch = self._next(cursor)
            except StopIteration:
                if logs is not None:
                    return logs
                return self._run_out(cursor)
            logs = self._train(cursor, batch, logs)
        return logs

    def _next(self, cursor: Cursor) -> Any:
        """The next batch; None where none of its records can be read."""

        def mend(decision: Decision) -> None:
            mending.mend_data(cursor, self._around.feed.position, decision)

        return self._guarded("data", lambda: self._take(cursor), mend, lambda: mending.mendable(cursor))

    def _train(self, cursor: Cursor, batch: Any, logs: Any) -> Any:
        around = self._around
        step = around.next_step()
        if batch is None or step in around.settings.skipped_batches:
            around.advance()
            return logs if logs is not None else self._model.get_metrics_result()

        def mend(decision: Decision) -> None:
            nonlocal batch
            if mending.asks(decision, Quarantine):
                first = (around.feed.position.taken - 1) * (records(batch) or 0)
                batch, bad = mending.without_bad(self._model, batch, first)
                around.boundary.restore()
                around.quarantined(mending.named(cursor, around.feed.position, bad))

        def compute() -> Any:
            nonlocal batch
            batch = around.before(step, batch)  # a record damaged on purpose is there to be found
            return self._compute(cursor, batch)

        phase: Phase = "step" if self._compiled else "trace"
        logs = self._guarded(phase, compute, mend, lambda: records(batch) or 1)
        around.advance()
        return logs

    def _take(self, cursor: Cursor) -> Any:
        started = time.perf_counter()
        try:
            batch = self._around.feed.take(cursor)
        except tf.errors.OutOfRangeError:
            raise StopIteration from None
        finally:
            self.data_seconds += time.perf_counter() - started
        if cursor.records is not None and cursor.records.bad:
            bad, cursor.records.bad = cursor.records.bad, []
            self._around.quarantined(bad)
        return batch

    def _run_out(self, cursor: Cursor) -> Any:
        # Keras's own step, run on an iterator that is at its end, still counts an optimiser step and draws seeds.
        # Plain `fit` does that where the cardinality is unknown, and so must we to end with the same bits: once, though
        # a resume from the validation after it comes by here again.
        around, position = self._around, self._around.feed.position
        if not position.exhausted:
            position.exhausted = True
            if around.feed.num_batches is None and self._model.steps_per_execution == 1:
                around.enter("step")
                self._plain(cursor.iterator)
                around.boundary.passed()
            around.stand()
        raise StopIteration

    def _guarded(
        self,
        phase: Phase,
        operation: Callable[[], Any],
        mend: Callable[[Decision], None],
        mendable: Callable[[], int | None],
    ) -> Any:
        """Run ``operation``; mend and repeat it as long as that is what is decided about its fault.

        ``mendable`` gives the records in the batch; None where nothing can be mended here.
        """
        around = self._around
        while True:
            error: Exception | None = None
            try:
                around.enter(phase)
                return operation()
            except StopIteration:
                raise
            except Exception as caught:
                error = caught
            # Outside of the handler: a live traceback keeps the failed step's tensors in memory.
            whole, size = around.boundary.restore(), mendable()
            decision = around.judge(error, phase, batch_size=size, in_place=whole and size is not None)
            if decision.resumption != "in_place":
                raise error
            del error
            time.sleep(decision.delay)
            around.in_force(decision)
            mend(decision)

    def _compute(self, cursor: Cursor, batch: Any) -> Any:
        pieces = min(self._around.settings.accumulation, fewest_records(batch))
        whole = _fits(batch, cursor.element_spec)
        kind = pieces, whole, self._around.settings.gradient_bound
        function = self._compiled.get(kind)
        if function is not None:
            logs, told, after = function(batch)
        else:
            spec = cursor.element_spec if whole else _of_any_size(cursor.element_spec)
            function = self._compiled[kind] = self._compile(pieces, spec)
            logs, told, after = function(batch)
            self._tell_trace(function)
        self._around.signs.keep(self._around.next_step(), told)
        self._around.boundary.passed(after)
        return logs

    def _tell_trace(self, function: Any) -> None:
        if not self._model.run_eagerly:
            self._around.traced(function.get_concrete_function())

    def _compile(self, pieces: int, element_spec: Any) -> Callable[[Any], Any]:
        model, boundary, signs = self._model, self._around.boundary, self._around.signs
        strategy = model.distribute_strategy
        train_step = in_pieces(model, pieces)

        @tf.autograph.experimental.do_not_convert
        def one_step(data: Any) -> Any:
            outputs = strategy.run(train_step, args=(data,))
            return reduce_per_replica(outputs, strategy, reduction="auto")

        if model.run_eagerly:
            eagerly = signs.beside(model._autoconvert_optionals(one_step))
            return lambda data: (*eagerly(data), None)
        inner = tf.function(one_step, reduce_retracing=True, jit_compile=model.jit_compile)
        inner = signs.beside(model._autoconvert_optionals(inner))

        @tf.autograph.experimental.do_not_convert
        def with_boundary(data: Any) -> Any:
            return (*inner(data), boundary.read())

        return tf.function(with_boundary, input_signature=(element_spec,))


def _fits(batch: Any, spec: Any) -> bool:
    """Whether the batch is as large as its spec says: one that lost bad records may not be."""
    first = tf.nest.flatten(spec)[0]
    fixed = first.shape[0] if isinstance(first, tf.TensorSpec) and first.shape.rank else None
    return fixed is None or fixed == records(batch)


def _of_any_size(spec: Any) -> Any:
    return tf.nest.map_structure(lambda each: tf.TensorSpec((None, *each.shape[1:]), each.dtype), spec)
