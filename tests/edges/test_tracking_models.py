"""Checkpoints as LoggedModels: the folder is what MLflow itself would write, and loads as an ordinary Keras model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import Job, until

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
REQUIREMENTS = ["tensorflow==2.21.0", "keras==3.15.1"]


@pytest.fixture(scope="module")
def trained() -> Any:
    """A small compiled model with an optimiser that has made steps."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    model.fit(np.ones((8, 4), "float32"), np.zeros((8, 1), "float32"), epochs=2, verbose=0)
    return model


def spool_model(job: Job, trained: Any, local_id: str, step: int, name: str = "checkpoint", padding: int = 0) -> Path:
    """What training leaves for the sender: the Keras model, the training state, a description."""
    folder = job.folder.artifacts / f"model-{local_id}"
    state = folder / "training_state"
    state.mkdir(parents=True)
    (state / "state.json").write_text(json.dumps({"step": step}))
    (state / "state.safetensors").write_bytes(b"tensors" + bytes(padding))
    if trained is not None:
        trained.save(folder / "model.keras")
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [None, 4]}],
                 "outputs": [{"name": "y", "dtype": "float32", "shape": [None, 1]}]}  # fmt: skip
    (folder / "model.json").write_text(json.dumps({"signature": signature, "requirements": REQUIREMENTS}))
    job.append(
        "model", local_id=local_id, name=name, attempt=1, step=step, epoch=1, digest=f"d{step}", folder=str(folder),
        tags={}, metrics={"loss": 0.5}, delete_after_upload=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def job(place: Path, trained: Any) -> Iterator[Job]:
    job = Job(place / "home", f"sqlite:///{place}/mlflow.db")
    job.start_sender(cwd=place)
    job.attempt(1)
    yield job
    if job.sender is not None and job.sender.poll() is None:
        job.kill_sender()
    job.release()


def model_id(job: Job, local_id: str) -> str:
    return str(until(lambda: job.state.get("models", {}).get(f"{job.folder.job_id}/{local_id}"), what="a logged model"))


@pytest.fixture(scope="module")
def client(place: Path, job: Job) -> Any:
    import mlflow

    job.run_id()
    mlflow.set_tracking_uri(f"sqlite:///{place}/mlflow.db")
    return mlflow.MlflowClient()


def test_the_folder_is_as_mlflow_writes_it(trained: Any, tmp_path: Path) -> None:
    """Same files, same MLmodel (but for ids and times), same contents of the small files."""
    import mlflow
    from mlflow.models import Model

    from mlflow_resilience.tracking.compose import compose, signature_of

    source = tmp_path / "source"
    (source / "training_state").mkdir(parents=True)
    (source / "training_state" / "state.json").write_text("{}")
    trained.save(source / "model.keras")
    specs = {
        "inputs": [{"dtype": "float32", "shape": [None, 4]}],
        "outputs": [{"dtype": "float32", "shape": [None, 1]}],
    }
    (source / "model.json").write_text(json.dumps({"signature": specs, "requirements": REQUIREMENTS}))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    compose(source, ours, Model(run_id="r", model_uuid="m", model_id="m"))
    mlflow.tensorflow.save_model(
        trained,
        str(theirs),
        mlflow_model=Model(run_id="r", model_uuid="m", model_id="m"),
        pip_requirements=REQUIREMENTS,
        signature=signature_of(specs),
        extra_files=[str(source / "training_state")],
    )
    assert tools.artifacts(ours) == tools.artifacts(theirs)
    for name in ("data/keras_module.txt", "data/save_format.txt", "conda.yaml", "requirements.txt", "python_env.yaml"):
        assert (ours / name).read_text() == (theirs / name).read_text(), name
    mlmodels = [yaml.safe_load((folder / "MLmodel").read_text()) for folder in (ours, theirs)]
    for mlmodel in mlmodels:
        for varying in ("utc_time_created", "model_size_bytes"):
            assert mlmodel.pop(varying)
    assert mlmodels[0] == mlmodels[1]


def test_a_checkpoint_becomes_a_logged_model(job: Job, client: Any, trained: Any) -> None:
    """READY, tagged, its metrics linked without a second point; it loads with its optimiser; nothing waits on disk."""
    import mlflow
    import numpy as np

    ms = 1_700_000_000_000
    job.append("points", attempt=1, points=[["loss", 10, 0.5, ms]])
    job.checkpoint(1, 10)
    folder = spool_model(job, trained, "c10", 10)
    found = client.get_logged_model(model_id(job, "c10"))
    assert (str(found.status), found.name, found.source_run_id) == ("READY", "checkpoint", job.run_id())
    expected = {"step": "10", "epoch": "1", "digest": "d10", "loads_standalone": "true"}
    assert {key: found.tags[f"resilience.{key}"] for key in expected} == expected
    assert [(metric.key, metric.value, metric.step) for metric in found.metrics] == [("loss", 0.5, 10)]
    assert [(point.step, point.timestamp) for point in client.get_metric_history(job.run_id(), "loss")] == [(10, ms)]
    outputs = client.get_run(job.run_id()).outputs.model_outputs
    assert [(each.model_id, each.step) for each in outputs] == [(found.model_id, 10)]
    loaded = mlflow.tensorflow.load_model(f"models:/{found.model_id}")
    for mine, theirs in zip(trained.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert int(loaded.optimizer.iterations.numpy()) == int(trained.optimizer.iterations.numpy()) > 0
    batch = np.ones((2, 4), "float32")
    predicted = mlflow.pyfunc.load_model(f"models:/{found.model_id}").predict(batch)
    np.testing.assert_allclose(predicted, trained.predict(batch, verbose=0))
    state = client.list_logged_model_artifacts(found.model_id, "extra_files/training_state")
    assert {Path(each.path).name for each in state} == {"state.json", "state.safetensors"}
    until(lambda: not folder.exists(), what="the uploaded folder is deleted")


def test_a_model_that_does_not_load_alone(job: Job, client: Any) -> None:
    """Without a Keras file the training state is logged, and the tag says so."""
    spool_model(job, None, "c11", 11)
    found = client.get_logged_model(model_id(job, "c11"))
    assert str(found.status) == "READY"
    assert found.tags["resilience.loads_standalone"] == "false"
    assert client.list_logged_model_artifacts(found.model_id, "extra_files/training_state")


def test_superseded_models_go_with_their_files(job: Job, client: Any, place: Path) -> None:
    """Except those that are registered, tagged by a user, or resumed from elsewhere."""
    from mlflow.exceptions import MlflowException

    names = ("plain", "registered", "tagged", "source")
    for number, name in enumerate(names):
        spool_model(job, None, name, 20 + number)
    ids = {name: model_id(job, name) for name in names}
    where = {name: Path(client.get_logged_model(ids[name]).artifact_location.removeprefix("file://")) for name in names}
    client.create_registered_model("keeper")
    client.create_model_version("keeper", f"models:/{ids['registered']}", model_id=ids["registered"])
    client.set_logged_model_tags(ids["tagged"], {"favourite": "yes"})
    other = client.create_run("0", tags={"resilience.resumed_from_model": ids["source"]})
    client.set_terminated(other.info.run_id)
    experiment = client.get_run(job.run_id()).info.experiment_id
    mine = client.create_run(experiment, tags={"resilience.resumed_from_model": ids["source"]})
    client.set_terminated(mine.info.run_id)
    assert all(folder.exists() for folder in where.values())
    for name in names:
        job.append("model_superseded", local_id=name)
    job.append("model_superseded", local_id="never-there")
    job.append("tags", run="job", tags={"marker": "after"})
    until(lambda: tools.tags(place / "mlflow.db", job.run_id()).get("marker"), what="delivery went on")
    with pytest.raises(MlflowException):
        client.get_logged_model(ids["plain"])
    assert not [path for path in where["plain"].rglob("*") if path.is_file()]
    for name in names[1:]:
        assert str(client.get_logged_model(ids[name]).status) == "READY", name


def test_killed_during_the_upload(job: Job, client: Any, trained: Any, place: Path) -> None:
    """A sender killed with a model PENDING: the next one finishes that very model."""
    query = "select model_id from logged_models where lifecycle_stage='active' and name='checkpoint' and status=1"
    folder = spool_model(job, trained, "k40", 40, padding=96 << 20)
    ((begun,),) = until(lambda: tools.rows(place / "mlflow.db", query), what="an upload")
    job.kill_sender()
    assert folder.exists()
    assert str(client.get_logged_model(begun).status) == "PENDING"
    job.start_sender(cwd=place)
    assert model_id(job, "k40") == begun
    assert str(client.get_logged_model(begun).status) == "READY"
    assert tools.rows(place / "mlflow.db", query) == []
    outputs = [each.model_id for each in client.get_run(job.run_id()).outputs.model_outputs]
    assert outputs.count(begun) == 1


def test_the_final_model(job: Job, client: Any, trained: Any) -> None:
    """Named ``model``, registrable; the job ends FINISHED with nothing refused."""
    spool_model(job, trained, "final", 99, name="model")
    job.end_attempt(1, "FINISHED", 99)
    job.end()
    assert job.finish(90) == 0, job.log()
    found = client.get_logged_model(model_id(job, "final"))
    assert (found.name, str(found.status)) == ("model", "READY")
    assert client.get_run(job.run_id()).info.status == "FINISHED"
    assert job.state["problems"] == []
