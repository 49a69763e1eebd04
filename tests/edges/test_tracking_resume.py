"""Which earlier job is resumed: local folders first, then MLflow's logged checkpoints alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Metric
from mlflow.store.entities import PagedList

from mlflow_resilience.spool.journal import read
from mlflow_resilience.tracking.candidates import Question
from mlflow_resilience.tracking.carrying import CARRIED, Carrying
from mlflow_resilience.tracking.lookup import Lookup
from mlflow_resilience.tracking.publisher import EventFiles
from mlflow_resilience.tracking.scout import Scout
from mlflow_resilience.tracking.state import SenderState
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import Job, until

KEY = {"resilience.resume_key": "key"}


def never() -> Any:
    raise AssertionError("MLflow was asked although the local folders decide")


class World:
    """Earlier jobs in one home, without MLflow, and a new one that asks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs: list[Job] = []

    def earlier(
        self, steps: tuple[int, ...] = (10,), outcome: str | None = None, alive: bool = False, **job: Any
    ) -> Job:
        job.setdefault("tags", KEY)
        job.setdefault("params", {"epochs": "3", "recover": "true", "fault": ""})
        made = Job(self.home, None, owned=alive, **job)
        target = self.home / "jobs" / f"2020010{len(self.jobs)}-000000-abcdef"  # a second holds several: set the order
        made.attempt(1)
        made.points(1, 1, 15)
        for step in steps:
            folder = made.folder.checkpoints / f"step-{step:010d}"
            folder.mkdir()
            (folder / "state.json").write_text("{}")
            made.checkpoint(1, step)
        if outcome is not None:
            made.end(outcome)
        made.journal.flush()
        if not alive:
            made.release()
            made.folder.path.rename(target)
            made.folder = type(made.folder)(target)
        self.jobs.append(made)
        return made

    def ask(self, client: Any = never, **question: Any) -> dict[str, Any]:
        new = Job(self.home, None)
        self.jobs.append(new)
        fields = {"resume_key": "key", "epochs": 3, "experiment": "test", **question}
        answer = Lookup(new.folder, client, SenderState()).answer(Question(own_job=new.folder.job_id, **fields))
        assert answer["text"].count("\n") == 0
        return answer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    for job in world.jobs:
        job.release()


