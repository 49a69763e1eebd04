"""``mlflow-resilience run -- python train.py``: an unchanged script, killed in mid-epoch, ends bit for bit the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_resilience.cli.run import _with_our_fit

SCRIPT = """
import hashlib, os, sys
import numpy as np
from tensorflow import keras

keras.utils.set_random_seed(1)
x = np.random.rand(640, 8).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile("adam", "mse")

class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 37 and not os.path.exists("mark") and sys.argv[1] == "kill":
            open("mark", "w").close()
            os.kill(os.getpid(), 9)

history = model.fit(x, y, epochs=3, batch_size=32, verbose=0, callbacks=[Kill()])
weights = b"".join(variable.numpy().tobytes() for variable in model.variables)
print("END", len(history.history["loss"]), hashlib.sha256(weights).hexdigest())
"""


def end(folder: Path, *command: str) -> str:
    environ = {
        **os.environ,
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_RESILIENCE_HOME": str(folder / "home"),
    }
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("END"))


@pytest.mark.full
def test_an_unchanged_script_survives_a_kill_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    plain = end(tmp_path, sys.executable, "train.py", "plain")
    supervised = [sys.executable, "-m", "mlflow_resilience.cli", "run", "--delivery-seconds", "0", "--"]
    assert end(tmp_path, *supervised, sys.executable, "train.py", "kill") == plain
    assert (tmp_path / "mark").exists()


def test_a_sitecustomize_of_the_users_own_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    path = os.pathsep.join([_with_our_fit()["PYTHONPATH"], str(tmp_path)])
    command = [sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    mine, ours = done.stdout.splitlines()
    assert mine == "mine"
    assert "startup" in ours
