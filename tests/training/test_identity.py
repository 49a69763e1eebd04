"""A disturbed training ends as an undisturbed one of plain Keras: weights, optimiser and history, bit for bit."""

from __future__ import annotations

import functools
import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.journal import read
from tests.training import children
from tests.training.killing import POINTS, WAYS, Kill

NAMES = (
    "slices",
    "stateless",
    "stateful_ops",
    "generator",
    "arrays",
    "py_dataset",
    "unknown",
    "repeated",
    "built_images",
    "built_arrays",
    "three_steps_per_execution",
)
CELLS = list(itertools.product(NAMES, POINTS, WAYS))
SEED = int(os.environ["MATRIX_SEED"])
SAMPLE = 2
PIECES = ["weights", "optimizer", "seed generators", "metrics", "data position", "callbacks", "random state"]
FEW = random.Random(SEED).sample(PIECES, 2)
_EXITS = {"SIGKILL": [-9, 0], "exception": [0], "SIGTERM": [75, 0]}


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What plain Keras makes of a pipeline; asked once for each."""

    @functools.cache
    def made(pipeline: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(f"plain-{pipeline}")
        assert children.run("tests.training.fits:plain", folder, pipeline=pipeline) == 0
        facts: dict[str, Any] = children.facts(folder)
        return facts

    return made


def train(folder: Path, pipeline: str, kills: list[Kill], **more: Any) -> tuple[list[int], dict[str, Any]]:
    """Start the training again until it ends well; the exit codes, and how it ended."""
    codes = []
    while not codes or codes[-1] != 0:
        codes.append(children.run("tests.training.fits:resilient", folder, pipeline=pipeline, kills=kills, **more))
        assert len(codes) <= len(kills) + 1, children.output(folder)
    return codes, children.facts(folder)


def starts(folder: Path) -> list[int]:
    """The global step that each attempt started from."""
    journal = jobs(folder)[0].journal
    return [entry["step"] for entry, _ in read(journal) if entry["kind"] == "attempt"]


def survives(reference: Any, folder: Path, pipeline: str, point: str, way: str) -> None:
    codes, ended = train(folder, pipeline, [Kill(point, way)])
    assert codes == _EXITS[way], children.output(folder)
    assert ended == reference(pipeline)
    resumed = starts(folder)[-1]
    assert resumed > 0 or point == "step 1", f"it started anew: {starts(folder)}"


@pytest.fixture(scope="module")
def left_out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A training killed in the middle of an epoch, and resumed from its whole state and from incomplete ones."""
    folder = tmp_path_factory.mktemp("killed")
    kill = Kill("middle of epoch 1", "SIGKILL")
    assert children.run("tests.training.fits:resilient", folder, pipeline="eager", kills=[kill]) == -9
    again = tmp_path_factory.mktemp("again")
    incomplete = "tests.training.fits:resumed_incompletely"
    pieces = PIECES if request.config.getoption("--all") else FEW
    assert children.run(incomplete, again, pipeline="eager", killed=str(folder), pieces=pieces) == 0
    assert starts(again / "whole")[-1] > 10, "the state is to be one in which every piece counts"
    return children.facts(again)


def test_the_whole_state_is_enough(reference: Any, left_out: Any) -> None:
    assert left_out["whole"] == reference("eager")


@pytest.mark.parametrize(
    "piece", [pytest.param(piece, marks=[] if piece in FEW else [pytest.mark.full]) for piece in PIECES]
)
def test_no_piece_of_the_state_can_be_left_out(reference: Any, left_out: Any, piece: str) -> None:
    """The comparison above would notice: each piece changes the result."""
    assert left_out[piece] != reference("eager")


@pytest.mark.parametrize("pipeline", random.Random(SEED).sample(NAMES, 1))
def test_undisturbed_it_is_plain_fit(reference: Any, tmp_path: Path, pipeline: str) -> None:
    """The fast tier looks at one pipeline, drawn by MATRIX_SEED; the cells below need the same of theirs."""
    _, ended = train(tmp_path, pipeline, [])
    assert ended == reference(pipeline)


@pytest.mark.full
@pytest.mark.parametrize("pipeline", NAMES)
def test_undisturbed_every_pipeline_is_plain_fit(reference: Any, tmp_path: Path, pipeline: str) -> None:
    _, ended = train(tmp_path, pipeline, [])
    assert ended == reference(pipeline)


@pytest.mark.parametrize(("pipeline", "point", "way"), random.Random(SEED).sample(CELLS, SAMPLE))
def test_a_sample_of_kills_leaves_no_trace(reference: Any, tmp_path: Path, pipeline: str, point: str, way: str) -> None:
    """A cell of the matrix, drawn by MATRIX_SEED; the seed is in the report's header."""
    survives(reference, tmp_path, pipeline, point, way)


@pytest.mark.full
@pytest.mark.parametrize(("pipeline", "point", "way"), CELLS)
def test_no_kill_leaves_a_trace(reference: Any, tmp_path: Path, pipeline: str, point: str, way: str) -> None:
    survives(reference, tmp_path, pipeline, point, way)
