"""The work of scripts/check_gpu: a report of the GPUs, and three trainings on them that meet a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mlflow_resilience import telemetry  # noqa: E402
from mlflow_resilience.spool.folder import jobs  # noqa: E402
from mlflow_resilience.spool.record import JobRecord  # noqa: E402

FINE, FAILED = 0, 1
SECONDS = 900  # for one training

#: A batch that does not fit into the memory that it may use, and an eighth of which does.
TOO_LARGE = """
import keras, numpy as np, tensorflow as tf

WIDTH, BATCH, LIMIT_MB = 4096, 32768, 3072

for device in tf.config.list_physical_devices("GPU"):
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=LIMIT_MB)
    tf.config.set_logical_device_configuration(device, [limit])

def build_model(params):
    layers = [keras.layers.Dense(WIDTH, "relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model

def load_data(params):
    x = np.random.default_rng(0).normal(size=(2 * BATCH, 64)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(BATCH), None
"""


@dataclass(frozen=True)
class Check:
    """A training with a fault, and what has to come of it."""

    name: str
    options: tuple[str, ...]
    expected: tuple[str, ...]  # failure classes, any of which
    recipe: str = ""

    def run(self) -> list[str]:
        """What is wrong; nothing, if all is well."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "recipe.py").write_text(self.recipe)
            recipe = ["recipe.py"] if self.recipe else []
            command = [sys.executable, "-m", "mlflow_resilience.cli", "train", *recipe, *self.options]
            paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
            environ = {**os.environ, "PYTHONPATH": paths, "MLFLOW_RESILIENCE_HOME": str(folder / "home")}
            environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
            done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS)
            record = JobRecord.read(jobs(folder / "home")[0].journal)
        if problems := self._problems(done.returncode, record):
            return [*problems, *(done.stdout + done.stderr).splitlines()[-20:]]
        return []

    def _problems(self, code: int, record: JobRecord) -> list[str]:
        problems = [] if code == 0 else [f"it ended with {code}"]
        classes = {fault.failure_class for fault in record.faults}
        if not classes & set(self.expected):
            problems.append(f"its faults were judged {sorted(classes)}, and {' or '.join(self.expected)} was expected")
        if record.outcome != "recovered":
            problems.append(f"its outcome is {record.outcome}")
        return problems


CHECKS = (
    Check("oom under Keras's default jit", ("--epochs", "1", "--fault", "oom@20"), ("device_oom", "host_oom")),
    Check("kill", ("--epochs", "1", "--fault", "kill@20"), ("process_death",)),
    Check("micro-batches", ("--epochs", "2", "--max-attempts", "10"), ("device_oom", "process_death"), TOO_LARGE),
)


def tensorflow_report() -> dict[str, Any]:
    """TensorFlow's devices and its allocator's figures."""
    import keras
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    with tf.device("GPU:0" if devices else "CPU:0"):
        tf.reduce_sum(tf.ones((1024, 1024))).numpy()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    details = [dict(tf.config.experimental.get_device_details(device)) for device in devices]
    figures = {device.name: tf.config.experimental.get_memory_info(f"GPU:{at}") for at, device in enumerate(devices)}
    return {
        "devices": [device.name for device in devices],
        "details": details,
        "allocator": figures,
        "default_jit": bool(model.jit_compile),
    }


def main() -> int:
    facts = telemetry.environment()
    if not facts.get("gpus"):
        why = f" ({facts['gpu_problem']})" if facts.get("gpu_problem") else ""
        print(f"there is no GPU to check: no NVIDIA driver reports one{why}")
        return FINE
    told = {"machine": facts, "tensorflow": tensorflow_report(), "memory": telemetry.snapshot()}
    print(json.dumps(told, indent=1, default=str), flush=True)
    if not told["tensorflow"]["devices"]:
        print("the driver reports GPUs, and TensorFlow sees none: install tensorflow[and-cuda]")
        return FAILED
    if "--only-report" in sys.argv:
        return FINE
    code = FINE
    for check in CHECKS:
        problems = check.run()
        print(f"{check.name}: {'; '.join(problems[:3]) if problems else 'recovered'}", flush=True)
        print(*problems[3:], sep="\n", end="\n" if problems[3:] else "")
        code = FAILED if problems else code
    return code


if __name__ == "__main__":
    sys.exit(main())
