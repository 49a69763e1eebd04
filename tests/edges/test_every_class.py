"""A job of the default recipe for every failure class: it ends as the class's ladder says, and MLflow says how."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.core.failure import FAILURE_CLASSES
from mlflow_resilience.fault_plan import KINDS
from tests.edges.main_job import Ended, run, train

EPOCHS, STEP, POINT = "6", 100, 0.01

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True)
class Case:
    """What a fault on purpose is judged to be, and what its ladder makes of it."""

    failure_class: str
    does: str = ""  # an action of the decision
    exact: bool = True  # the result is that of the undisturbed run, bit for bit
    simulated: bool = False
    code: int = 0
    basis: str = "first"


CASES = {
    "oom": Case("host_oom", "SplitBatch", exact=False),
    "host_oom": Case("host_oom", "SplitBatch", exact=False),
    "device_oom": Case("device_oom", "SplitBatch", exact=False, simulated=True),
    "nan": Case("divergence", "SkipBatch", exact=False),
    "spike": Case("divergence", "SkipBatch", exact=False),
    "corrupt_record": Case("bad_data", "Quarantine", exact=False),
    "input_exhausted": Case("input_exhausted", "RebuildInput"),
    "raise": Case("unknown", "RollBack"),
    "bug": Case("programming_error", code=1, basis="stop_class"),
    "environment": Case("environment", code=1, basis="stop_class"),
    "kill": Case("process_death", "NewProcess"),
    "segfault": Case("process_death", "NewProcess"),
    "term": Case("interruption", code=75, basis="interrupted"),
    "hang": Case("hang", "NewProcess"),
    "disk_full": Case("disk_full", "FreeDisk"),
    "torn_checkpoint": Case("checkpoint_error", "OlderCheckpoint"),
    "transient_io": Case("transient_io", "Wait"),
    "resource_limit": Case("resource_limit", "NewProcess"),
    "device_fault": Case("device_fault", "NewProcess", simulated=True),
    "worker_lost": Case("worker_lost", "NewProcess", simulated=True),
    "tracking": Case("tracking", "GoOn", simulated=True, basis="harmless"),
}
#: Nothing that training meets: a server that is out of reach, and data that comes late.
BESIDE = ("tracking_down", "slow_data")

Jobs = Callable[[str], Ended]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    """The job with a fault, run once."""
    ended: dict[str, Ended] = {}

    def job(fault: str) -> Ended:
        if fault not in ended:
            folder = tmp_path_factory.mktemp(fault)
            ended[fault] = train(folder, *_options(folder, fault), timeout=300)
        return ended[fault]

    return job


def _options(folder: Path, fault: str) -> list[str]:
    writes = f"import sys; open({str(folder / 'told')!r}, 'a').write(sys.stdin.read() + chr(10))"
    notify = shlex.join([sys.executable, "-c", writes])
    options = ["--epochs", EPOCHS, "--hang-seconds", "8", "--replay", "64MB", "--notify", notify]
    return [*options, "--fault", f"{fault}@{STEP}"] if fault != "none" else options


def notices(ended: Ended) -> list[str]:
    """What the job's command was told of, in order."""
    path = ended.folder / "told"
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []


def events(ended: Ended, **fields: Any) -> list[dict[str, Any]]:
    """What the job run's `events.jsonl` holds with these fields."""
    (job, *_) = reversed(ended.jobs())
    path = ended.client.download_artifacts(job.info.run_id, "resilience/events.jsonl", str(ended.folder))
    found = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [entry for entry in found if all(entry.get(name) == value for name, value in fields.items())]


def digest(ended: Ended) -> str:
    """That of the finished model."""
    (model,) = [each for each in ended.client.search_logged_models(["0"]) if each.name == "model"]
    return str(model.tags["resilience.digest"])


def accuracy(ended: Ended) -> float:
    return float(ended.jobs()[0].data.metrics["val_accuracy"])


def test_every_class_and_every_fault_has_its_job() -> None:
    assert {case.failure_class for case in CASES.values()} == set(FAILURE_CLASSES)
    assert {*CASES, *BESIDE} == set(KINDS)


