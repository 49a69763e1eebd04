"""The verdicts and the state of each layer as plain values, for a file that a reader or a program can open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_resilience.diagnostics.trace import FEATURES, Floats, Trace
from mlflow_resilience.diagnostics.verdict import SYMPTOMS, Verdict

FORMAT = 1
#: Layers that have metrics of their own; of more, so many that are evenly spread. The table has all.
MOST_LAYERS = 20
_IN_METRICS = ("gradient_norm", "update_ratio")


def table(trace: Trace, found: Sequence[Verdict], every: int) -> dict[str, Any]:
    """As JSON values; what is no number is null."""
    return {
        "format": FORMAT,
        "every": every,
        "verdicts": [_plain(verdict.to_dict()) for verdict in found],
        "layers": [
            {
                "layer": layer.name,
                "weights": layer.size,
                **{name: _layer(trace.of(name)[:, at]) for name in FEATURES},
            }
            for at, layer in enumerate(trace.layers)
        ],
        "readings": {
            name: _plain(getattr(trace, attribute).tolist())
            for name, attribute in (("step", "steps"), ("epoch", "epochs"), ("loss", "losses"),
                                    ("learning_rate", "rates"), ("gradient_norm", "global_norms"))
        },
        "epochs": {
            name: _plain(getattr(trace, attribute).tolist())
            for name, attribute in (("epoch", "epoch_numbers"), ("loss", "train_losses"), ("val_loss", "val_losses"),
                                    ("learning_rate", "epoch_rates"))
        },
    }  # fmt: skip


def metrics(trace: Trace, index: int = -1) -> dict[str, float]:
    """Those of one reading by their names in MLflow, finite ones only: of the model, and of twenty layers at most."""
    dead = trace.of("dead")[index]
    values = {
        "learning_rate": trace.rates[index],
        "gradient_norm": trace.global_norms[index],
        "dead_units": np.nanmax(dead) if np.isfinite(dead).any() else math.nan,
    }
    for at in chosen(len(trace.layers)):
        for name in _IN_METRICS:
            values[f"{name}/{trace.layers[at].name}"] = trace.of(name)[index, at]
    return {f"diagnostics/{key}": float(value) for key, value in values.items() if math.isfinite(value)}


def tags(found: Sequence[Verdict]) -> dict[str, str]:
    """What a run is tagged with: all symptoms in one tag, and the words of each in its own."""
    texts = {verdict.symptom: str(verdict) for verdict in found}
    whole = {"resilience.diagnostics": ", ".join(texts) or "nothing found"}
    return {**whole, **{f"resilience.diagnostics.{name}": texts[name] for name in SYMPTOMS if name in texts}}


def chosen(count: int) -> list[int]:
    """Which layers are shown: all, or as many as can be, the first and the last among them."""
    return sorted({round(at) for at in np.linspace(0, count - 1, min(count, MOST_LAYERS))}) if count else []


def _layer(values: Floats) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {"last": None, "lowest": None, "highest": None}
    return {"last": _plain(float(values[-1])), "lowest": float(known.min()), "highest": float(known.max())}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
