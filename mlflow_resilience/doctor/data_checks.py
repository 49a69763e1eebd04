"""Is there anything in the records themselves that a training would suffer from?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from mlflow_resilience.doctor.facts import Column, Expected, Split
from mlflow_resilience.doctor.finding import Finding

#: Beyond this, activations and gradients of a network with usual initial weights are far out of scale; pixels that were
#: not rescaled come to 255, standardised values stay below 10.
_LARGE = 50.0
#: So many times rarer than the commonest: a class that a plain loss hardly sees.
_UNEVEN = 10.0
_RESCALING = frozenset({"Rescaling", "Normalization", "BatchNormalization", "LayerNormalization"})


def empty(split: Split) -> Iterator[Finding]:
    """No record at all."""
    if not split.looked_at:
        yield Finding(
            severity="error",
            check="empty",
            text=f"the {split.name} data give no record",
            remedy="look at the path, the filter and `take` or `skip` of its pipeline",
        )


def not_finite(split: Split) -> Iterator[Finding]:
    """NaN or infinity in inputs, targets or weights."""
    for column in (*split.inputs, *split.targets, *split.weights):
        if column.values.dtype.kind != "f":
            continue
        bad = ~np.isfinite(column.values.reshape(len(column.values), -1)).all(axis=1)
        if bad.any():
            yield Finding(
                severity="error",
                check="not_finite",
                text=f"{column.name} of the {split.name} data holds NaN or infinity in {_share(bad)}; the first is "
                f"record {int(bad.argmax())}",
                remedy="leave these records out, or put a value in the place of what is missing",
            )


def out_of_scale(split: Split, expected: Expected) -> Iterator[Finding]:
    """Inputs far from 1 that nothing rescales."""
    if expected.layers & _RESCALING:
        return
    for column in split.inputs:
        if not _is_measured(column, expected):
            continue
        low, high = float(np.nanmin(column.values)), float(np.nanmax(column.values))
        if max(abs(low), abs(high)) > _LARGE:
            yield Finding(
                severity="warning",
                check="out_of_scale",
                text=f"{column.name} goes from {low:g} to {high:g}, and no layer rescales it",
                remedy="divide it (images by 255), or begin the model with a Rescaling or Normalization layer",
            )


def constant_features(split: Split) -> Iterator[Finding]:
    """Features that have one value in every record."""
    for column in split.inputs:
        values = column.values
        if values.ndim != 2 or not column.is_number or len(values) < 2:
            continue
        same = np.flatnonzero((values == values[0]).all(axis=0))
        if len(same):
            yield Finding(
                severity="warning" if split.whole else "note",
                check="constant_features",
                text=f"{len(same)} of the {values.shape[1]} features of {column.name} are the same in all "
                f"{len(values)} records looked at: {_listed(same)}",
                remedy="leave them out, or look at how they are made",
            )


def uneven_classes(split: Split, expected: Expected) -> Iterator[Finding]:
    """Classes that are rare, or do not occur."""
    for column, head in zip(split.targets, expected.heads, strict=False):
        if head.loss != "sparse_categorical_crossentropy" or not column.is_number:
            continue
        labels = column.values[column.values >= 0].astype("int64").ravel()
        counts = np.bincount(labels, minlength=head.classes or 0)
        if len(counts) != head.classes:  # numbered in another way, which is found elsewhere
            continue
        if (counts == 0).any():
            yield Finding(
                severity="warning" if split.whole else "note",
                check="absent_classes",
                text=f"of {len(counts)} classes {int((counts == 0).sum())} do not occur among the {len(labels)} "
                f"{split.name} records looked at: {_listed(np.flatnonzero(counts == 0))}",
                remedy="look at more records (--scan), at the shuffling, and at the labels",
            )
        if split.name == "training" and counts.max() > _UNEVEN * max(counts[counts > 0].min(initial=counts.max()), 1):
            yield Finding(
                severity="warning",
                check="uneven_classes",
                text=f"class {int(counts.argmax())} has {int(counts.max())} of {len(labels)} records looked at, class "
                f"{int(np.where(counts > 0, counts, counts.max()).argmin())} has {int(counts[counts > 0].min())}",
                remedy="weigh the classes, sample the rare ones more often, and look at more than accuracy",
            )


def shared_records(training: Split, validation: Split | None) -> Iterator[Finding]:
    """The same inputs in training and validation data."""
    if validation is None or not training.looked_at or not validation.looked_at:
        return
    known = set(_digests(training))
    shared = [at for at, digest in enumerate(_digests(validation)) if digest in known]
    if shared:
        yield Finding(
            severity="warning",
            check="shared_records",
            text=f"{len(shared)} of {validation.looked_at} validation records looked at are also in the training data; "
            f"the first is record {shared[0]}",
            remedy="split by record (or by person, patient, film) before augmenting: their accuracy says nothing",
        )


def _is_measured(column: Column, expected: Expected) -> bool:
    """Numbers that stand for amounts, and not for tokens."""
    kind = column.values.dtype.kind
    return kind == "f" or (column.values.dtype == np.uint8) or (kind in "iu" and "Embedding" not in expected.layers)


def _digests(split: Split) -> Iterator[bytes]:
    for at in range(split.looked_at):
        total = hashlib.blake2b(digest_size=16)
        for column in split.inputs:
            total.update(np.ascontiguousarray(column.values[at]).tobytes())
        yield total.digest()


def _share(which: np.ndarray) -> str:
    return f"{int(which.sum())} of {len(which)} records looked at"


def _listed(numbers: np.ndarray, most: int = 8) -> str:
    shown = ", ".join(str(int(number)) for number in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} ..."