@pytest.mark.full
@pytest.mark.parametrize("fault", CASES)
def test_it_ends_as_its_ladder_says_and_mlflow_has_event_decision_and_basis(jobs: Jobs, fault: str) -> None:
    ended, case = jobs(fault), CASES[fault]
    assert ended.code == case.code, ended.output
    (strike,) = events(ended, kind="event", name="fault_on_purpose")
    assert strike["step"] == STEP
    (told,) = events(ended, kind="fault")
    assert told["failure_class"] == case.failure_class
    assert told["fault"]["simulated"] is case.simulated
    (decision,) = events(ended, kind="decision")
    assert decision["basis"] == case.basis
    assert case.does in ("", *decision["actions"])
    (job, *_) = reversed(ended.jobs())
    tags = job.data.tags
    assert tags["resilience.failure_classes"] == case.failure_class
    assert (tags.get("resilience.fault_simulated") == "true") is case.simulated
    assert tags["resilience.outcome"] == {0: "recovered", 1: "failed", 75: "preempted"}[case.code]
    assert decision["text"] in job.data.tags["mlflow.note.content"] or told["in_place"]
    assert ("resilience.semantic_changes" in tags) is not case.exact
    expected = {0: [] if case.exact else ["semantic_change"], 1: ["stop"], 75: ["preemption"]}
    assert sorted(set(notices(ended))) == expected[case.code]
    pages = {path for path in ended.artifacts(job) if "/forensics/" in path}
    assert pages == ({"resilience/forensics/fault-01.md"} if case.failure_class.endswith("_oom") else set())


@pytest.mark.full
@pytest.mark.parametrize("fault", [name for name, case in CASES.items() if case.code != 1])
def test_the_result_is_that_of_the_undisturbed_run(jobs: Jobs, fault: str) -> None:
    """Bit for bit where recovery changes nothing; else within a point of accuracy."""
    clean, ended, case = jobs("none"), jobs(fault), CASES[fault]
    assert clean.code == 0, clean.output
    if case.code == 75:
        ended = train(ended.folder, *_options(ended.folder, fault), timeout=300)
        assert ended.code == 0, ended.output
    assert abs(accuracy(ended) - accuracy(clean)) <= POINT
    assert (digest(ended) == digest(clean)) is case.exact


@pytest.mark.full
@pytest.mark.parametrize("fault", BESIDE)
def test_what_happens_beside_training_is_no_fault_and_loses_nothing(jobs: Jobs, fault: str) -> None:
    ended = jobs(fault)
    assert ended.code == 0, ended.output
    assert events(ended, kind="fault") == []
    assert len(events(ended, kind="event", name="fault_on_purpose")) == 1
    (job,) = ended.jobs()
    assert job.data.tags["resilience.outcome"] == "clean"
    history = ended.client.get_metric_history(job.info.run_id, "batch/loss")
    assert sorted(point.step for point in history) == list(range(1, 45 * int(EPOCHS) + 1))
    assert digest(ended) == digest(jobs("none"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "recurs", "inputs"),
    [("nan", True, "not finite"), ("corrupt_record", True, "finite"), ("device_oom", False, "finite")],
)
def test_its_step_can_be_replayed(jobs: Jobs, fault: str, recurs: bool, inputs: str) -> None:
    """From MLflow alone, with the recipe that the run names: what lay in the data recurs."""
    ended = jobs(fault)
    command = [sys.executable, "-m", "mlflow_resilience.cli", "replay", ended.jobs()[0].info.run_id]
    answered = run(ended.folder, *command, "--fault", "1", "--json")
    assert answered.code == 0, answered.output
    answer = json.loads(answered.output.splitlines()[-1])
    assert (answer["recurs"], answer["inputs"], answer["step"]) == (recurs, inputs, STEP)
    wrong = run(ended.folder, *command, "--fault", "7")
    assert (wrong.code, len(wrong.output.splitlines())) == (2, 1)
    assert "keeps no fault 7 for a replay: there are fault-01" in wrong.output


@pytest.mark.full
def test_a_damaged_record_is_named_by_its_file(jobs: Jobs) -> None:
    (event,) = events(jobs("corrupt_record"), kind="event", name="quarantine")
    (record,) = event["data"]["records"]
    assert Path(record["record"]).suffix == ".png" and Path(record["record"]).is_file()


@pytest.mark.full
def test_a_torn_checkpoint_is_set_aside_loudly_for_an_older_one(jobs: Jobs) -> None:
    ended = jobs("torn_checkpoint")
    assert len(events(ended, kind="event", name="checkpoint_unreadable")) == 1
    (back,) = events(ended, kind="rolled_back")
    newest = max(entry["step"] for entry in events(ended, kind="checkpoint") if entry["step"] < STEP)
    assert back["step"] < newest


@pytest.mark.full
def test_a_save_that_finds_the_disk_full_is_told_and_the_next_one_is_whole(jobs: Jobs) -> None:
    ended = jobs("disk_full")
    (told,) = events(ended, kind="fault")
    assert (told["fault"]["errno"], told["fault"]["phase"]) == (28, "checkpoint")
    assert any(entry["step"] > STEP for entry in events(ended, kind="checkpoint"))
