"""A run called by the beginning of its id, and a result held against a clean run's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience import undisturbed
from mlflow_resilience.cli.main import call
from mlflow_resilience.cli.naming import job_to_resume, run_to_join
from mlflow_resilience.errors import UsageError
from mlflow_resilience.report import render
from mlflow_resilience.spool import atomic, naming
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.undisturbed import CleanRun

RUN = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
FAULT = {
    "kind": "fault",
    "attempt": 1,
    "number": 1,
    "failure_class": "divergence",
    "fault": {"exception": "Divergence", "message": "the loss is nan"},
}


def job(home: Path, name: str = "a job", run_id: str = "", outcome: str = "clean", *more: dict[str, Any],
        epochs: int = 2, key: str = "k1", val_loss: float = 0.5) -> JobFolder:  # fmt: skip
    """A job that was done here, as its folder has it."""
    folder = JobFolder.create(home)
    journal = folder.open_journal()
    journal.append("job", run_name=name, started=time.time(), params={"epochs": str(epochs)})
    journal.append("tags", run="job", tags={undisturbed.RESUME_KEY: key})
    journal.append("attempt", attempt=1, step=0, epoch=0, settings={})
    for entry in more:
        journal.append(entry["kind"], **{field: value for field, value in entry.items() if field != "kind"})
    journal.append("points", attempt=1, points=[["val_loss", 10, val_loss, 1]])
    journal.append("job_ended", outcome=outcome)
    journal.close()
    if run_id:
        atomic.write_json(folder.sender_state, {"run_id": run_id, "runs": {"job": run_id, "1": run_id[::-1]}})
    return folder


def test_only_the_one_that_begins_so() -> None:
    assert naming.only("abcd", ["abcdef", "abdd"]) == "abcdef"
    assert naming.only("abcd", ["abcdef", "abcd"]) == "abcd", "whole is whole"
    assert naming.only("dcba", ["abcdef"]) is None
    with pytest.raises(UsageError, match=r"beginning of several ids \(abcd1, abcd2, abcd3 and 1 more\): give more"):
        naming.only("abcd", ["abcd1", "abcd2", "abcd3", "abcd4"])
    with pytest.raises(UsageError, match="abc: 4 characters or more"):
        naming.only("abc", ["abcdef"])


def test_a_job_is_found_by_its_own_id_its_run_or_its_attempts_run(tmp_path: Path) -> None:
    """Of several jobs in one run, the newest."""
    newer = max((job(tmp_path, name, RUN) for name in "ab"), key=lambda each: each.job_id)
    for name in (newer.job_id, RUN, RUN[:6], RUN[::-1][:6]):
        found = naming.local(tmp_path, name)
        assert found is not None and found.job_id == newer.job_id
    assert naming.whole(tmp_path, RUN[:6]) == RUN
    assert naming.local(tmp_path, "f" * 32) is None


def test_a_command_knows_the_whole_id_before_it_starts_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", str(tmp_path))
    job(tmp_path, "a job", RUN)
    assert [job_to_resume(each) for each in ("auto", "never", RUN[:5])] == ["auto", "never", RUN]
    assert run_to_join(RUN[:5]) == RUN
    assert run_to_join("f" * 32) == "f" * 32, "a whole id is the sender's to look for"


def test_a_report_is_asked_for_by_the_beginning_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A local job needs no tracking store, and a clean job of the same training is what it is held against."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", str(tmp_path))
    job(tmp_path, "the clean one", "b" * 32, val_loss=0.5)
    job(tmp_path, "struck", RUN, "recovered", FAULT, {"kind": "semantic_change", "step": 5, "text": "batch left out"},
        val_loss=0.75)  # fmt: skip
    assert call(["report", RUN[:4], "-o", "page.html"]) == 0
    held = "Held against the clean run the clean one (bbbbbbbb): final val_loss 0.75 against 0.5."
    assert held in capsys.readouterr().out and held in Path("page.html").read_text()
    assert call(["report", "abc"]) == 2
    assert capsys.readouterr().err == "mlflow-resilience: abc: 4 characters or more of an id are needed\n"


def test_a_clean_run_is_one_of_the_same_training_that_nothing_happened_to(tmp_path: Path) -> None:
    struck = JobRecord.read(job(tmp_path, "struck", "", "recovered", FAULT).journal)
    for more in ({"key": "k2"}, {"epochs": 3}):
        job(tmp_path, "another", **more)  # type: ignore[arg-type]
    job(tmp_path, "failed", "", "failed", FAULT)
    assert undisturbed.in_home(tmp_path, struck) is None
    clean = job(tmp_path, "clean")
    found = undisturbed.in_home(tmp_path, struck)
    assert found == CleanRun(f"clean ({clean.job_id[:8]})", {"val_loss": 0.5})
    assert undisturbed.in_words(struck, found).startswith("Final metrics as in the clean run clean (")
    assert undisturbed.in_home(tmp_path, JobRecord.read(clean.journal)) is None, "nothing happened to it"


def test_what_is_not_known_of_a_clean_run_is_not_said() -> None:
    record = JobRecord()
    assert undisturbed.wanted(record) is None
    assert undisturbed.in_words(record, None) == undisturbed.in_words(record, CleanRun("x", {"loss": 1.0})) == ""
    assert "<script" not in render(record, CleanRun("<script>", {}))
