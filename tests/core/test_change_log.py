"""What changed the result goes with the state."""

from __future__ import annotations

from pathlib import Path

from mlflow_resilience.change_log import ChangeLog
from mlflow_resilience.spool.journal import Journal, read


def test_changes_are_remembered_but_for_those_that_were_undone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    earlier = [{"kind": "semantic_change", "step": 3, "text": "the first"}]
    log = ChangeLog(journal, earlier)
    log.append("semantic_change", step=9, text="the second")
    assert log.changes() == [[3, "the first"], [9, "the second"]]
    log.append("rolled_back", attempt=2, step=5)
    assert log.changes() == [[3, "the first"]]
    log.flush()
    journal.close()
    kinds = [entry["kind"] for entry, _ in read(tmp_path / "journal")]
    assert [kind for kind in kinds if kind != "header"] == ["semantic_change", "rolled_back"]
