"""A user's recipe with a striker beside it: what the worker of a cell trains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mlflow_resilience import recipe
from mlflow_resilience.drill.striker import FOLDER, Order, Striker, callback

_folder = Path(os.environ[FOLDER])
_order = Order.read(_folder)
_recipe = recipe.load(_order.recipe)
_striker = Striker(_order, _folder, Path(os.environ["MLFLOW_RESILIENCE_JOB"]))

build_model = _recipe.build_model
load_data = _recipe.load_data
if _recipe.fingerprint is not None:
    fingerprint = _recipe.fingerprint


def callbacks(params: recipe.Params) -> list[Any]:
    """The recipe's own, and the striker's."""
    own = _recipe.callbacks(params) if _recipe.callbacks is not None else []
    return [*own, callback(_striker)]
