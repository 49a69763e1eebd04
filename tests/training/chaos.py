"""Our `fit` under ckpt-chaos's injector, which ends the process at a chosen change of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.numpy
from ckpt_chaos import inject

from tests.training.fits import entries, resilient


def armed(folder: Path, log: str, crash_at: int | None = None, mode: str = "before") -> dict[str, Any]:
    """The training of ``folder``, each change of a file below it counted in ``log``."""
    inject.arm(str(folder), crash_at=crash_at, mode=mode, log_path=log, lazy_native=True, torn_python=True)
    return _trained(folder)


def resumed(folder: Path) -> dict[str, Any]:
    """What is left of it, and from where it went on; with the newest checkpoint that was whole before."""
    newest = max((int(path.name[5:]) for path in folder.glob("jobs/*/checkpoints/step-*") if _whole(path)), default=0)
    return {**_trained(folder), "newest": newest}


def _trained(folder: Path) -> dict[str, Any]:
    ended = resilient(folder, "slices", keep="1000")
    starts = [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"]
    return {"outcome": ended, "from": starts[-1]}


def _whole(path: Path) -> bool:
    try:
        return bool(safetensors.numpy.load_file(path / "state.safetensors")) and (path / "state.json").is_file()
    except Exception:
        return False
