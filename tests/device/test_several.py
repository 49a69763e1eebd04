"""`devices` of the main job: several replicas of a model in one process, from the command line to MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edges.main_job import Ended, train

pytestmark = pytest.mark.timeout(900)

RECIPE = """
import keras, numpy as np

def load_data(params):
    x = np.random.default_rng(0).normal(size=(320, 8)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("int32")
    return (x[:256], y[:256]), (x[256:], y[256:])

def build_model(params):
    own = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)] if OWN else []
    layers = [keras.layers.Dense(16, "relu"), *own, keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((8,)), *layers])
    optimizer = keras.optimizers.Adam(params["learning_rate"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
"""


def run(folder: Path, *options: str, own: bool = True) -> Ended:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.py").write_text(f"OWN = {own}\n{RECIPE}")
    home = str(folder / "home")
    options = ("recipe.py", "--epochs", "3", "--checkpoint-every", "3steps", *options)
    return train(folder, *options, timeout=400, MLFLOW_RESILIENCE_HOME=home)


def digest(ended: Ended) -> str:
    """Of the final model of the newest job, over every replica."""
    assert ended.code == 0, ended.output
    (model,) = [each for each in ended.client.search_logged_models(["0"]) if each.source_run_id == newest(ended)
                and each.name == "model"]  # fmt: skip
    return str(model.tags["resilience.digest"])


def newest(ended: Ended) -> str:
    return str(ended.jobs()[0].info.run_id)


def test_another_number_of_devices_than_there_can_be_is_refused(tmp_path: Path) -> None:
    """In one line, before anything starts."""
    for options, text in [
        (("--devices", "0"), "devices=0: auto, or a whole number, 1 or more, is needed"),
        (("--devices", "all"), "devices=all: auto, or a whole number"),
        (("--devices", "64"), "batch_size=32 is that of all devices=64 together"),
        (("--devices", "2", "--engine", "ray"), "with engine=ray each worker has one"),
    ]:
        ended = run(tmp_path, *options)
        assert ended.code == 2 and text in ended.output and len(ended.output.strip().splitlines()) == 1
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.full
@pytest.mark.parametrize("devices", ["2", "4"])
def test_a_kill_leaves_no_trace(tmp_path: Path, devices: str) -> None:
    """Bit for bit, with what each replica has of its own; and it is another training than on one device."""
    undisturbed = run(tmp_path / "undisturbed", "--devices", devices)
    struck = run(tmp_path / "struck", "--devices", devices, "--fault", "kill@13")
    assert digest(struck) == digest(undisturbed)
    (job,) = struck.jobs()
    assert job.data.tags["resilience.outcome"] == "recovered" and job.data.params["devices"] == devices
    assert "resilience.semantic_changes" not in job.data.tags
    assert f"trained on {devices} devices that share the processor" in struck.output
    assert digest(run(tmp_path / "one")) != digest(undisturbed)


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), [("2", "4"), ("2", "1"), ("1", "2")])
def test_a_job_goes_on_with_another_number_of_them_and_says_so(tmp_path: Path, before: str, after: str) -> None:
    """Found by `resume=auto`, trained to the end, and declared as a change."""
    stopped = run(tmp_path, "--devices", before, "--fault", "bug@14")
    assert stopped.code == 1, stopped.output
    ended = run(tmp_path, "--devices", after, "--fault", "bug@14")  # the same job: it has struck already
    assert ended.code == 0, ended.output
    job = ended.jobs()[0]
    assert int(job.data.tags["resilience.resumed_from_step"]) >= 8
    told = job.data.tags["resilience.semantic_changes"]
    assert "another order" not in told
    assert f"replicas, each with its part of every batch: {before} -> {after}" in told
    assert max(point.step for point in ended.client.get_metric_history(job.info.run_id, "loss")) == 24


@pytest.mark.full
def test_without_anything_of_their_own_it_differs_by_rounding_alone(tmp_path: Path) -> None:
    """The effective batch and the order of the data are the same: one device to the end, or two from step 8 on."""
    losses = []
    for name, more in [("one", ()), ("two", ("--devices", "2"))]:
        stopped = run(tmp_path / name, "--fault", "bug@14", own=False)
        assert stopped.code == 1, stopped.output
        ended = run(tmp_path / name, "--fault", "bug@14", *more, own=False)
        assert ended.code == 0, ended.output
        losses.append(ended.jobs()[0].data.metrics["val_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
