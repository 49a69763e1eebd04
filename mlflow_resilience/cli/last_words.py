"""What is said when a job has ended: five lines, the last of which opens its run in MLflow."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.summary import one_line, summary_lines
from mlflow_resilience.supervisor import Result
from mlflow_resilience.undisturbed import CleanRun, in_home, in_words


def last_words(result: Result, *, quiet: bool = False) -> None:
    """Say how the job ended; an error on standard error, in one line."""
    record = JobRecord.read(result.folder.journal)
    state = result.folder.read_sender_state()
    if not quiet and record.attempts:
        for line in summary(record, state, in_home(result.folder.path.parent.parent, record)):
            click.echo(line)
    shown = record.attempts and not quiet
    if result.text and (result.exit_code == 2 or (result.exit_code == 1 and not shown)):
        click.echo(f"mlflow-resilience: {result.text}", err=True)
    if problems := state.get("problems"):
        click.echo(_refused(result, problems), err=True)
    if not result.delivered and state.get("state") != "invalid":
        click.echo(_undelivered(result, state), err=True)


def summary(record: JobRecord, state: dict[str, Any], clean: CleanRun | None = None) -> list[str]:
    """Five lines. ``clean`` is a run that the result is held against."""
    headline, faults, judged, cost, last = summary_lines(record)
    judged = " ".join(filter(None, [judged, in_words(record, clean)]))
    return [f"{headline}; {cost.removeprefix('cost: ')}", faults, judged, last, f"see: {command(state)}"]


def command(state: dict[str, Any]) -> str:
    """What opens the run: an address, or the command that serves a local store, and the address then."""
    uri, run_id, experiment_id = (str(state.get(key) or "") for key in ("tracking_uri", "run_id", "experiment_id"))
    page = f"#/experiments/{experiment_id}/runs/{run_id}" if run_id and experiment_id else ""
    if uri.startswith(("http://", "https://")):
        return f"{uri.rstrip('/')}/{page}"
    store = f" --backend-store-uri {shlex.quote(uri)}" if uri else ""
    return f"{_mlflow()} server{store}  and then  http://127.0.0.1:5000/{page}"


def _mlflow() -> str:
    """The `mlflow` of this environment, as it is called from a second terminal."""
    own = Path(sys.prefix, "bin", "mlflow")
    if shutil.which("mlflow") and Path(shutil.which("mlflow") or "").resolve() == own.resolve() and not _is_hidden(own):
        return "mlflow"
    return shlex.quote(str(own if own.exists() else "mlflow"))


def _is_hidden(program: Path) -> bool:
    """Whether it is on the path only of this process tree: scripts/run puts its own environment there."""
    return program.parent.parent.name == ".venv"


def _refused(result: Result, problems: list[dict[str, Any]]) -> str:
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    first = one_line(f"{problems[0].get('what')}: {problems[0].get('why')}", 200)
    return f"mlflow-resilience: MLflow did not take all: {first}{more} (`problems` in {result.folder.sender_state})"


def _undelivered(result: Result, state: dict[str, Any]) -> str:
    told = str(state.get("message") or "").strip()
    why = f" ({told})" if told else ""
    then = "is still being sent" if result.folder.sender() else "is sent by `mlflow-resilience sync`"
    return f"mlflow-resilience: MLflow lacks something yet{why}; it waits in {result.folder.path} and {then}"
