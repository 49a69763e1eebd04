"""Is each step of the right size, and does every unit take part?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlflow_resilience.diagnostics.spans import LEAST, RECENT, Flags, holds, median, names, place, since
from mlflow_resilience.diagnostics.trace import Trace
from mlflow_resilience.diagnostics.verdict import Verdict

#: The ratio of update and weights should be about 1e-3 (Karpathy, CS231n); a hundredfold of that, or a hundredth.
HIGH, LOW = 1e-1, 1e-5
#: The share of a layer's units that have no gradient at all.
DEAD = 0.4
#: A unit is dead when its gradient was exactly 0 in so many readings in a row.
READINGS_OF_SILENCE = 5


def dead_units(trace: Trace) -> Iterator[Verdict]:
    """40 % or more of a layer's units had no gradient, to the last bit, in each of the last five readings.

    Karpathy (CS231n, "commonly used activation functions"): with too high a rate as much as 40 % of a network's ReLU
    units can die, and never come back. In a healthy one a unit answers to some record of five batches. Told by the
    gradient of the bias, or of the shift of a normalisation: it is the sum over all records and places.
    """
    shares = trace.of("dead")
    flags: Flags = np.nan_to_num(shares) >= DEAD
    found = [index for index in range(len(trace.layers)) if holds(flags[:, index])]
    if not found:
        return
    worst = max(found, key=lambda index: shares[-1, index])
    layers = [trace.layers[index].name for index in found]
    epoch, step = place(trace, min(since(flags[:, index]) for index in found))
    share = float(shares[-1, worst])
    yield Verdict(
        symptom="dead_units",
        severity="warning",
        epoch=epoch,
        step=step,
        text=f"{share:.0%} of the units of {trace.layers[worst].name} get no gradient any more"
        + (f" (also {names([name for name in layers if name != trace.layers[worst].name])})" if len(found) > 1 else ""),
        remedy="lower the learning rate, use He initialisation, or leaky ReLU, GELU or ELU",
        evidence={"dead": share, "threshold": DEAD, "layers": float(len(layers))},
        layers=tuple(layers),
    )


def rate_high(trace: Trace) -> Iterator[Verdict]:
    """Each step changes a layer by a tenth of its norm or more, in four of five of the last ten readings, and the loss
    has not fallen by a tenth meanwhile.

    Karpathy (CS231n, "ratio of weights:updates"): about 1e-3 is right, and what is far above has too high a rate. Small
    layers under Adam begin well above that and learn; so the loss has a say.
    """
    kernels: Flags = np.array([layer.has_kernel for layer in trace.layers], dtype=bool)
    if len(trace.steps) < RECENT or not kernels.any() or not _stands_still(trace):
        return
    ratios = trace.of("update_ratio")
    flags: Flags = kernels & (np.nan_to_num(ratios) >= HIGH)
    found = [index for index in range(len(trace.layers)) if holds(flags[:, index])]
    if not found:
        return
    layers = [trace.layers[index].name for index in found]
    epoch, step = place(trace, min(since(flags[:, index]) for index in found))
    ratio = max(median(ratios[-LEAST:, index]) for index in found)
    yield Verdict(
        symptom="rate_high",
        severity="warning",
        epoch=epoch,
        step=step,
        text=f"each step changes {names(layers)} by {ratio:.2g} of its norm (usual: 0.001), and the loss stands still",
        remedy="lower the learning rate, warm it up, or clip the gradients",
        evidence={"update_ratio": ratio, "threshold": HIGH, "learning_rate": float(trace.rates[-1])},
        layers=tuple(layers),
    )


def rate_low(trace: Trace) -> Iterator[Verdict]:
    """No layer changes by more than 1e-5 of its norm a step, in four of five of the last ten readings, while the loss
    is above half of what it began with: a hundredth of the usual ratio (Karpathy, CS231n). The end of a decay is none
    of this, since the loss is low by then."""
    kernels: Flags = np.array([layer.has_kernel for layer in trace.layers], dtype=bool)
    if len(trace.steps) < RECENT or not kernels.any():
        return
    largest = np.nan_to_num(trace.of("update_ratio")[:, kernels], nan=0.0).max(axis=1)
    flags: Flags = (largest < LOW) & (largest > 0)
    level = median(trace.losses[-LEAST:]) / trace.start_loss
    if not holds(flags) or not level > 0.5:
        return
    epoch, step = place(trace, since(flags))
    ratio = median(largest[-LEAST:])
    yield Verdict(
        symptom="rate_low",
        severity="warning",
        epoch=epoch,
        step=step,
        text=f"no step changes a layer by more than {ratio:.1g} of its norm (0.001 is usual), and the loss is at "
        f"{level:.0%} of where it began",
        remedy="raise the learning rate; a range test (Smith, 2017) finds how far",
        evidence={"update_ratio": ratio, "threshold": LOW, "learning_rate": float(trace.rates[-1])},
    )


def _stands_still(trace: Trace) -> bool:
    """Whether the loss of the last five readings is within a tenth of that of the five before them, or higher."""
    recent, before = trace.losses[-LEAST:], trace.losses[-RECENT:-LEAST]
    return bool(median(recent) >= 0.9 * median(before))
