"""The journal: nothing acknowledged is lost, nothing is doubled, whatever is killed and wherever the file is cut."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_resilience.spool import journal as journal_module
from mlflow_resilience.spool.codec import Reader, decode, encode
from mlflow_resilience.spool.journal import Journal, read
from tests.core.secret_shapes import SECRETS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def numbers(path: Path) -> list[int]:
    return [entry["n"] for entry, _ in read(path) if "n" in entry]


@given(value=JSON)
def test_an_entry_reads_back_as_written(value: object) -> None:
    """Whatever JSON holds, line ends and lone surrogates included."""
    line = encode({"kind": "event", "value": value})
    assert line.count(b"\n") == 2
    assert decode(line.strip(b"\n")) == {"kind": "event", "value": value}


def test_not_a_number_is_kept(tmp_path: Path) -> None:
    """A diverged loss is a value like others."""
    journal = Journal(tmp_path / "journal")
    journal.append("points", durable=True, points=[["loss", 1, float("nan"), 1], ["loss", 2, float("inf"), 2]])
    ((entry, _),) = read(journal.path)
    assert str(entry["points"][0][2]) == "nan"
    assert entry["points"][1][2] == float("inf")
    journal.close()


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(max_size=20), min_size=1, max_size=5),
    after=st.lists(st.text(max_size=5), max_size=2),
    data=st.data(),
)
def test_every_cut_point(texts: list[str], after: list[str], data: st.DataObject) -> None:
    """Cut anywhere, then appended to by another process: the whole entries before, all after, each once."""
    blob = b"".join(encode({"n": n, "text": text}) for n, text in enumerate(texts))
    tail = b"".join(encode({"n": 100 + n, "text": text}) for n, text in enumerate(after))
    path = Path(data.draw(st.just("/dev/shm"))) / f"journal-{os.getpid()}"
    ends = [len(b"".join(encode({"n": n, "text": text}) for n, text in enumerate(texts[: count + 1]))) for count in
            range(len(texts))]  # fmt: skip
    for cut in range(len(blob) + 1):
        path.write_bytes(blob[:cut])
        whole = sum(end <= cut for end in ends)
        reader = Reader(path)
        assert [entry["n"] for entry, _ in reader.poll()] == list(range(whole))
        path.write_bytes(blob[:cut] + tail)
        seen = [entry["n"] for entry, _ in reader.poll()]
        closed = sum(end - 1 <= cut for end in ends) if tail else whole  # the next LF closes an entry without its own
        assert seen == list(range(whole, closed)) + [100 + n for n in range(len(after))]
        assert reader.damaged <= 1
    path.unlink()


def test_reading_goes_on_from_any_offset(tmp_path: Path) -> None:
    """A follower that starts again at the offset it noted sees the rest, once."""
    path = tmp_path / "journal"
    path.write_bytes(b"".join(encode({"n": n}) for n in range(20)))
    offsets = [0, *(offset for _, offset in read(path))]
    for count, offset in enumerate(offsets):
        assert [entry["n"] for entry, _ in read(path, offset)] == list(range(count, 20))


def test_a_damaged_line_is_skipped_and_counted(tmp_path: Path) -> None:
    """A flipped byte costs its entry alone."""
    path = tmp_path / "journal"
    lines = [encode({"n": n}) for n in range(3)]
    path.write_bytes(lines[0] + lines[1].replace(b'"n":1', b'"n":7') + lines[2])
    reader = Reader(path)
    assert [entry["n"] for entry, _ in reader.poll()] == [0, 2]
    assert reader.damaged == 1


WRITER = """
import sys
from mlflow_resilience.spool.journal import Journal
journal = Journal(sys.argv[1])
for n in range(int(sys.argv[2]), int(sys.argv[2]) + 100000):
    journal.append("event", n=n, text="x" * (n % 300), durable=n % 7 == 0)
    if n % 7 == 0:
        print(n, flush=True)
