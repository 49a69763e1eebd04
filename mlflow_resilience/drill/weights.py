"""How far the weights of two checkpoints are apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import safetensors.numpy


def distance(before: Path | None, after: Path | None) -> float | None:
    """The norm of the difference over the norm of ``before``, over all tensors of the model; None where one of the
    files is missing or cannot be read."""
    if before is None or after is None:
        return None
    try:
        old, new = (safetensors.numpy.load_file(path) for path in (before, after))
    except Exception:  # a damaged file is told by what reads it for good
        return None
    names = [name for name, value in old.items() if name.startswith("model/") and value.dtype.kind == "f"]
    if not all(name in new and new[name].shape == old[name].shape for name in names):
        return None
    apart = sum(float(np.square(old[name].astype("f8") - new[name].astype("f8")).sum()) for name in names)
    norm = sum(float(np.square(old[name].astype("f8")).sum()) for name in names)
    return float(np.sqrt(apart / norm)) if norm else None
