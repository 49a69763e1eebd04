"""``mlflow-resilience replay``: one failed step once more, alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from mlflow_resilience.cli.main import USAGE
from mlflow_resilience.cli.supervision import package_path
from mlflow_resilience.core.fault import signal_name
from mlflow_resilience.errors import ResilienceError, UsageError
from mlflow_resilience.parameters import SHAPING, Parameters

_FOLDER = "resilience/replay"
_OURS = "mlflow-resilience: "


@click.command(name="replay")
@click.argument("run")
@click.option(
    "--fault", type=click.IntRange(min=1), required=True, help="Its number, as in events.jsonl and the report."
)
@click.option("--recipe", help="The recipe that was trained; default: the one that the run names.")
@click.option("--tracking-uri", help="Where the run is; default: MLFLOW_TRACKING_URI, or the store in this folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, fault: int, recipe: str | None, tracking_uri: str | None, as_json: bool) -> None:
    """Repeat the step of RUN in which a fault struck, and say whether it strikes again, and where numbers stop being
    finite. The job must have been trained with --replay."""
    from mlflow_resilience.cli.store import client_of

    with tempfile.TemporaryDirectory(prefix="replay-") as place, client_of(tracking_uri) as (client, _):
        kept, params = _fetched(client, run, fault, Path(place))
        given = {"recipe": recipe or params.get("recipe", "")}
        if not given["recipe"]:
            raise UsageError(f"run {run} does not name the recipe that it trained: give it by --recipe")
        given |= {name: params[name] for name in SHAPING if name in params}
        answer = _replayed(kept, Parameters.from_text(given))
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        click.echo("\n".join(_in_words(answer)))


def _fetched(client: Any, run_id: str, fault: int, place: Path) -> tuple[Path, dict[str, str]]:
    """What was kept of the fault, and the run's params."""
    from mlflow_resilience.tracking import retelling

    run = retelling.find(client, run_id)
    if run is None:
        raise UsageError(f"there is no run {run_id} in this tracking store")
    name = f"fault-{fault:02d}"
    kept = sorted(Path(each.path).name for each in client.list_artifacts(run.info.run_id, _FOLDER))
    if name not in kept:
        there = f"there are {', '.join(kept)}" if kept else "train with --replay 64MB to keep failed steps"
        raise UsageError(f"run {run_id} keeps no fault {fault} for a replay: {there}")
    return Path(client.download_artifacts(run.info.run_id, f"{_FOLDER}/{name}", str(place))), dict(run.data.params)


def _replayed(kept: Path, parameters: Parameters) -> dict[str, Any]:
    """The answer of the process that does it; where the step ended that process, that is the answer."""
    done = subprocess.run(
        [sys.executable, "-m", "mlflow_resilience.replaying", str(kept)],
        input=json.dumps(parameters.to_dict()),
        env={**os.environ, **package_path()},
        capture_output=True,
        text=True,
    )
    said = [line.removeprefix(_OURS) for line in done.stderr.splitlines() if line.startswith(_OURS)]
    if done.returncode == USAGE and said:
        raise UsageError(said[-1])
    if done.returncode < 0:
        meta = json.loads((kept / "replay.json").read_text())
        ended = f"the process was ended by {signal_name(-done.returncode)}"
        return {**{key: meta[key] for key in ("fault", "step", "failure_class", "exception")}, "ended": ended}
    if done.returncode:
        raise ResilienceError(f"the replay failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _in_words(answer: dict[str, Any]) -> list[str]:
    lines = [f"fault {answer['fault']}: {answer['failure_class']} ({answer['exception']}) in step {answer['step']}"]
    if "recurs" not in answer:
        return [*lines, f"recurs:    {answer['ended']}"]
    since = answer["from_step"]
    weights = (
        "as the recipe begins" if since is None else f"of step {since}, {answer['step'] - 1 - since} before its own"
    )
    return [
        *lines,
        f"weights:   {weights}",
        f"recurs:    {'yes' if answer['recurs'] else 'no'}: {answer['ended']}",
        *(f"{name + ':':<10} {answer[name]}" for name in ("inputs", "outputs", "gradients")),
    ]
