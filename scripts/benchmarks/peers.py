"""What a SIGKILL in the middle of an epoch costs, ours and what people use instead; started by scripts/bench."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KILL = 100  # the step after which it is killed: two thirds into the second of three epochs
LONGEST = 600.0  # seconds of one training with its restart
PEER = [sys.executable, str(HERE / "peer.py")]
OURS = [sys.executable, "-m", "mlflow_resilience.cli", "train", str(HERE / "peer.py"), "--epochs", "3"]
OURS += ["--batch-size", "448", "--learning-rate", "0.001", "--checkpoint-every"]

#: Name: the command; whether it starts again by itself. A loop in a shell starts the others again.
WAYS: dict[str, tuple[list[str], bool]] = {
    "`while True: fit`": ([*PEER, "bare"], False),
    "BackupAndRestore, each epoch": ([*PEER, "backup_epoch"], False),
    "BackupAndRestore, every 10 steps": ([*PEER, "backup_steps"], False),
    "MLflow's checkpoint callback, each epoch": ([*PEER, "mlflow"], False),
    "mlflow-resilience, every 10 steps": ([*OURS, "10steps"], True),
    "mlflow-resilience, with a warm spare": ([*OURS, "10steps", "--warm-spare", "true"], True),
}


@dataclass(frozen=True)
class Trained:
    """Steps as (number, time, process) in the order in which they were done; the digest of the weights in the end."""

    steps: list[tuple[int, float, int]]
    digest: str
    seconds: float


def measure(quick: bool) -> dict[str, Any]:
    """Each way undisturbed and killed, so many rounds, in turn."""
    rounds = 1 if quick else 3
    chosen = [name for name in WAYS if not quick or "`" in name or name.endswith("10 steps")]
    bare = _trained(WAYS["`while True: fit`"][0], by_itself=False, kill=False)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for number in range(rounds):
        for name in chosen:
            command, by_itself = WAYS[name]
            found[name].append(_cost(_trained(command, by_itself=by_itself, kill=True), bare))
            print(f"round {number + 1}: {name}: {found[name][-1]}", flush=True)
    return {"ways": {name: _summary(each) for name, each in found.items()}, "rounds": rounds}


def _cost(killed: Trained, bare: Trained) -> dict[str, Any]:
    """From the kill to the first step that was not done before it; steps done twice; whether the weights are those of
    the undisturbed training."""
    first = killed.steps[0][2]
    before = [each for each in killed.steps if each[2] == first]
    after = [each for each in killed.steps if each[2] != first]
    reached, at, _ = before[-1]
    new = next(time for step, time, _ in after if step > reached)
    return {
        "to_first_step": round(after[0][1] - at, 2),
        "to_new_step": round(new - at, 2),
        "steps_again": sum(step <= reached for step, _, _ in after),
        "seconds": round(killed.seconds, 1),
        "same": killed.digest == bare.digest,
    }


def _summary(each: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = ("to_first_step", "to_new_step", "steps_again", "seconds")
    medians = {key: statistics.median(one[key] for one in each) for key in numbers}
    spread = {f"{key}_range": [min(one[key] for one in each), max(one[key] for one in each)] for key in numbers}
    return {**medians, **spread, "same": sum(one["same"] for one in each), "of": len(each)}


def _trained(command: list[str], *, by_itself: bool, kill: bool) -> Trained:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        home = {"MLFLOW_RESILIENCE_HOME": str(folder / "home"), "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
        environ = {**os.environ, **home, "PYTHONPATH": str(HERE.parents[1])}
        started, struck = time.monotonic(), not kill
        while True:
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
            if not struck:
                _strike(folder, process)
                struck = True
            code = process.wait(LONGEST)
            if code == 0:
                break
            if by_itself or code != -signal.SIGKILL:
                raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{(folder / 'log').read_text()[-2000:]}")
        steps = [tuple(json.loads(line)) for line in (folder / "steps.jsonl").read_text().splitlines()]
        digest = json.loads((folder / "end.json").read_text())["digest"]
        return Trained(steps, digest, time.monotonic() - started)


def _strike(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Kill the process that trains, once it has done the step."""
    file = folder / "steps.jsonl"
    while not (file.exists() and len(file.read_bytes().splitlines()) >= KILL):
        if process.poll() is not None:
            raise RuntimeError(f"it ended before step {KILL}:\n{(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.005)
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def page(told: dict[str, Any]) -> list[str]:
    lines = [
        "## What a kill costs, here and elsewhere",
        "",
        "One training of three epochs of 60 steps (0.7 M weights, dropout, data shuffled anew in each epoch), killed",
        f"by SIGKILL after step {KILL}, and started again at once: by our supervisor, or by a loop for the rest.",
        "*First step*: from the last step before the kill to the first one after it; *new step*: to the first one that",
        "had not been done yet. *Same*: the weights in the end are those of the undisturbed training, bit for bit.",
        f"Medians of {told['rounds']} rounds in turn, least and most in brackets.",
        "",
        "| way | first step, s | new step, s | steps done again | whole, s | same |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in told["ways"].items():
        cells = [f"{each[key]:g} ({each[f'{key}_range'][0]:g} to {each[f'{key}_range'][1]:g})"
                 for key in ("to_first_step", "to_new_step", "steps_again", "seconds")]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} | {each['same']} of {each['of']} |")
    return [*lines, ""]