class Nothing:
    """A store that holds no earlier job."""

    def search_runs(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def get_experiment_by_name(self, name: str) -> Any:
        return type("Experiment", (), {"experiment_id": "1"})()


def test_the_newest_that_did_not_finish(world: World) -> None:
    """By its newest checkpoint, with the curve up to there."""
    world.earlier((5,))
    newest = world.earlier((5, 10))
    answer = world.ask()
    assert (answer["found"], answer["from_job"], answer["from_step"]) == (True, newest.folder.job_id, 10)
    assert answer["checkpoint_folder"] == str(newest.folder.checkpoints)
    assert "died" in answer["text"]
    carried = json.loads(Path(answer["carried_points_path"]).read_text())
    assert [point[1] for point in carried] == list(range(1, 16))


@pytest.mark.parametrize(
    "other",
    [
        {"tags": {"resilience.resume_key": "another"}},
        {"tags": {}},
        {"experiment": "another"},
        {"params": {"epochs": "3", "recover": "false", "fault": ""}},
        {"params": {"epochs": "3", "recover": "true", "fault": "oom@5"}},
        {"alive": True},
        {"outcome": "clean"},
        {"outcome": "recovered"},
    ],
)
def test_what_auto_does_not_resume(world: World, other: dict[str, Any]) -> None:
    """Another key, experiment, recover or fault; a living job; a finished one with no more epochs to do."""
    world.earlier(**other)
    answer = world.ask(client=Nothing)
    assert not answer["found"]
    assert answer["text"].startswith("starting at step 0")
    assert answer["refused"] is None


def test_a_finished_job_with_more_epochs_to_do(world: World) -> None:
    """Is continued; the words say why."""
    world.earlier((10,), outcome="clean")
    answer = world.ask(epochs=5)
    assert answer["found"]
    assert "more epochs" in answer["text"]


def test_never(world: World) -> None:
    """Is never asked twice."""
    world.earlier()
    assert not world.ask(resume="never")["found"]


def test_a_later_job_that_resumed_it_stands_for_it(world: World) -> None:
    """Once the successor has finished, its ancestor is not resumed again; while it died early, the ancestor's
    checkpoint is what there is."""
    first = world.earlier((10,))
    second = world.earlier(())
    journal = second.folder.open_journal()
    journal.append("resumed", durable=True, from_job=first.folder.job_id, from_run=None, from_model=None, from_step=10)
    answer = world.ask(client=Nothing)
    assert (answer["from_job"], answer["from_step"]) == (first.folder.job_id, 10)
    journal.append("job_ended", durable=True, outcome="recovered", exit_code=0)
    journal.close()
    assert not world.ask(client=Nothing)["found"]


def test_an_explicit_id(world: World) -> None:
    """By job or run id, whatever its key; refused when it lives, with its owner named, and when it is unknown."""
    earlier = world.earlier(tags={"resilience.resume_key": "another"})
    assert world.ask(resume=earlier.folder.job_id)["found"]
    living = world.earlier(alive=True)
    refused = world.ask(resume=living.folder.job_id)["refused"]
    owner = living.folder.owner()
    assert owner is not None
    assert str(owner["pid"]) in refused and owner["host"] in refused
    done = world.earlier((10,), outcome="clean")
    answer = world.ask(resume=done.folder.job_id)
    assert (answer["found"], answer["nothing_to_do"]) == (True, True)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


def test_from_the_logged_model_alone(uri: str, tmp_path: Path) -> None:
    """The local folder is gone: the new job goes on from the newest READY checkpoint in MLflow, its lineage and its
    earlier curve with it, each step once."""
    database = Path(uri.removeprefix("sqlite:///"))
    params = {"epochs": "3", "recover": "true", "fault": ""}
    first = Job(tmp_path / "one", uri, tags=KEY, params=params)
    first.start_sender()
    first.attempt(1)
    first.points(1, 1, 20)
    for step in (10, 20, 30):
        folder = first.folder.artifacts / f"model-{step}"
        (folder / "training_state").mkdir(parents=True)
        (folder / "training_state" / "state.json").write_text(json.dumps({"step": step}))
        if step < 30:
            first.checkpoint(1, step)
            first.append("model", local_id=f"c{step}", name="checkpoint", attempt=1, step=step, epoch=0, digest="d",
                         folder=str(folder), tags={}, metrics={}, delete_after_upload=False)  # fmt: skip
    first.points(1, 21, 25)
    first.append("lost", attempt=1, steps=5, seconds=1.0)
    first.end_attempt(1, "KILLED", 25)
    first.end("preempted", 75)
    assert first.finish() == 0, first.log()
    first_run = first.run_id()
    shutil.rmtree(tmp_path / "one")

    second = Job(tmp_path / "two", uri, tags=KEY, params=params)
    second.start_sender()
    answer = second.ask(resume="auto", resume_key="key", epochs=3)
    assert (answer["found"], answer["from_run"], answer["from_step"]) == (True, first_run, 20)
    assert answer["from_model"].startswith("m-")
    state = Path(answer["checkpoint_folder"]) / "step-0000000020" / "state.json"
    assert json.loads(state.read_text()) == {"step": 20}
    keys = ("from_job", "from_run", "from_model", "from_step", "text")
    second.append("resumed", **{key: answer[key] for key in keys})
    second.attempt(1, 20)
    second.points(1, 21, 40)
    second.end_attempt(1, "FINISHED", 40)
    second.end("clean")
    assert second.finish() == 0, second.log()
    run_id = second.run_id()
    assert tools.steps(database, run_id, "batch/loss") == list(range(1, 41))
    found = tools.tags(database, run_id)
    assert (found["resilience.resumed_from_run"], found["resilience.resumed_from_step"]) == (first_run, "20")
    assert found["resilience.resumed_from_model"] == answer["from_model"]
    assert (found["resilience.attempts"], found["resilience.lineage_attempts"]) == ("1", "2")
    assert (found["resilience.lineage_jobs"], found["resilience.lineage_lost_steps"]) == ("2", "5")
    kinds = [entry["kind"] for entry, _ in read(second.folder.journal)]
    assert kinds.count("carried") == 1


@pytest.mark.full
def test_going_on_in_the_same_run(uri: str, tmp_path: Path) -> None:
    """The caller names the run of the job before: its own earlier words do not pass for a living job's, its curve is
    not doubled."""
    database = Path(uri.removeprefix("sqlite:///"))
    tags = {"resilience.resume_key": "same"}
    params = {"epochs": "3", "recover": "true", "fault": ""}
    first = Job(tmp_path / "home", uri, tags=tags, params=params)
    first.start_sender()
    first.attempt(1)
    first.points(1, 1, 20)
    folder = first.folder.checkpoints / "step-0000000010"
    folder.mkdir()
    (folder / "state.json").write_text("{}")
    first.checkpoint(1, 10)
    first.fault(1, 1, 20)
    first.end_attempt(1, "KILLED", 20)
    first.end("preempted", 75)
    assert first.finish() == 0
    run_id = first.run_id()
    second = Job(tmp_path / "home", uri, run_id=run_id, tags=tags, params=params)
    second.start_sender()
    until(lambda: tools.status(database, run_id) == "RUNNING")
    answer = second.ask(resume="auto", resume_key="same", epochs=3)
    assert (answer["from_run"], answer["from_step"]) == (run_id, 10)
    second.append("resumed", from_job=answer["from_job"], from_run=run_id, from_model=None, from_step=10, text="")
    second.attempt(1, 10)
    second.points(1, 11, 30)
    second.end_attempt(1, "FINISHED", 30)
    second.end("clean")
    assert second.finish() == 0, second.log()
    assert tools.steps(database, run_id, "batch/loss") == list(range(1, 31))
    found = tools.tags(database, run_id)
    expected = {"outcome": "clean", "attempts": "2", "faults": "1"}
    assert {key: found[f"resilience.{key}"] for key in expected} == expected
    assert found["resilience.attempt.1"].startswith("transient_io")
    assert found["resilience.attempt.2"].startswith("finished")
    assert sorted(tools.children(database, run_id)) == [1, 2]
    ((place,),) = tools.rows(database, "select artifact_uri from runs where run_uuid=?", run_id)
    folder = Path(place.removeprefix("file://")) / "resilience"
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["outcome"] for event in events if event["kind"] == "job_ended"] == ["preempted", "clean"]
    table = json.loads((folder / "attempts.json").read_text())
    assert [(row[0], row[1]) for row in table["data"]] == [(1, "KILLED"), (2, "FINISHED")]


