"""A checkpoint that cannot be read just now is a good checkpoint: it is waited for, and not thrown away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training import children


def trained(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.training.unreadable:{target}", folder, **arguments) == 0, children.output(folder)
    return children.facts(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return trained(tmp_path_factory.mktemp("undisturbed"), "undisturbed")["outcome"]


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [("storage", "transient_io"), pytest.param("memory", "host_oom", marks=pytest.mark.full)],
)
def test_storage_that_fails_while_going_back_costs_no_checkpoint(
    tmp_path: Path, undisturbed: Any, kind: str, failure_class: str
) -> None:
    """It is judged as what it is, and the same checkpoint is read again."""
    told = trained(tmp_path, "rolled_back", kind=kind, times=2)
    assert told["faults"][1:] == [[failure_class, "restore"]] * 2
    assert told["starts"][-1] == 16
    assert told["damaged"] == []
    if kind == "storage":
        assert told["outcome"] == undisturbed


@pytest.mark.full
def test_storage_that_fails_for_good_costs_the_newest_checkpoint_in_the_end(tmp_path: Path, undisturbed: Any) -> None:
    """After all that waiting, an older one is tried."""
    told = trained(tmp_path, "rolled_back", kind="storage", times=5)
    assert told["damaged"] == ["damaged-step-0000000016"]
    assert told["starts"][-1] == 14
    assert told["outcome"] == undisturbed


def test_storage_that_fails_at_the_start_of_a_process_is_waited_for(tmp_path: Path, undisturbed: Any) -> None:
    """Before anything is trained."""
    told = trained(tmp_path, "begun_again", times=2)
    assert told["faults"][-2:] == [["transient_io", "restore"]] * 2
    assert told["damaged"] == []
    assert told["outcome"] == undisturbed


@pytest.mark.full
@pytest.mark.parametrize(("times", "step"), [(2, 16), (5, 14)])
def test_another_jobs_checkpoint_is_waited_for_and_then_its_older_one_taken(
    tmp_path: Path, undisturbed: Any, times: int, step: int
) -> None:
    """It stays where it is, for it is not ours."""
    told = trained(tmp_path, "taken_over", times=times)
    assert told["from"] == step
    assert told["unreadable"] == (step < 16)
    assert ("since what is later cannot be read" in told["text"]) is (step < 16)
    assert told["damaged"] == []
    assert told["outcome"] == undisturbed


@pytest.mark.full
def test_user_code_that_fails_while_going_back_is_judged_as_such(tmp_path: Path) -> None:
    """It says nothing against the checkpoint: two of its class without a step between them stop the job."""
    told = trained(tmp_path, "user_code")
    assert [failure_class for failure_class, _ in told["faults"]] == ["unknown", "unknown"]
    assert "after step 16" in told["error"]
    assert told["damaged"] == []
