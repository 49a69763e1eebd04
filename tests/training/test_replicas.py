"""Several devices under `tf.distribute.MirroredStrategy`: as exact, and with the same remedies, as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training import children

PIPELINES, REPLICAS = ("arrays", "shuffled", "unknown"), (2, 4)
KILLS = [(point, way) for point in ("step 4", "last step", "step 17", "validation") for way in ("SIGKILL", "exception")]
CELLS = [(pipeline, point, way) for pipeline in PIPELINES for point, way in [*KILLS, ("step 12", "SIGTERM")]]
_SECONDS = 280.0  # TensorFlow's own devices in threads may stand still for half a minute on a busy machine

pytestmark = pytest.mark.timeout(900)


def trained(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.training.replicated:{target}", folder, _SECONDS, **arguments) == 0, children.output(
        folder
    )
    return children.facts(folder)


def to_the_end(folder: Path, **arguments: Any) -> Any:
    """The job, started again until it has ended; what its last process tells."""
    for _ in range(4):
        code = children.run("tests.training.replicated:struck", folder, _SECONDS, **arguments)
        if code == 0 and (facts := children.facts(folder))["history"] is not None:
            return facts
    raise AssertionError(f"it does not end:\n{children.output(folder)}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Plain Keras's training of a pipeline on so many replicas, once each."""
    known: dict[tuple[str, int], Any] = {}

    def training(pipeline: str, replicas: int = 2) -> Any:
        if (pipeline, replicas) not in known:
            folder = tmp_path_factory.mktemp(f"{pipeline}-{replicas}")
            known[pipeline, replicas] = trained(folder, "undisturbed", pipeline=pipeline, replicas=replicas, ours=False)
        return known[pipeline, replicas]

    return training


@pytest.mark.full
@pytest.mark.parametrize(
    ("pipeline", "replicas"), [(pipeline, replicas) for pipeline in PIPELINES for replicas in REPLICAS]
)
def test_undisturbed_it_is_plain_fit(tmp_path: Path, plain: Any, pipeline: str, replicas: int) -> None:
    """Bit for bit, with the statistics that each replica has of its own, and in every metric of every epoch."""
    ours = trained(tmp_path, "undisturbed", pipeline=pipeline, replicas=replicas, ours=True)
    assert ours == plain(pipeline, replicas)
    assert ours["own"] == 3 * replicas  # moving mean, moving variance, seeds


@pytest.mark.full
@pytest.mark.parametrize(("pipeline", "point", "way"), CELLS)
def test_struck_at_any_moment_it_ends_as_undisturbed(
    tmp_path: Path, plain: Any, pipeline: str, point: str, way: str
) -> None:
    """Weights, statistics of every replica and metrics are those of plain `fit`."""
    kills = [{"point": point, "way": way}]
    ended = to_the_end(tmp_path, pipeline=pipeline, replicas=2, kills=kills)
    assert (tmp_path / "kill-0").exists()
    assert ended["digest"] == plain(pipeline)["digest"]
    if way == "exception":
        assert ended["history"] == plain(pipeline)["history"]


@pytest.mark.full
def test_with_the_other_replicas_left_out_it_does_not(tmp_path: Path, plain: Any) -> None:
    """What each replica has of its own decides the result: a state without it is another training."""
    kills = [{"point": "step 17", "way": "SIGKILL"}]
    ended = to_the_end(tmp_path, pipeline="shuffled", replicas=2, kills=kills, left_out=True)
    assert ended["digest"] != plain("shuffled")["digest"]


@pytest.mark.full
@pytest.mark.parametrize("replicas", REPLICAS)
def test_out_of_memory_it_is_trained_in_pieces(tmp_path: Path, replicas: int) -> None:
    """Each replica's part in pieces, with one optimiser step and the same weights up to rounding."""
    facts = trained(tmp_path, "in_pieces", replicas=replicas)
    assert facts["faults"] == ["host_oom"]
    assert facts["distance"] < 1e-6
    assert facts["iterations"] == [10, 10]


@pytest.mark.full
def test_the_gradient_norm_is_that_of_one_device(tmp_path: Path) -> None:
    """The replicas' gradients are added up before they are measured."""
    facts = trained(tmp_path, "norms")
    assert len(facts["2"]) == 10
    assert facts["2"] == pytest.approx(facts["1"], rel=1e-4)


@pytest.mark.full
def test_a_bad_record_is_left_out_of_its_replica(tmp_path: Path) -> None:
    """By its number, as on one device."""
    facts = trained(tmp_path, "quarantined", replicas=2)
    assert facts["faults"] == ["bad_data"]
    ((record,),) = facts["records"]
    assert record["index"] == 30  # of the batch from 24 on, the middle one of the second replica's four
