"""Secrets in exceptions, logs, params and tags: none is in anything that is stored or told, in whatever form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_resilience.explain import explain
from mlflow_resilience.notify import arm
from mlflow_resilience.spool.journal import read
from mlflow_resilience.supervisor.output import Cleaner
from tests.core.secret_shapes import ORDINARY, SECRETS
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import ENVIRON, Job

MINE = "correct-horse-battery"  # of the environment
ALL = {kind: secret for kind, (_, secret) in SECRETS.items()} | {"environment": MINE}
TOLD = [text for text, _ in SECRETS.values()] + [f"the password is {MINE}"]
WHOLE = "\n".join([*TOLD, *ORDINARY])


def leaks(data: bytes) -> list[str]:
    """The kinds of secrets in it, as they are and as JSON writes them."""
    return [kind for kind, secret in ALL.items() if secret.encode() in data]


def files(place: Path, but: str = "") -> Iterator[tuple[str, bytes]]:
    """Every file below, a journal's and a database's included."""
    for path in place.rglob("*"):
        if path.is_file() and path.name != but:
            yield str(path.relative_to(place)), path.read_bytes()


def call(*arguments: str, home: Path, text: str = "") -> str:
    """Our command; what it says."""
    command = [sys.executable, "-m", "mlflow_resilience.cli", *arguments]
    environ = {**ENVIRON, "MLFLOW_RESILIENCE_HOME": str(home), "MY_SERVICE_TOKEN": MINE}
    done = subprocess.run(
        command, env=environ, input=text, capture_output=True, text=True, timeout=120, cwd=home.parent
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A job that met them everywhere, delivered, and its report."""
    place = tmp_path_factory.mktemp("secrets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_SERVICE_TOKEN", MINE)
        _deliver(place)
    yield place


def _deliver(place: Path) -> None:
    params = {f"param_{number}": text for number, text in enumerate([*TOLD, *ORDINARY])}
    tags = {f"tag_{number}": text for number, text in enumerate([*TOLD, *ORDINARY])}
    job = Job(place / "home", f"sqlite:///{place}/mlflow.db", params={**params, "db_password": MINE}, tags=tags)
    notified = f"import sys; open({str(place / 'notified.json')!r}, 'a').write(sys.stdin.read())"
    arm(job.folder, [sys.executable, "-c", notified])
    job.attempt(1)
    job.points(1, 1, 3)
    job.append("event", name="start", attempt=1, step=0, text=WHOLE, data={"texts": TOLD, "deep": [{"a": TOLD}]})
    job.append(
        "event", name="quarantine", attempt=1, step=2, text=WHOLE, data={"records": [{"record": t} for t in TOLD]}
    )
    job.append("semantic_change", step=2, text=WHOLE)
    job.append("reproducible", value=False, reason=WHOLE)
    facts = {"message": WHOLE, "traceback": f"Traceback\n{WHOLE}", "output_tail": WHOLE, "chain": [{"message": WHOLE}]}
    for number in (1, 2):
        job.fault(1, number, 2, in_place=number == 1, **facts)
    memory = {"failure_class": "host_oom", "failure_domain": "workload", "hint": WHOLE, "memory": {}, "in_place": True}
    job.append("fault", attempt=1, number=3, fault={"exception": "MemoryError", "message": WHOLE}, **memory)
    job.append("decision", attempt=1, number=3, verdict="stop", actions=[], basis="first", text=WHOLE)
    job.end_attempt(1, "FAILED", 3)
    job.append("job_ended", durable=True, outcome="failed", exit_code=1, text=WHOLE)
    job.start_sender(MY_SERVICE_TOKEN=MINE)
    assert job.finish() == 0, job.log()
    (place / "said.txt").write_text(
        call("report", job.folder.job_id, "-o", str(place / "report.html"), home=place / "home")
    )


def test_nothing_that_is_stored_holds_one(place: Path) -> None:
    """Journal, database, artifacts, report, forensics, notice: every file that there is."""
    found = {name: leaks(data) for name, data in files(place)}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}
    names = " ".join(found)
    parts = (
        "journal",
        "mlflow.db",
        "report.html",
        "events.jsonl",
        "forensics/fault-03.md",
        "exceptions/",
        "notified.json",
    )
    for part in parts:
        assert part in names, f"no {part} was looked at"


