"""Steps done together: each rank computes its part of the batch, and all add up what came of it.

TensorFlow's collectives run between the processes of ``TF_CONFIG``. Variables stay plain
ones, equal in every rank after every step: the state of one is that of all. Under `MultiWorkerMirroredStrategy` Keras
3.15 cannot train (its loop converts a value of several replicas to a tensor), so only its cluster is used here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.errors import UsageError

_GROUP_KEY = 71


class Collective:
    """The cluster's sums, of one rank's point of view."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy() if size > 1 else None  # its servers, for good
        self._key = 0
        self.asked = tf.Variable(0.0, trainable=False, name="stop_asked_here")
        self.agreed = tf.Variable(0.0, trainable=False, name="stop_agreed")

    def attach(self, model: keras.Model) -> None:
        """Let ``model`` do its steps together with the other ranks. UsageError where it has a step of its own."""
        if type(model).train_step is not keras.Model.train_step:
            raise UsageError(f"engine=ray: {type(model).__name__} has a train_step of its own, which cannot be divided")
        if model.optimizer is None:
            raise UsageError("engine=ray: the model has no optimiser")
        model.jit_compile = False  # a collective is no part of a compiled cluster
        _Divided(self, model)

    def sum(self, tensors: list[Any]) -> list[Any]:
        """The sums over all ranks, in one exchange for each type of number."""
        if self.size == 1:
            return tensors
        results: list[Any] = list(tensors)
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            chosen = [index for index, tensor in enumerate(tensors) if tensor.dtype == dtype]
            flat = [tf.reshape(tensors[index], [-1]) for index in chosen]
            parts = tf.split(self._exchange(tf.concat(flat, axis=0)), [tf.size(part) for part in flat], num=len(flat))
            for index, part in zip(chosen, parts, strict=True):
                results[index] = tf.reshape(part, tf.shape(tensors[index]))
        return results

    def _exchange(self, tensor: Any) -> Any:
        self._key += 1  # the same in every rank, since all trace the same steps in the same order
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor,
            group_size=self.size,
            group_key=_GROUP_KEY,
            instance_key=self._key,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="auto",
            timeout_seconds=0,
        )


class _Divided:
    """Stands in for a model's `train_step`, and for its optimiser's `apply_gradients`."""

    def __init__(self, collective: Collective, model: keras.Model) -> None:
        self._collective, self._model = collective, model
        self._plain: Callable[[Any], Any] = model.train_step
        self._weight: Any = None
        model.train_step = self._train_step
        model.optimizer.apply_gradients = self._apply_gradients

    def _train_step(self, data: Any) -> Any:
        part, weight, counts = self._part(data)
        metrics = [_tensor_of(each) for each in self._model.metrics_variables if _is_sum(each)]
        before = [tf.identity(each.read_value()) for each in metrics]
        self._weight = weight
        with tf.control_dependencies(before):
            logs = self._plain(part)
        if len(before) != sum(map(_is_sum, self._model.metrics_variables)):
            raise UsageError("engine=ray: a metric makes variables in its first step; build it with the model")
        with tf.control_dependencies([each for each in tf.nest.flatten(logs) if each is not None]):
            self._add_up(metrics, before, weight, counts)
        return self._model.get_metrics_result()

    def _part(self, data: Any) -> tuple[Any, Any, Any]:
        """Our records of a batch, their share of it, and 0 where there are none: then one record stands in."""
        rank, size = self._collective.rank, self._collective.size
        records = tf.shape(next(each for each in tf.nest.flatten(data) if each is not None))[0]
        first, last = rank * records // size, (rank + 1) * records // size
        weight = tf.cast(last - first, tf.float32) / tf.cast(records, tf.float32)
        begin = tf.minimum(first, records - 1)
        end = tf.maximum(last, begin + 1)
        part = tf.nest.map_structure(lambda each: None if each is None else each[begin:end], data)
        return part, weight, tf.cast(last > first, tf.float32)

    def _apply_gradients(self, grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        present = [gradient is not None for gradient, _ in pairs]
        dense = [tf.convert_to_tensor(gradient) for gradient, _ in pairs if gradient is not None]
        summed = iter(self._collective.sum([each * tf.cast(self._weight, each.dtype) for each in dense]))
        grads = [next(summed) if there else None for there in present]
        optimizer = self._model.optimizer
        return type(optimizer).apply_gradients(optimizer, zip(grads, [variable for _, variable in pairs], strict=True))

    def _add_up(self, metrics: list[Any], before: list[Any], weight: Any, counts: Any) -> None:
        """Sums of metrics grow by what every rank has added; moving statistics are averaged by records."""
        statistics = [_tensor_of(each) for each in self._model.non_trainable_variables if _is_sum(each)]
        grown = [
            tf.where(counts > 0, each.read_value() - old, tf.zeros_like(old))
            for each, old in zip(metrics, before, strict=True)
        ]
        shares = [each.read_value() * tf.cast(weight, each.dtype) for each in statistics]
        asked, *rest = self._collective.sum([self._collective.asked.read_value(), *grown, *shares])
        self._collective.agreed.assign(asked)
        for variable, old, more in zip(metrics, before, rest[: len(metrics)], strict=True):
            variable.assign(old + more)
        for variable, value in zip(statistics, rest[len(metrics) :], strict=True):
            variable.assign(value)


def _is_sum(variable: Any) -> bool:
    """Whether it is a number that records add to; a seed's state, say, is no such number."""
    return bool(tf.as_dtype(variable.dtype).is_floating)


def _tensor_of(variable: Any) -> Any:
    return getattr(variable, "_value", variable)
