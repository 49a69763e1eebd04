"""Gradients that vanish on their way to the input, or explode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlflow_resilience.diagnostics.spans import LEAST, Flags, holds, median, names, place, since
from mlflow_resilience.diagnostics.trace import Floats, Trace
from mlflow_resilience.diagnostics.verdict import Verdict

#: A layer's gradient is so much smaller than the largest one after it, both as root mean squares over weights.
VANISHING = 1e-3
#: The norm now against the norm before, both medians.
EXPLODING = 100.0
#: The share of a layer's weights that one step replaces, as a ratio of norms; and the loss against that at the start.
REPLACED, RISEN = 1.0, 1.5


def vanishing(trace: Trace) -> Iterator[Verdict]:
    """A layer's gradient is below 1e-3 of the largest one nearer to the output, in four of five of the last ten
    readings.

    Glorot and Bengio (2010, figures 7 and 8) saw back-propagated gradients shrink from layer to layer towards the
    input, where sigmoid and poor initial weights saturate; a sigmoid passes at most a quarter on, so that five layers
    of it give 4^-5 = 1e-3. Healthy networks stay above 1e-2: with ReLU and the initialisers of Glorot or He the
    layers' gradients are of one magnitude. A note, where each step still changes these layers as it should (Adam
    divides by the gradient's size): their direction may be noise. A gradient that is exactly 0 is a matter of dead
    units.
    """
    kernels = [index for index, layer in enumerate(trace.layers) if layer.has_kernel]
    if len(kernels) < 2 or len(trace.steps) < LEAST:
        return
    ratios = _below_largest(trace, kernels)
    flags: Flags = (ratios > 0) & (ratios < VANISHING)
    found = [column for column in range(len(kernels)) if holds(flags[:, column])]
    if not found:
        return
    least = min(found, key=lambda column: median(ratios[-LEAST:, column]))
    layers = [trace.layers[kernels[column]].name for column in found]
    epoch, step = place(trace, min(since(flags[:, column]) for column in found))
    ratio = median(ratios[-LEAST:, least])
    update = max(median(trace.of("update_ratio")[-LEAST:, kernels[column]]) for column in found)
    yield Verdict(
        symptom="vanishing",
        severity="note" if update >= 1e-4 else "warning",
        epoch=epoch,
        step=step,
        text=f"the gradient of {names(layers)} is {ratio:.1g} of the largest one after it",
        remedy="use ReLU and He initialisation, batch normalisation or residual connections, or fewer layers",
        evidence={"ratio": ratio, "threshold": VANISHING, "update_ratio": update, "layers": float(len(layers))},
        layers=tuple(layers),
    )


def exploding(trace: Trace) -> Iterator[Verdict]:
    """Loss or norm is not finite; or the norm has grown a hundredfold while the loss has not fallen; or steps replace a
    layer's weights altogether (an update as large as the weights, in two of the last five readings) and the loss is
    half as high again as at the start.

    Pascanu, Mikolov and Bengio (2013) clip at half to ten times the average norm: a hundredfold one is no noise. A
    norm that grows while the loss falls is a training that leaves a plateau, and none of this.
    """
    finite: Flags = np.isfinite(trace.losses) & np.isfinite(trace.global_norms)
    if not finite.all():
        yield _not_finite(trace, int(np.argmin(finite)))
        return
    broken: Flags = ~np.isfinite(trace.train_losses)
    if broken.any():
        yield _explosion(int(trace.epoch_numbers[int(np.argmax(broken))]), None, "the loss is not finite", {}, ())
    elif len(trace.steps) >= 2 * LEAST and (grown := _growth(trace)) >= EXPLODING:
        level = float(np.median(trace.global_norms[: len(trace.steps) // 2]))
        epoch, step = place(trace, since(trace.global_norms >= EXPLODING / 10 * level))
        text = f"the norm of the gradients is {grown:.3g} times what it was, and the loss has not fallen"
        yield _explosion(epoch, step, text, {"growth": grown, "threshold": EXPLODING}, ())
    else:
        yield from _replaced(trace)


def _replaced(trace: Trace) -> Iterator[Verdict]:
    ratios = np.where([layer.has_kernel for layer in trace.layers], trace.of("update_ratio"), np.nan)
    flags: Flags = ratios >= REPLACED
    recent = flags[-LEAST:].sum(axis=0) >= 2
    if not recent.any() or median(trace.losses[-LEAST:]) < RISEN * trace.start_loss:
        return
    layers = [trace.layers[index].name for index in np.flatnonzero(recent)]
    epoch, step = place(trace, int(np.argmax(flags[:, recent].any(axis=1))))
    largest = float(np.nanmax(ratios[-LEAST:, recent]))
    text = f"one step changes the weights of {names(layers)} by {largest:.3g} times their norm"
    yield _explosion(epoch, step, text, {"update_ratio": largest, "threshold": REPLACED}, tuple(layers))


def _not_finite(trace: Trace, index: int) -> Verdict:
    epoch, step = place(trace, index)
    before = trace.global_norms[:index]
    told = f"; their norm was {before[-1]:.3g} at the reading before" if len(before) else ""
    bad = trace.of("gradient_norm")[index]
    layers = [layer.name for layer, norm in zip(trace.layers, bad, strict=True) if not np.isfinite(norm)]
    text = f"loss or gradients are not finite at step {step}{told}"
    return _explosion(epoch, step, text, {"norm_before": float(before[-1])} if len(before) else {}, tuple(layers))


def _explosion(epoch: int, step: int | None, text: str, evidence: dict[str, float], layers: tuple[str, ...]) -> Verdict:
    return Verdict(
        symptom="exploding",
        severity="error",
        epoch=epoch,
        step=step,
        text=text,
        remedy="clip the gradients (global_clipnorm=1.0), lower the learning rate, or begin with smaller weights",
        evidence=evidence,
        layers=layers,
    )


def _growth(trace: Trace) -> float:
    """The norm now over the norm in the first half; 0 where the loss has fallen meanwhile."""
    half = len(trace.steps) // 2
    if np.median(trace.losses[-LEAST:]) < np.median(trace.losses[:half]):
        return 0.0
    level = float(np.median(trace.global_norms[:half]))
    return float(np.median(trace.global_norms[-LEAST:])) / level if level > 0 else 0.0


def _below_largest(trace: Trace, kernels: list[int]) -> Floats:
    """The gradient of each layer with a kernel over the largest of it and those after it; 1 where all are 0."""
    sizes = np.sqrt([trace.layers[index].size for index in kernels])
    squares = trace.of("gradient_norm")[:, kernels] / sizes
    largest = np.maximum.accumulate(squares[:, ::-1], axis=1)[:, ::-1]
    ratios: Floats = np.divide(squares, largest, out=np.ones_like(squares), where=(largest > 0) & np.isfinite(largest))
    return ratios