"""


def start_writer(path: Path, first: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )


def test_killed_writers_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """Three processes append at once; each is killed by SIGKILL in the middle of it; none damages another's."""
    path = tmp_path / "journal"
    acknowledged: list[int] = []
    for round_ in range(2):
        writers = [start_writer(path, (round_ * 3 + each + 1) * 1_000_000) for each in range(3)]
        for writer in writers:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(12)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().splitlines()
            writer.wait()
            acknowledged += [int(line) for line in lines if line.strip()]
    seen = numbers(path)
    assert len(seen) == len(set(seen)), "doubled"
    assert set(acknowledged) <= set(seen), "lost"
    for first in range(1, 7):
        mine = [n - first * 1_000_000 for n in seen if n // 1_000_000 == first]
        assert mine == list(range(len(mine))), "a gap, or out of order"


def test_short_writes_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes a few bytes at a time and then none for a while: each entry once, whole."""
    real, calls = os.write, [0]

    def stingy(descriptor: int, data: bytes) -> int:
        calls[0] += 1
        if calls[0] % 5 == 0:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: 31 + 7 * (calls[0] % 17)])

    monkeypatch.setattr(journal_module.time, "sleep", lambda _: None)
    journal = Journal(tmp_path / "journal", interval=0)
    monkeypatch.setattr(os, "write", stingy)
    for n in range(60):
        journal.append("event", n=n)
    journal.flush()
    monkeypatch.setattr(os, "write", real)
    journal.close()
    assert numbers(journal.path) == list(range(60))


def test_a_refusing_disk_is_said_and_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable append raises the disk's error after its patience; the entry is written when space returns."""
    real = os.write
    journal = Journal(tmp_path / "journal", patience=0.3)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.append("event", n=1, durable=True)
    monkeypatch.setattr(os, "write", real)
    journal.append("event", n=2, durable=True)
    assert numbers(journal.path) == [1, 2]
    journal.close()


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk stands still, gauges are thinned and said once; the rest waits for room and none is lost."""
    real, gate = os.fsync, threading.Event()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (gate.wait(), real(descriptor)))
    journal = Journal(tmp_path / "journal", interval=0, memory_bytes=2000)
    journal.append("event", n=0)
    while journal._unsynced == 0:  # the writer now stands in fsync
        gate.wait(0.005)
    for n in range(1, 40):
        journal.append("event", n=n) if journal._waiting_bytes <= 2000 else journal.append("gauges", points=[])
    held = journal._waiting_bytes
    assert held < 4000
    filler = threading.Thread(target=lambda: [journal.append("event", n=n) for n in range(100, 140)])
    filler.start()
    gate.set()
    filler.join()
    journal.close()
    entries = [entry for entry, _ in read(journal.path)]
    assert sum(entry.get("name") == "gauges_thinned" for entry in entries) == 1
    assert [entry["n"] for entry in entries if entry.get("n", 0) >= 100] == list(range(100, 140))


def test_disk_bound_thins_gauges_only(tmp_path: Path) -> None:
    """Beyond the bound one gauge in ten is kept, and every point of a curve."""
    journal = Journal(tmp_path / "journal", disk_bytes=100)
    journal.append("event", durable=True, text="x" * 100)
    for n in range(50):
        journal.append("gauges", points=[["memory/x", n, 1.0, n]])
        journal.append("points", attempt=1, points=[["loss", n, 1.0, n]])
    journal.close()
    kinds = [entry["kind"] for entry, _ in read(journal.path)]
    assert kinds.count("gauges") == 5
    assert kinds.count("points") == 50
    assert kinds.count("event") == 2


def test_fork(tmp_path: Path) -> None:
    """What the parent has queued stays the parent's; the child's own entries arrive; none is doubled."""
    journal = Journal(tmp_path / "journal", interval=5)
    for n in range(5):
        journal.append("event", n=n)
    child = os.fork()
    if child == 0:
        try:
            journal.append("event", n=100, durable=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    journal.close()
    assert sorted(numbers(journal.path)) == [0, 1, 2, 3, 4, 100]


def test_appending_is_cheap(tmp_path: Path) -> None:
    """60 s of 1,000 metrics a second, as fast as they come: no append waits for the disk, memory stays bounded."""
    journal = Journal(tmp_path / "journal")
    points = [[f"batch/m{n}", 1, 0.5, 1_700_000_000_000] for n in range(10)]
    most = 0
    for _ in range(6000):
        journal.append("points", attempt=1, points=points)
        most = max(most, journal._waiting_bytes)
    journal.close()
    assert most < 8 << 20
    assert sum(len(entry["points"]) for entry, _ in read(journal.path)) == 60_000


def test_header_says_the_format(tmp_path: Path) -> None:
    """The first entry carries the format's version; fields override the automatic ones."""
    journal = Journal(tmp_path / "journal")
    journal.append("header", job_id="j")
    journal.append("attempt", attempt=1, pid=7, time=1.5)
    journal.close()
    header, attempt = (json.loads(json.dumps(entry)) for entry, _ in read(journal.path))
    assert (header["format"], header["pid"]) == (1, os.getpid())
    assert (attempt["pid"], attempt["time"]) == (7, 1.5)
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append("event")


def test_secrets_are_not_written(tmp_path: Path) -> None:
    """In texts however deep, and under names that say so; places, names and numbers stay as they are."""
    told, secret = SECRETS["GitHub"]
    journal = Journal(tmp_path / "journal")
    data = {"list": [told], "path": f"/data/{secret}"}
    journal.append("event", durable=True, text=told, data=data)
    journal.append("params", durable=True, run="job", params={"db_password": "zebra-crossing", "path": "/data"})
    journal.append("points", durable=True, points=[["loss", 1, 0.5, 2]])
    journal.close()
    event, params, points = (entry for entry, _ in read(journal.path))
    assert secret not in event["text"] and secret not in event["data"]["list"][0]
    assert event["data"]["path"] == f"/data/{secret}", "a file that was renamed would not be found"
    assert params["params"] == {"db_password": "[redacted]", "path": "/data"}
    assert points["points"] == [["loss", 1, 0.5, 2]]
