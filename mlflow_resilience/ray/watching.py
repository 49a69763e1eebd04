"""What runs in a worker of Ray: starts the process of one rank, and ends it when the group cannot go on.

The training has a process of its own, whose main thread can take signals and whose end is told by its exit status.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mlflow_resilience.ray.notices import FOLDER, RANK, SIZE, Notices
from mlflow_resilience.ray.output import name_of
from mlflow_resilience.ray.root_cause import ended_badly
from mlflow_resilience.supervisor import kernel

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0  # for what a rank still has to write down when another one has ended

_RANK = (sys.executable, "-m", "mlflow_resilience.ray.rank")


def train_rank(config: dict[str, Any]) -> None:
    """The function that Ray Train runs in each worker. It never raises: notices tell how the rank has ended."""
    from ray import train
    from ray.util import get_node_ip_address

    context = train.get_context()
    config = {**config, "address": config["address"] or get_node_ip_address()}
    watch_rank(config, context.get_world_rank(), context.get_world_size())


def watch_rank(config: dict[str, Any], rank: int, size: int) -> int:
    """Start a rank, and stay until it has ended: its exit code, or its signal as a negative number."""
    notices = Notices(Path(config["folder"]))
    told = {FOLDER: config["folder"], RANK: str(rank), SIZE: str(size)}
    environ = {**os.environ, **config["environ"], **told}
    with (notices.folder / name_of(rank)).open("wb") as log:
        process = subprocess.Popen(
            _RANK, cwd=config["cwd"], env=environ, stdout=log, stderr=log, preexec_fn=kernel.end_with_parent
        )
    notices.tell_of_rank(rank, "start", pid=process.pid, address=f"{config['address']}:{_free_port(config['address'])}")
    halted = 0.0
    others_ended: float | None = None
    facts: dict[str, Any] = {}
    while process.poll() is None:
        time.sleep(_LOOK_SECONDS)
        halted = halted + _LOOK_SECONDS if kernel.is_stopped(process.pid) else 0.0
        if halted > config["halted_seconds"]:
            facts = {"silent_seconds": halted}
            process.kill()
        elif others_ended is None and ended_badly(notices.all_ranks("end", size)):
            others_ended = time.monotonic()
        elif others_ended is not None and time.monotonic() - others_ended > _PATIENCE_SECONDS and not facts:
            facts = {"by_us": True}
            process.kill()
    code = process.wait()
    if others_ended is not None:
        facts.setdefault("by_us", True)
    notices.tell_of_rank(rank, "end", pid=process.pid, code=code, **facts)
    return code


def _free_port(address: str) -> int:
    with socket.socket() as listening:
        listening.bind((address, 0))
        return int(listening.getsockname()[1])
