"""A job that is struck at any place, in any way, ends as it would have ended undisturbed, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from mlflow_resilience.spool.process import is_alive
from tests.edges.main_job import ROOT
from tests.edges.struck import (
    BLOCKING_RECIPE,
    RECIPE,
    START_SECONDS,
    Running,
    eventually,
    final_digest,
    left_running,
    statuses,
)

PLACES = ("trace", "step", "validation", "writing", "logging", "epoch_end", "restart")
WAYS = ("kill", "segfault", "hang", "term", "stop", "group")
SEED = int(os.environ["MATRIX_SEED"])
CELLS = [(place, way) for place in PLACES for way in WAYS] + [
    (place, "everything") for place in ("start", "data", *PLACES)
]
SAMPLE = set(random.Random(SEED).sample(CELLS, 1))
PREEMPTED = 75

pytestmark = pytest.mark.timeout(290)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert Running(folder).end() == 0, (folder / "output.txt").read_text()
    return final_digest(folder)


def begin(folder: Path, place: str, way: str) -> Running:
    """Where it is to stand still by itself, a fault on purpose or a file tells it to."""
    if way != "hang":
        return Running(folder)
    on_purpose = {"trace": "hang@1", "step": "hang@17"}.get(place)
    if on_purpose is None and place != "restart":
        (folder / f"hang-{place}").touch()
    return Running(folder, "--start-seconds", str(START_SECONDS), *(["--fault", on_purpose] if on_purpose else []))


def strike(running: Running, place: str, way: str) -> None:
    if way == "hang":
        if place == "restart":
            first = running.at("step")
            (running.folder / "hang-restart").touch()
            os.killpg(os.getpgid(first), signal.SIGKILL)
        return
    worker = running.at(place)
    if way == "term":
        running.process.send_signal(signal.SIGTERM)
    elif way in ("group", "everything"):
        if way == "everything":
            running.process.kill()
        os.killpg(os.getpgid(worker), signal.SIGKILL)
    else:
        os.kill(worker, {"kill": signal.SIGKILL, "segfault": signal.SIGSEGV, "stop": signal.SIGSTOP}[way])


@pytest.mark.parametrize(
    ("place", "way"),
    [pytest.param(*cell, marks=[] if cell in SAMPLE else [pytest.mark.full]) for cell in CELLS],
)
def test_struck_anywhere_it_ends_as_undisturbed_and_leaves_nothing_behind(
    place: str, way: str, tmp_path: Path, undisturbed: str
) -> None:
    running = begin(tmp_path, place, way)
    strike(running, place, way)
    code, output = running.end(), tmp_path / "output.txt"
    if way == "hang":
        assert [entry["run"] for entry in running.entries("artifact") if entry["folder"] == "resilience/stacks"]
    if way in ("term", "everything"):
        assert code == (PREEMPTED if way == "term" else -signal.SIGKILL), output.read_text()
        assert Running(tmp_path).end() == 0, output.read_text()
    else:
        assert code == 0, output.read_text()
    assert final_digest(tmp_path) == undisturbed
    assert eventually(lambda: not left_running(tmp_path)), left_running(tmp_path)
    assert eventually(lambda: "RUNNING" not in dict(map(reversed, statuses(tmp_path)))), statuses(tmp_path)
    outcomes = [outcome for outcome, _ in statuses(tmp_path) if outcome]
    if way == "term":
        assert outcomes == ["preempted", "clean"], output.read_text()
    elif way == "everything":
        assert outcomes[0] in ("failed", "preempted") and outcomes[1] in ("clean", "recovered")
    else:
        assert outcomes == ["recovered"], output.read_text()


def stopped(running: Running, number: int) -> float:
    """Seconds from the signal to the journal's end, with the state saved."""
    asked = time.time()
    running.process.send_signal(number)
    assert running.end() == PREEMPTED, (running.folder / "output.txt").read_text()
    (fault,) = running.entries("fault")
    assert fault["fault"]["exception"] == signal.Signals(number).name, "the one that came first, not what was passed on"
    return float(running.entries("job_ended")[0]["time"]) - asked


@pytest.mark.full
def test_struck_before_it_has_gone_on_with_the_job_before_it_still_does(tmp_path: Path, undisturbed: str) -> None:
    """A death at the start settles nothing: the next process asks again where to go on."""
    first = Running(tmp_path)
    first.at("step")
    first.process.send_signal(signal.SIGTERM)
    assert first.end() == PREEMPTED, (tmp_path / "output.txt").read_text()
    second = Running(tmp_path)
    os.kill(second.at("start"), signal.SIGKILL)
    assert second.end() == 0, (tmp_path / "output.txt").read_text()
    assert final_digest(tmp_path) == undisturbed
    (resumed,) = second.entries("resumed")
    assert resumed["from_step"] > 0
    assert all(attempt["step"] >= resumed["from_step"] for attempt in second.entries("attempt")[1:])


