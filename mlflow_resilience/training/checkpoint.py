"""A training state as a folder on disk: whole or not at all, and checked on reading.

A checkpoint is written under a temporary name, every file synchronised, renamed into place, and its parent folder
synchronised; ``state.json`` carries a digest of every tensor and is the completeness marker: it is written last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mlflow_resilience.core.fault import Position
from mlflow_resilience.errors import CheckpointError
from mlflow_resilience.spool import full_disk
from mlflow_resilience.spool.atomic import sync_folder
from mlflow_resilience.training import tensor_file
from mlflow_resilience.training.state import TrainingState

FORMAT = 2
_TENSORS, _STATE = "state.safetensors", "state.json"
_PIECE = 1 << 20  # bytes that are digested or written at once
#: What tensors are digested with. It has to find damage, at the speed of memory; format 1 had SHA-256.
ALGORITHM = "xxh3_128"
_DIGESTS: dict[str, Callable[[], Any]] = {"sha256": hashlib.sha256, ALGORITHM: xxhash.xxh3_128}
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_WRITING, _REPLACED = ".writing-", ".replaced-"


def _unheard(share: float) -> None:
    """Who writes without a listener."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A whole checkpoint on disk. ``digest`` is that of the model's and the optimiser's tensors."""

    path: Path
    position: Position
    digest: str
    bytes: int


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    """One digest over model and optimiser, on every replica: equal exactly when every bit of them is."""
    return _combined({name: _digest(array) for name, array in arrays.items() if _counts(name)})


def _combined(digests: dict[str, str]) -> str:
    total = hashlib.sha256()
    for name in sorted(filter(_counts, digests)):
        total.update(digests[name].encode())
    return total.hexdigest()


def _counts(name: str) -> bool:
    return name.startswith(("model/", "optimizer/", "replicas/"))


