"""The parameters of engine=ray, checked before anything is started."""

from __future__ import annotations

import importlib.util

import pytest

from mlflow_resilience.cli.main import call
from mlflow_resilience.errors import UsageError
from mlflow_resilience.parameters import Parameters


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"num_workers": "2"}, "engine=ray"),
        ({"engine": "mpi"}, "local or ray"),
        ({"engine": "ray", "num_workers": "0"}, "1 or more"),
        ({"engine": "ray", "num_workers": "4", "batch_size": "3"}, "batch_size=3"),
        ({"engine": "ray", "num_workers": "2", "warm_spare": "true"}, "warm_spare"),
        ({"engine": "ray", "num_workers": "2", "compress": "int8"}, "compress"),
    ],
)
def test_what_does_not_go_together_is_said(given: dict[str, str], told: str) -> None:
    """In one line that names the parameter."""
    with pytest.raises(UsageError, match=told):
        Parameters.from_text(given)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage, with what to install."""
    assert call(["train", "--engine", "ray", "--num-workers", "2"]) == 2
    assert "mlflow-resilience[ray]" in capsys.readouterr().err
