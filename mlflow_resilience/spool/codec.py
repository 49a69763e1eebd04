"""How an entry looks on disk, and how the file is read back.

An entry is ``LF crc32 SP length SP json LF``. The leading LF closes whatever a killed process left torn, so that a
torn entry never damages the next one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

FORMAT = 1
CHUNK_BYTES = 1 << 20


def _plain(value: Any) -> Any:
    """NumPy's scalars by their value, all else that JSON does not know by its text."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else str(value)


def encode(entry: Entry) -> bytes:
    """The bytes of one entry."""
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=_plain)
    body = text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes a JSON escape
    return b"\n%08x %d %s\n" % (zlib.crc32(body), len(body), body)


def decode(line: bytes) -> Entry | None:
    """The entry of one line, or None when the line is damaged."""
    parts = line.split(b" ", 2)
    if len(parts) != 3:
        return None
    checksum, length, body = parts
    try:
        if int(length) != len(body) or int(checksum, 16) != zlib.crc32(body):
            return None
        entry = json.loads(body)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


@dataclass
class Reader:
    """Reads a journal from an offset; ``offset`` is always where to go on, ``damaged`` counts skipped lines."""

    path: Path
    offset: int = 0
    damaged: int = 0

    def poll(self) -> Iterator[tuple[Entry, int]]:
        """Each whole entry that is there now, with the offset after it. An incomplete last line waits."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            yield from self._lines(descriptor)
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int) -> Iterator[tuple[Entry, int]]:
        rest = b""
        position = self.offset
        while chunk := os.pread(descriptor, CHUNK_BYTES, position):
            position += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.offset += len(line) + 1
                if not line:
                    continue
                entry = decode(line)
                if entry is None:
                    self.damaged += 1
                else:
                    yield entry, self.offset


def read(path: str | os.PathLike[str], offset: int = 0) -> Iterator[tuple[Entry, int]]:
    """The entries from ``offset`` on, each with the offset after it. A missing file has none."""
    return Reader(Path(path), offset).poll()