@pytest.mark.full
def test_a_warm_spare_goes_on_to_the_same_result(tmp_path: Path, undisturbed: str) -> None:
    """It was there before the kill, and has neither start nor import to do."""
    running = Running(tmp_path, "--warm-spare", "true")
    killed = running.at("epoch_end")
    os.kill(killed, signal.SIGKILL)
    assert running.end() == 0, (tmp_path / "output.txt").read_text()
    assert final_digest(tmp_path) == undisturbed
    (told,) = [entry for entry in running.entries("event") if entry["name"] == "warm_spare"]
    assert told["attempt"] == 2
    assert eventually(lambda: not left_running(tmp_path)), left_running(tmp_path)


@pytest.mark.full
def test_a_recipe_that_computes_when_it_is_imported_is_met_by_a_spare_without_it(tmp_path: Path) -> None:
    """Device settings would come too late for it otherwise: `threads` is put in force in the second process too."""
    recipe = tmp_path / "computes.py"
    recipe.write_text(RECIPE.read_text() + "\nZERO = tf.zeros(())\n")
    running = Running(tmp_path, "--warm-spare", "true", "--fault", "kill@30", "--device", "threads:1:1", recipe=recipe)
    assert running.end() == 0, (tmp_path / "output.txt").read_text()
    assert [entry["attempt"] for entry in running.entries("attempt")] == [1, 2]
    told = [entry["name"] for entry in running.entries("event")]
    assert "device_setting" in told and "device_warning" not in told, "which the second process would have said"


@pytest.mark.full
def test_stopped_in_a_first_step_without_an_end_it_leaves_at_once(tmp_path: Path, undisturbed: str) -> None:
    running = Running(tmp_path, "--fault", "hang@1")
    assert eventually(lambda: any(entry["name"] == "fault_on_purpose" for entry in running.entries("event")))
    assert stopped(running, signal.SIGINT) < 10
    assert Running(tmp_path).end() == 0, (tmp_path / "output.txt").read_text()
    assert final_digest(tmp_path) == undisturbed


@pytest.mark.full
def test_stopped_while_data_does_not_come_it_saves_the_last_step(tmp_path: Path) -> None:
    plain, blocked = tmp_path / "plain", tmp_path / "blocked"
    for folder in (plain, blocked):
        folder.mkdir()
    assert Running(plain, recipe=BLOCKING_RECIPE).end() == 0, (plain / "output.txt").read_text()
    (blocked / "hang-data").touch()
    running = Running(blocked, recipe=BLOCKING_RECIPE)
    assert eventually(lambda: (blocked / "hung-data").exists())
    assert stopped(running, signal.SIGUSR1) < 10
    assert running.entries("checkpoint")[-1]["step"] == 5
    assert Running(blocked, recipe=BLOCKING_RECIPE).end() == 0, (blocked / "output.txt").read_text()
    assert final_digest(blocked) == final_digest(plain)


@pytest.mark.full
def test_slow_data_that_does_come_is_a_warning(tmp_path: Path, undisturbed: str) -> None:
    running = Running(tmp_path, "--fault", "slow_data@17")
    assert running.end() == 0, (tmp_path / "output.txt").read_text()
    (slow,) = [entry for entry in running.entries("event") if entry["name"] == "slow_data"]
    assert slow["step"] == 16 and slow["data"]["seconds"] == pytest.approx(5.0, abs=1.5)
    assert running.entries("fault") == []
    assert final_digest(tmp_path) == undisturbed


@pytest.mark.full
def test_the_death_of_mlflow_run_is_noticed_and_the_job_saves_and_leaves(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "mlflow", "run", str(ROOT), "--env-manager", "local"]
    running = Running(tmp_path, command=[*run, "-P", f"recipe={RECIPE}", "-P", "epochs=3"])
    worker = running.at("step")
    running.process.kill()
    killed = time.time()
    assert eventually(lambda: bool(running.entries("job_ended")))
    (asked,) = [entry for entry in running.entries("event") if entry["name"] == "stop_asked"]
    assert asked["time"] - killed < 2.0
    assert running.entries("job_ended")[0]["outcome"] == "preempted"
    assert eventually(lambda: not left_running(tmp_path)), left_running(tmp_path)
    assert not is_alive(worker)
    assert {status for _, status in statuses(tmp_path)} == {"KILLED"}
