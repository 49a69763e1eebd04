"""Where the time of a step goes, with pipelines and models that are slow on purpose."""

from __future__ import annotations

import json
import time
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mlflow_resilience.doctor import speed
from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines import Throughput, Trial, throughput


def model(slow: float = 0.0) -> keras.Model:
    """A model whose step takes so many seconds more."""

    class Slow(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            with tf.control_dependencies([tf.py_function(lambda: time.sleep(slow), [], [])] if slow else []):
                return tf.identity(x)

    made = keras.Sequential([keras.Input((4,)), Slow(), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(), "mse")
    return made


def data(slow: float = 0.0) -> tf.data.Dataset:
    """Batches that take so many seconds to come."""

    def late(x: Any, y: Any) -> Any:
        return tf.py_function(lambda a: time.sleep(slow) or a, [x], tf.float32), y

    x = np.zeros((64, 4), "float32")
    batches = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
    return batches.map(late).map(lambda x, y: (tf.ensure_shape(x, (None, 4)), y)) if slow else batches


def test_a_slow_pipeline_is_what_is_waited_for_and_a_cache_would_help() -> None:
    """0.1 s a batch against a step of next to nothing; what Python does in a map cannot be done in parallel."""
    found = throughput(data(slow=0.1), model(), seconds=0.8)
    assert found.input_bound and found.waiting > 0.5
    assert found.input_seconds > found.compute_seconds
    assert "bound by its input" in found.in_words()
    assert found.helpful[0].name == "cache"
    assert any(each.startswith("parallel maps: Python code") for each in found.not_tried)


def test_a_slow_step_is_not_the_pipelines_fault() -> None:
    """And nothing about the pipeline is said to help."""
    found = throughput(data(), model(slow=0.05), seconds=0.4)
    assert not found.input_bound
    assert found.in_words().startswith("bound by computing")
    assert found.helpful == ()


def test_prefetching_helps_where_both_take_their_time() -> None:
    """Reading and computing at once takes about as long as the longer of the two. (With its tuning on, tf.data
    prefetches by itself.)"""
    untuned = tf.data.Options()
    untuned.autotune.enabled = False
    found = throughput(data(slow=0.06).with_options(untuned), model(slow=0.06), seconds=0.6)
    (prefetch,) = [trial for trial in found.trials if trial.name == "prefetch"]
    assert prefetch.step_seconds < 0.85 * found.step_seconds
    assert "prefetch" in prefetch.remedy


def test_what_is_there_already_is_not_tried() -> None:
    """A pipeline that has it all has nothing to try."""
    whole = data().map(lambda x, y: (x, y), num_parallel_calls=2).cache().prefetch(2)
    found = throughput(whole, model(), seconds=0.1)
    assert found.trials == () and len(found.not_tried) == 3


def test_a_sequential_map_is_tried_in_parallel() -> None:
    """tf.data does it when it is told to; each trial says how to have it for good."""
    found = throughput(data().map(lambda x, y: (x + 1.0, y)).prefetch(1), model(), seconds=0.1)
    assert [trial.name for trial in found.trials] == ["parallel maps", "cache"]
    assert all(trial.batches >= 3 and trial.remedy for trial in found.trials)


def test_the_model_is_left_as_it_was() -> None:
    """Weights, optimiser and seeds are put back, and the model trains on as one that was not measured."""
    keras.utils.set_random_seed(0)
    measured = model()
    keras.utils.set_random_seed(0)
    other = model()
    throughput(data(), measured, seconds=0.1)
    for each in (measured, other):
        each.fit(np.ones((16, 4)), np.ones((16, 1)), epochs=1, verbose=0, shuffle=False)
    for a, b in zip(measured.get_weights(), other.get_weights(), strict=True):
        assert np.array_equal(a, b)


def test_a_verdict_is_a_value() -> None:
    """What helps is a tenth faster at least, the best first; all of it goes into JSON."""
    trials = tuple(
        Trial(name=name, step_seconds=seconds, batches=9, remedy="do it")
        for name, seconds in (("little", 0.095), ("good", 0.05), ("best", 0.02))
    )
    found = Throughput(input_seconds=0.08, compute_seconds=0.02, step_seconds=0.1, trials=trials)
    assert [each.name for each in found.helpful] == ["best", "good"]
    assert json.loads(json.dumps(found.to_dict()))["waiting"] == pytest.approx(0.8)
    assert found.in_words() == (
        "bound by its input: a batch takes 80 ms to come and 20 ms to compute; a step 100 ms, of which 80% is waiting"
    )


def test_the_doctor_tells_it_as_findings() -> None:
    """A warning where training would wait, with the remedies that were tried; a note on arrays, left alone."""
    found = list(speed.measured(data(slow=0.1), model(), 0.8))
    assert [each.severity for each in found] == ["warning", "note", "note"]
    assert found[0].text.startswith("bound by its input") and found[1].text.startswith("tried with cache: ")
    assert ".cache()" in found[1].remedy and found[2].text.startswith("not tried: ")
    (note,) = speed.measured((np.zeros((8, 4)), np.zeros(8)), model(), 0.3)
    assert note.severity == "note"


def test_what_cannot_be_measured_is_refused() -> None:
    """Arrays, a pipeline without batches, a model that is not compiled, and no time."""
    with pytest.raises(UsageError, match=r"a tf.data pipeline is needed, not ndarray"):
        throughput(np.zeros(3), model())
    with pytest.raises(UsageError, match="has no batch"):
        throughput(data().take(0), model())
    with pytest.raises(UsageError, match="compiled"):
        throughput(data(), keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    with pytest.raises(UsageError, match="seconds=0"):
        throughput(data(), model(), seconds=0)
