"""The pictures of a folder, one folder a class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.errors import UsageError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif"})


@dataclass(frozen=True)
class Listing:
    """Files in the order of their paths, each with the number of its class."""

    folder: Path
    classes: tuple[str, ...]
    files: tuple[Path, ...]
    labels: tuple[int, ...]

    @property
    def fingerprint(self) -> str:
        """A digest of names and sizes: reads no picture."""
        facts = "\n".join(f"{path.relative_to(self.folder)} {path.stat().st_size}" for path in self.files)
        return hashlib.sha256(facts.encode()).hexdigest()[:16]


def listing(folder: str | Path) -> Listing:
    """The pictures below ``folder``; what is hidden, and what has another suffix, is passed over.

    Raises UsageError for what is no folder, cannot be read, or has no classes or a class without pictures.
    """
    root = Path(folder)
    classes = _folders(root)
    if not classes:
        raise UsageError(f"{root}: no folders in it; one folder of pictures a class is needed")
    files, labels = [], []
    for number, each in enumerate(classes):
        found = sorted(path for path in each.rglob("*") if path.suffix.lower() in SUFFIXES and _is_shown(path, each))
        if not found:
            raise UsageError(f"{each}: no pictures in it ({', '.join(sorted(SUFFIXES))})")
        files += found
        labels += [number] * len(found)
    return Listing(root, tuple(each.name for each in classes), tuple(files), tuple(labels))


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise UsageError(f"{root}: it cannot be read as a folder: {error.strerror}") from None


def _is_shown(path: Path, root: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
