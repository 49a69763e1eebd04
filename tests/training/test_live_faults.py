"""TensorFlow and Keras really raising: each fault is judged as it is on this machine, a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXPECTED = {
    "input of another shape": "programming_error",
    "target of another shape": "programming_error",
    "shapes that cannot be multiplied": "programming_error",
    "not compiled": "programming_error",
    "a directory read as a file": "programming_error",
    "ValueError in a pipeline": "bad_data",
    "TypeError of None in a pipeline": "bad_data",
    "input/output error in a pipeline": "transient_io",
    "full disk in a pipeline": "disk_full",
    "MemoryError in a pipeline": "host_oom",
    "KeyError in a pipeline": "unknown",
    "RuntimeError in a pipeline": "unknown",
    "NameError in a pipeline": "programming_error",
    "missing file in a pipeline": "bad_data",
    "not a picture": "bad_data",
    "damaged TFRecord": "bad_data",
    "ragged batch": "bad_data",
    "label out of range": "bad_data",
    "more memory than there is": "host_oom",
    "more memory than any machine has": "programming_error",
    "not a number": "divergence",
    "missing checkpoint": "checkpoint_error",
    "damaged checkpoint": "checkpoint_error",
    "checkpoint of another model": "checkpoint_error",
}

SCRIPT = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))  # so that memory which is promised freely is refused here too
import keras, numpy as np, tensorflow as tf
from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import describe
from mlflow_resilience.recoveries import BUILT_IN

folder, judged = sys.argv[1], {}
x, y = np.zeros((32, 8), "float32"), np.zeros((32, 4), "float32")

def judge(name, phase, function):
    try:
        function()
    except Exception as error:
        judged[name] = classify(describe(error, phase=phase, device="CPU"), BUILT_IN).failure_class

def model(units=4):
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(units)])
    model.compile("sgd", "mse")
    return model

def piped(error):
    def read(record):
        raise error
    def load(a, b):
        return tf.ensure_shape(tf.py_function(read, [a], tf.float32), (8,)), b
    data = tf.data.Dataset.from_tensor_slices((x, y)).map(load).batch(8)
    return lambda: model().fit(data, verbose=0)

judge("input of another shape", "trace", lambda: model().fit(np.zeros((32, 9), "float32"), y, verbose=0))
judge("target of another shape", "trace", lambda: model().fit(x, np.zeros((32, 5), "float32"), verbose=0))
multiply = tf.function(tf.matmul, input_signature=[tf.TensorSpec((None, None)), tf.TensorSpec((None, None))])
judge("shapes that cannot be multiplied", "step", lambda: multiply(tf.zeros((2, 3)), tf.zeros((4, 5))))
judge("not compiled", "start", lambda: keras.Sequential([keras.layers.Dense(1)]).fit(x, y, verbose=0))
judge("a directory read as a file", "data", lambda: tf.io.read_file(folder))
judge("ValueError in a pipeline", "data", piped(ValueError("bad record 7")))
judge("TypeError of None in a pipeline", "data", piped(TypeError("'NoneType' object is not subscriptable")))
judge("input/output error in a pipeline", "data", piped(OSError(5, "Input/output error")))
judge("full disk in a pipeline", "data", piped(OSError(28, "No space left on device")))
judge("MemoryError in a pipeline", "data", piped(MemoryError()))
judge("KeyError in a pipeline", "data", piped(KeyError("label")))
judge("RuntimeError in a pipeline", "data", piped(RuntimeError("the reactor melted")))
judge("NameError in a pipeline", "data", piped(NameError("name 'q' is not defined")))
judge("missing file in a pipeline", "data", lambda: tf.io.read_file(folder + "/none.png"))
judge("not a picture", "data", lambda: tf.io.decode_jpeg(b"no picture"))
with open(folder + "/damaged", "wb") as file:
    file.write(b"garbage" * 10)
judge("damaged TFRecord", "data", lambda: list(tf.data.TFRecordDataset(folder + "/damaged")))
rows = tf.data.Dataset.from_generator(lambda: (np.zeros(i) for i in range(4)), output_signature=tf.TensorSpec((None,)))
judge("ragged batch", "data", lambda: list(rows.batch(2)))
cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
judge("label out of range", "step", lambda: cross_entropy(labels=[1, 11], logits=tf.zeros((2, 10))))
judge("more memory than there is", "step", lambda: tf.ones((1_000_000, 4_000_000)))
judge("more memory than any machine has", "step", lambda: tf.ones((4_000_000, 40_000_000)))
judge("not a number", "step", lambda: tf.debugging.check_numerics(tf.constant([float("nan")]), "loss"))
judge("missing checkpoint", "start", lambda: keras.saving.load_model(folder + "/none.keras"))
with open(folder + "/damaged.keras", "wb") as file:
    file.write(b"xx")
judge("damaged checkpoint", "start", lambda: keras.saving.load_model(folder + "/damaged.keras"))
model().save_weights(folder + "/x.weights.h5")
judge("checkpoint of another model", "start", lambda: model(5).load_weights(folder + "/x.weights.h5"))
print(json.dumps(judged))
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each fault was judged to be; in a process of its own, for TensorFlow may not have run before a fork."""
    folder = tmp_path_factory.mktemp("faults")
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_judged_as_it_is(judged: dict[str, str], name: str) -> None:
    """The real exception, with the text of the TensorFlow that is installed."""
    assert judged.get(name) == EXPECTED[name]