class Histories:
    """A store that holds long curves, of which one cannot be read."""

    def __init__(self, curves: dict[str, int]) -> None:
        self.curves, self.asked = curves, 0
        self._tracking_client = SimpleNamespace(store=self)

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(data=SimpleNamespace(metrics={**self.curves, "memory/process_rss_mb": 1, "broken": 1}))

    def get_metric_history(self, run_id: str, key: str, max_results: int, page_token: str | None) -> PagedList[Metric]:
        self.asked += 1
        if key == "broken":
            raise ValueError("no such metric")
        first = int(page_token or 0)
        steps = range(first + 1, min(first + max_results, self.curves[key]) + 1)
        more = str(steps[-1]) if steps and steps[-1] < self.curves[key] else None
        return PagedList([Metric(key, 1 / step, step, step) for step in steps], more)


def test_a_long_curve_is_carried_over_page_by_page_and_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    """The answer does not wait for it; each look takes one page; a metric that cannot be read costs itself alone."""
    job = Job(tmp_path / "home", None)
    (job.folder.artifacts / CARRIED).write_text(json.dumps({"run_id": "r"}))
    job.append("resumed", durable=True, from_job="other", from_run="r", from_step=25_000)
    scout = Scout(job.folder, job.journal, EventFiles(job.folder))
    store = Histories({"loss": 5, "batch/loss": 30_000})
    carrying = Carrying(job.folder, scout, lambda: store)
    scout.poll()
    looks = 0
    while carrying.is_waiting:
        carrying.look()
        looks += 1
    assert looks == store.asked == 1 + 1 + 3, "one page a look"
    curve = scout.record.curve
    assert [len(curve[key]) for key in ("loss", "batch/loss")] == [5, 25_000]
    assert list(curve["batch/loss"].steps) == list(range(1, 25_001))
    assert [event["data"] for event in scout.record.events] == [{"key": "broken"}]
    assert max(len(entry["points"]) for entry, _ in read(job.folder.journal) if entry["kind"] == "carried") <= 10_000
    job.release()
