"""The same recipe in a process that leaves the optimiser's slots out when it restores a state."""

from __future__ import annotations

from tests.drill.tiny_recipe import build_model, load_data
from tests.training.omissions import OMISSIONS

__all__ = ["build_model", "load_data"]

OMISSIONS["optimizer"]().__enter__()