def write(folder: Path, state: TrainingState, done: Callable[[float], None] = _unheard) -> Checkpoint:
    """Write ``state`` below ``folder``. Raises OSError; nothing remains under a final name then.

    ``done`` is told of each share of the work that is done, about a megabyte's; it may take its time.
    """
    arrays = state.arrays()
    position = Position(**state.meta["position"])
    final = folder / name_of(position)
    temporary = folder / f"{_WRITING}{final.name}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        size, digests = _write_files(temporary, arrays, state.meta, done)
        _put_in_place(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        recover(folder)
        raise
    return Checkpoint(path=final, position=position, digest=_combined(digests), bytes=size)


def read(path: Path) -> TrainingState:
    """Read a checkpoint and check every tensor.

    Raises CheckpointError when anything is missing or damaged; OSError and MemoryError where it may be whole, and only
    the reading failed.
    """
    meta = _read_meta(path)
    try:
        arrays = tensor_file.read((path / _TENSORS).read_bytes())
    except Exception as error:
        if _may_be_whole(error):
            raise
        raise CheckpointError(f"{path / _TENSORS} cannot be read ({error})") from error
    for name, wanted in meta["digests"].items():
        if name not in arrays or _digest(arrays[name], algorithm=meta.get("algorithm", "sha256")) != wanted:
            raise CheckpointError(f"{path}: tensor {name} is damaged or missing")
    for name, dtype in meta["dtypes"].items():
        arrays[name] = arrays[name].view(np.dtype(dtype))
    return TrainingState(tensors=arrays, meta=meta["state"])


def complete(folder: Path) -> list[Path]:
    """The checkpoints below ``folder`` that carry their completeness marker, oldest step first."""
    found = [path for path in folder.glob("step-*") if path.name[5:].isdigit() and (path / _STATE).is_file()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def recover(folder: Path) -> None:
    """Undo what a process that died in a write left behind: for the owner of the folder, before it reads or writes."""
    for path in folder.glob(f"{_REPLACED}step-*"):
        original = path.with_name(path.name.removeprefix(_REPLACED))
        if (original / _STATE).is_file():
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.replace(path, original)
    for path in folder.glob(f"{_WRITING}*"):
        shutil.rmtree(path, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Keep a damaged checkpoint for inspection, out of the way of every later resume."""
    target = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(path, target)
    sync_folder(path.parent)
    return target


def name_of(position: Position) -> str:
    """The name of the checkpoint at a position; the number orders them, and is checked against what they hold."""
    return f"step-{position.global_step:010d}"


def named_position(path: Path) -> Position:
    """What a checkpoint's name says, for one that cannot be read."""
    return Position(global_step=int(path.name.rpartition("-")[2]))


def summary(path: Path) -> tuple[Position, dict[str, float]]:
    """Position and metrics of a checkpoint. Raises CheckpointError when its marker is damaged."""
    state = _read_meta(path)["state"]
    return Position(**state["position"]), state.get("metrics") or {}


def adopt(source: Path, folder: Path) -> None:
    """Take another job's checkpoint into ``folder``, whole or not at all; files are shared where that is possible."""
    temporary = folder / f"{_WRITING}{source.name}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, temporary, copy_function=link_or_copy)
    _put_in_place(temporary, folder / source.name)


def link_or_copy(source: str, target: str) -> None:
    """A hard link, or a copy where the file system has none: a checkpoint's files are never written again."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _put_in_place(temporary: Path, final: Path) -> None:
    """Rename into place. A step that was replayed is there already: a crash leaves the old one or the new."""
    replaced = final.with_name(f"{_REPLACED}{final.name}")
    if final.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        os.replace(final, replaced)
    os.replace(temporary, final)
    sync_folder(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _write_files(
    folder: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any], done: Callable[[float], None]
) -> tuple[int, dict[str, str]]:
    # safetensors knows no bfloat16 of NumPy's: such arrays travel as bytes of the same width.
    plain = {
        name: value if value.dtype.isbuiltin == 1 else value.view(f"u{value.dtype.itemsize}")
        for name, value in arrays.items()
    }
    total = 2 * sum(value.nbytes for value in plain.values()) or 1  # each byte is digested, and written

    def tell(count: int) -> None:
        done(count / total)

    digests = {name: _digest(value, tell) for name, value in plain.items()}
    size = _write(folder / _TENSORS, tensor_file.parts(plain), tell)
    document = {
        "format": FORMAT,
        "algorithm": ALGORITHM,
        "digests": digests,
        "dtypes": {name: str(value.dtype) for name, value in arrays.items() if value.dtype.isbuiltin != 1},
        "state": meta,
    }
    size += _write(folder / _STATE, [json.dumps(document).encode()], _unheard)
    sync_folder(folder)
    return size, digests


def _write(path: Path, parts: Sequence[bytes | memoryview], tell: Callable[[int], None]) -> int:
    with open(full_disk.place_for(path), "wb") as file:
        for part in parts:
            for piece in _pieces(part):
                file.write(piece)
                tell(len(piece))
        file.flush()
        os.fsync(file.fileno())
    return sum(map(len, parts))


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((path / _STATE).read_bytes())
        if meta["format"] > FORMAT:
            raise CheckpointError(f"{path} has format {meta['format']}; this version reads up to {FORMAT}")
        if meta.get("algorithm", "sha256") not in _DIGESTS:
            raise CheckpointError(f"{path} is digested by {meta['algorithm']!r}, which this version does not know")
        return meta
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError) or _may_be_whole(error):
            raise
        raise CheckpointError(f"{path / _STATE} cannot be read ({error})") from error


def _may_be_whole(error: Exception) -> bool:
    """Whether it says more about storage or memory than about the checkpoint."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno not in _MISSING)


def _digest(array: np.ndarray, tell: Callable[[int], None] = _unheard, algorithm: str = ALGORITHM) -> str:
    total = _DIGESTS[algorithm]()
    for piece in _pieces(tensor_file.memory_of(array)):
        total.update(piece)
        tell(len(piece))
    return total.hexdigest()


def _pieces(memory: bytes | memoryview) -> Iterator[bytes | memoryview]:
    for start in range(0, len(memory), _PIECE):
        yield memory[start : start + _PIECE]