def test_what_is_ordinary_is_stored_as_it_is(place: Path) -> None:
    """In params and tags, in the exception's file and in the journal."""
    database = place / "mlflow.db"
    (path,) = (place / "home" / "jobs").iterdir()
    run_id = tools.JobFolder(path).read_sender_state()["run_id"]
    params, tags = tools.params(database, run_id), tools.tags(database, run_id)
    for number, text in enumerate(ORDINARY, len(TOLD)):
        assert params[f"param_{number}"] == tags[f"tag_{number}"] == text
    text = next((place / "mlruns").rglob("exceptions/attempt-001.txt")).read_text()
    assert all(each in text for each in ORDINARY)
    events = [entry for entry, _ in read(path / "journal") if entry["kind"] == "event"]
    assert all(each in events[0]["text"] for each in ORDINARY)


def test_explain_tells_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its words are cut."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", MINE)
    for text in TOLD:
        for length in (0, 440, 480):  # the words are cut at 500 characters: in the midst of a secret too
            found = explain(f"RuntimeError: {'x' * length} {text}")
            assert not any(part in json.dumps(found.to_dict()) for part in _parts(text)), found
    assert leaks(call("explain", home=tmp_path / "home", text=f"ValueError: {TOLD[0]}").encode()) == []


def _parts(text: str) -> list[str]:
    """A secret's own ends, which stand where a cut leaves them."""
    secret = next((secret for told, secret in SECRETS.values() if told == text), MINE)
    return [secret[:12], secret[-12:]] if len(secret) >= 24 else [secret]


SCRIPT = """
import pathlib, sys
for line in pathlib.Path("secrets.txt").read_text().split("\\0"):
    print(line, flush=True)
raise RuntimeError(pathlib.Path("secrets.txt").read_text())
"""


@pytest.mark.full
def test_a_script_that_prints_them_and_dies_of_them(tmp_path: Path) -> None:
    """Under supervision: its log, the terminal, the journal and what MLflow has of it."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "secrets.txt").write_text("\0".join([*TOLD, *ORDINARY]))
    home = tmp_path / "home"
    environ = {**ENVIRON, "MLFLOW_RESILIENCE_HOME": str(home), "MY_SERVICE_TOKEN": MINE}
    environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{tmp_path}/mlflow.db"
    command = [sys.executable, "-m", "mlflow_resilience.cli", "run", "--", sys.executable, "train.py"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert leaks((done.stdout + done.stderr).encode()) == []
    found = {name: leaks(data) for name, data in files(tmp_path, but="secrets.txt")}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}
    log = next(home.rglob("worker.log")).read_text()
    assert all(each in log for each in ORDINARY)


def test_a_key_that_comes_line_by_line_is_hidden_and_what_follows_is_not() -> None:
    """As a process prints it that flushes each line."""
    text, body = SECRETS["PEM"]
    cleaner = Cleaner()
    said = [cleaner.clean(line) for line in [*text.splitlines(), "step 1 of 2", "loss 0.5"]]
    assert body not in "\n".join(said)
    assert said[-2:] == ["step 1 of 2", "loss 0.5"]
    endless = Cleaner()
    assert endless.clean("expected " + "-----BEGIN " + "PRIVATE KEY-----")
    assert [endless.clean(f"line {number}") for number in range(150)][-1] == "line 149"


@pytest.mark.full
def test_the_credentials_of_a_tracking_address_are_used_and_not_kept(tmp_path: Path) -> None:
    """The address is in the journal without them; a later ``sync`` asks for them, and has them from the environment."""
    uri = f"http://ada:{MINE}@127.0.0.1:9"
    job = Job(tmp_path / "home", uri)
    job.end()
    job.release()
    assert leaks(job.folder.journal.read_bytes()) == []
    said = call("sync", "--patience", "0", home=tmp_path / "home")
    assert "set MLFLOW_TRACKING_URI to the whole address" in said, said
    assert leaks(said.encode()) == []
    environ = {**ENVIRON, "MLFLOW_RESILIENCE_HOME": str(tmp_path / "home"), "MLFLOW_TRACKING_URI": uri}
    command = [sys.executable, "-m", "mlflow_resilience.cli", "sync", "--patience", "0"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert "not all is sent" in done.stdout and "Connection" in done.stdout, done.stdout
    assert leaks(json.dumps(job.state).encode()) == []
