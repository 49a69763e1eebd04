"""The append-only journal: an in-memory append for the caller, a thread that writes and fsyncs in batches."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from mlflow_resilience.spool.cleaning import clean
from mlflow_resilience.spool.codec import FORMAT, encode, read

__all__ = ["Journal", "read"]

MEGABYTE = 1 << 20


class Journal:
    """One job's journal, open for appending; several processes may append to the same file.

    ``append`` costs the caller an in-memory append; secrets are left out of what it is given. When the disk cannot
    keep up, gauges are dropped once ``memory_bytes`` are waiting and everything else waits for room; when the file is
    beyond ``disk_bytes``, nine of ten gauges are left out. Either is said once, as an event. Safe over ``fork``: the
    child begins with an empty queue, and a child that ends by ``os._exit`` must call ``flush`` first.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        interval: float = 0.1,
        memory_bytes: int = 64 * MEGABYTE,
        disk_bytes: int = 4096 * MEGABYTE,
        patience: float = 30.0,
    ) -> None:
        self.path = Path(path)
        self._interval, self._patience = interval, patience
        self._memory_bytes, self._disk_bytes = memory_bytes, disk_bytes
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        self._thinned = 0
        self._closed = False
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._appended = self._unsynced = self._acknowledged = 0  # entries, over the life of this queue
        self._urgent = False
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        """Add an entry. With ``durable``, return only once it is on disk; then a disk that refuses for
        ``patience`` seconds raises its OSError (the entry stays queued)."""
        if self._pid != os.getpid():  # before any lock: it may have been held at the fork
            self._reset()
        if kind == "gauges" and not durable and self._thin():
            return
        entry: dict[str, Any] = {"kind": kind, "time": time.time(), "pid": self._pid}
        if kind == "header":
            entry["format"] = FORMAT
        number = self._enqueue(encode(clean({**entry, **fields, "kind": kind})))
        if durable:
            self._await(number)

    def flush(self) -> None:
        """Return once all that was appended in this process is on disk."""
        if self._pid == os.getpid():
            self._await(self._appended)

    def close(self) -> None:
        """Flush and let go of the file; a second call does nothing."""
        atexit.unregister(self.close)
        if self._closed:
            return
        if self._pid != os.getpid():
            self._reset()
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            if self._thread is not None:
                self._thread.join()
            os.close(self._descriptor)

    def _thin(self) -> bool:
        full = self._waiting_bytes > self._memory_bytes
        if not full and self._size <= self._disk_bytes:
            return False
        self._thinned += 1
        if self._thinned == 1:
            text = "the journal met its bound: system metrics are thinned"
            entry = {"kind": "event", "time": time.time(), "pid": self._pid, "name": "gauges_thinned", "text": text}
            self._enqueue(encode(entry), wait=False)
        return full or self._thinned % 10 != 0

    def _enqueue(self, line: bytes, wait: bool = True) -> int:
        with self._changed:
            if self._closed:
                raise ValueError(f"the journal is closed: {self.path}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_for_ever, name="journal", daemon=True)
                self._thread.start()
            while wait and self._waiting_bytes > self._memory_bytes:
                self._wake_writer()
                self._changed.wait(0.05)
            self._queue.append(line)
            self._waiting_bytes += len(line)
            self._appended += 1
            if len(self._queue) == 1:
                self._changed.notify_all()
            return self._appended

    def _wake_writer(self) -> None:
        self._urgent = True
        self._changed.notify_all()

    def _await(self, number: int) -> None:
        deadline = time.monotonic() + self._patience
        with self._changed:
            while self._acknowledged < number:
                if time.monotonic() > deadline:
                    raise self._error or TimeoutError(f"the journal could not be written: {self.path}")
                self._wake_writer()
                self._changed.wait(0.2)

    def _write_for_ever(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._unsynced or self._closed)
                if self._closed:
                    return
                self._changed.wait_for(lambda: self._urgent, self._interval)
                self._urgent = False
                batch = list(self._queue)
            try:
                self._write(batch)
            except OSError as error:
                self._error = error
                time.sleep(0.2)  # a full disk, mostly: what waits is written when space returns

    def _write(self, batch: list[bytes]) -> None:
        """Write, take off the queue what is whole in the file, fsync, acknowledge."""
        size = os.write(self._descriptor, b"".join(batch)) if batch else 0
        done, left = 0, size
        while done < len(batch) and left >= len(batch[done]) - 1:  # the next entry's leading LF closes it as well
            left -= len(batch[done])
            done += 1
        with self._changed:
            self._waiting_bytes -= sum(len(self._queue.popleft()) for _ in range(done))
            self._unsynced += done
            self._size = os.fstat(self._descriptor).st_size  # others append too
        os.fsync(self._descriptor)
        with self._changed:
            self._acknowledged += self._unsynced
            self._unsynced = 0
            self._changed.notify_all()
        if done < len(batch):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
