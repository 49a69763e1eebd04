"""Faults on purpose are the real thing: the kernel's own errors, a file that is really torn, a refused connection."""

from __future__ import annotations

import errno
import os
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import describe
from mlflow_resilience.fault_plan import KINDS, PlannedFault, parse
from mlflow_resilience.recoveries import BUILT_IN
from mlflow_resilience.spool import full_disk, outage
from mlflow_resilience.strikes import STRIKES, Place
from mlflow_resilience.strikes.recorded import simulated
from mlflow_resilience.testing import Injector


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path, checkpoints=tmp_path, settle=lambda: None, read=lambda path: None)


@pytest.mark.parametrize(
    ("kind", "number", "judged"),
    [
        ("transient_io", errno.EIO, "transient_io"),
        ("resource_limit", errno.EMFILE, "resource_limit"),
        ("environment", None, "environment"),
    ],
)
def test_the_systems_own_errors(place: Place, kind: str, number: int | None, judged: str) -> None:
    """Raised by the kernel or the loader, and judged by what they say."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(OSError) as raised:
        STRIKES[kind](None, place)
    assert raised.value.errno == number
    fault = describe(raised.value, phase="step")
    assert (classify(fault, BUILT_IN).failure_class, fault.simulated) == (judged, False)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_one_write_finds_the_disk_full(place: Place) -> None:
    """The kernel refuses it with ENOSPC; the one after it has room again."""
    target = place.folder / "tensors"
    assert full_disk.place_for(target) == target
    assert STRIKES["disk_full"]("batch", place) == "batch"
    with pytest.raises(OSError) as raised, open(full_disk.place_for(target), "wb", buffering=0) as file:
        file.write(b"x")
    assert raised.value.errno == errno.ENOSPC
    assert full_disk.place_for(target) == target


def test_the_newest_checkpoint_is_torn_and_what_shares_its_bytes_is_not(tmp_path: Path) -> None:
    """It is read after that, as by whoever goes back to it; a logged model that shares the file stays whole."""
    for step in (10, 20):
        (tmp_path / f"step-{step:010d}").mkdir()
        (tmp_path / f"step-{step:010d}" / "state.safetensors").write_bytes(b"0123456789")
    newest = tmp_path / "step-0000000020"
    os.link(newest / "state.safetensors", tmp_path / "model")
    read: list[Path] = []
    waited: list[bool] = []
    place = Place(
        folder=tmp_path, checkpoints=tmp_path, settle=lambda: waited.append(True), read=lambda path: read.append(path)
    )
    STRIKES["torn_checkpoint"](None, place)
    assert (newest / "state.safetensors").read_bytes() == b"01234"
    assert (tmp_path / "step-0000000010" / "state.safetensors").read_bytes() == b"0123456789"
    assert (tmp_path / "model").read_bytes() == b"0123456789"
    assert (read, waited) == ([newest], [True])


def test_where_there_is_no_checkpoint_yet_it_says_so(place: Place) -> None:
    """Nothing can be torn then."""
    with pytest.raises(RuntimeError, match="choose a later step"):
        STRIKES["torn_checkpoint"](None, place)


def test_an_outage_refuses_the_senders_connections_and_passes(place: Place) -> None:
    """For the job of this folder alone."""
    outage.meet(place.folder)
    STRIKES["tracking_down"](None, place)
    with pytest.raises(ConnectionRefusedError):
        outage.meet(place.folder)
    assert outage.is_on(place.folder)
    outage.meet(place.folder.parent)
    outage.begin(place.folder, 0.0)
    outage.meet(place.folder)


def test_what_was_made_by_hand_says_so() -> None:
    """Its fault does, and survives the journal with it."""
    fault = describe(simulated(RuntimeError("x")))
    assert fault.simulated
    assert type(fault).from_dict(fault.to_dict()).simulated
    assert not describe(RuntimeError("x")).simulated


def test_each_strikes_as_often_as_planned_over_all_processes(place: Place) -> None:
    """What struck in an earlier process counts, and each strike is told before it happens."""
    told: list[PlannedFault] = []
    injector = Injector(parse("raise@3x3"), lambda: Counter({"raise@3x3": 1}), told.append, place)
    assert injector.strike(2, "batch") == "batch"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="on purpose"):
            injector.strike(3, "batch")
    assert injector.strike(3, "batch") == "batch"
    assert len(told) == 2


def test_every_fault_that_can_be_asked_for_can_be_made() -> None:
    """The plan's kinds are those that there are."""
    strikes: dict[str, Any] = STRIKES
    assert set(strikes) == set(KINDS)
