"""Do the records fit what the model takes, and its losses?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mlflow_resilience.doctor.facts import Column, Expected, Head, Shape, Split
from mlflow_resilience.doctor.finding import Finding

_SPARSE, _ONE_HOT, _BINARY = "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"


def inputs_fit(split: Split, expected: Expected) -> Iterator[Finding]:
    """As many inputs as the model has, of its shapes."""
    if not expected.inputs or not split.inputs:
        return
    if len(split.inputs) != len(expected.inputs):
        yield _misfit(f"the {split.name} data have {len(split.inputs)} inputs, the model {len(expected.inputs)}")
        return
    for column, (name, shape) in zip(split.inputs, expected.inputs, strict=True):
        if not _agree(column.shape, shape):
            yield _misfit(
                f"{column.name} of the {split.name} data has shape {column.shape}, the model's {name} {shape}"
            )


def targets_fit(split: Split, expected: Expected) -> Iterator[Finding]:
    """Each loss can be computed of its target."""
    if expected.heads and split.looked_at and len(split.targets) != len(expected.heads):
        count = f"the {split.name} data have {len(split.targets)} targets, the model {len(expected.heads)} outputs"
        yield _misfit(count, "give one target an output, in the model's order")
        return
    for column, head in zip(split.targets, expected.heads, strict=False):
        check = _LABELS.get(head.loss)
        if check is not None and column.is_number and head.classes:
            yield from check(split, column, head)


def loss_fits_activation(expected: Expected) -> Iterator[Finding]:
    """The loss is told what the last layer gives: probabilities or logits."""
    for head in expected.heads:
        probability = head.activation in ("softmax", "sigmoid")
        if head.activation == "softmax" and head.classes == 1:
            text = f"a softmax over the one unit of {head.name} is always 1: nothing can be learned"
            yield _wrong_loss("error", text, "use sigmoid with binary_crossentropy, or two units")
        elif head.from_logits is True and probability:
            text = (
                f"the loss of {head.name} expects logits (from_logits=True) and gets the result of a {head.activation}"
            )
            yield _wrong_loss("warning", text, f"leave out the {head.activation}, or from_logits=True")
        elif head.from_logits is False and head.activation == "linear":
            text = f"the loss of {head.name} expects probabilities and gets what a layer without activation gives"
            yield _wrong_loss("warning", text, "say from_logits=True in the loss, or end in softmax or sigmoid")


def _sparse(split: Split, column: Column, head: Head) -> Iterator[Finding]:
    classes = head.classes or 0
    if column.shape and column.shape[-1] == classes and classes > 1:
        text = f"{column.name} looks one-hot, of shape {column.shape}, and {_SPARSE} takes class numbers"
        yield _misfit(text, f"use {_ONE_HOT}, or give class numbers (argmax)")
        return
    yield from _in_range(split, column, 0, classes - 1, f"{head.name} has {classes} outputs", integer=True)


def _one_hot(split: Split, column: Column, head: Head) -> Iterator[Finding]:
    if not column.shape or column.shape[-1] != head.classes:
        text = f"{column.name} has shape {column.shape}, and {_ONE_HOT} compares it with {head.classes} outputs"
        yield _misfit(text, f"give one-hot targets, or use {_SPARSE} with class numbers")
        return
    sums = column.values.sum(axis=-1)
    if not np.allclose(sums, 1.0, atol=1e-3):
        text = f"rows of {column.name} add up to {float(sums.min()):g} to {float(sums.max()):g}, and not to 1"
        yield _wrong_loss("warning", text, "give a probability for each class, or use binary_crossentropy")


def _binary(split: Split, column: Column, head: Head) -> Iterator[Finding]:
    yield from _in_range(split, column, 0, 1, f"{_BINARY} takes probabilities", integer=False)


_LABELS: dict[str, Callable[[Split, Column, Head], Iterator[Finding]]] = {
    _SPARSE: _sparse,
    _ONE_HOT: _one_hot,
    _BINARY: _binary,
}


def _in_range(split: Split, column: Column, low: int, high: int, why: str, *, integer: bool) -> Iterator[Finding]:
    values = column.values.reshape(len(column.values), -1)
    outside: np.ndarray = np.any((values < low) | (values > high), axis=1)
    if outside.any():
        yield Finding(
            severity="error",
            check="labels",
            text=f"{column.name} of the {split.name} data goes from {values.min():g} to {values.max():g} where {why}: "
            f"{int(outside.sum())} of {len(outside)} records looked at are outside of {low} to {high} (on a GPU their "
            "loss is NaN, without an error)",
            remedy="count classes from 0, and give the last layer as many units as there are classes",
        )
    elif integer and column.values.dtype.kind == "f" and not np.equal(np.mod(values, 1), 0).all():
        yield _misfit(f"{column.name} holds fractions where {_SPARSE} takes class numbers", "use a regression loss")


def _agree(found: Shape, expected: Shape) -> bool:
    if len(found) != len(expected):
        return False
    return all(wanted is None or size == wanted for size, wanted in zip(found, expected, strict=True))


def _misfit(text: str, remedy: str = "resize or reshape the records, or change the model's Input") -> Finding:
    return Finding(severity="error", check="shapes", text=text, remedy=remedy)


def _wrong_loss(severity: str, text: str, remedy: str) -> Finding:
    return Finding(severity="error" if severity == "error" else "warning", check="loss", text=text, remedy=remedy)
