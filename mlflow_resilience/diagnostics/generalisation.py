"""Training and validation side by side: overfitting and underfitting, and the epoch at which they began."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlflow_resilience.diagnostics.progress import HIGH_LEVEL, SHORTEST
from mlflow_resilience.diagnostics.trace import Floats, Trace
from mlflow_resilience.diagnostics.verdict import Verdict

#: The generalisation loss of Prechelt, in percent of the best validation loss; and epochs in a row beyond it.
GENERALISATION_LOSS, STRIP = 10.0, 5
#: The rise must be such a part of the first validation loss, and training have gone on to fall by such a part.
RISE, FELL = 0.02, 0.05
#: Training and validation loss are "the same" within this part, and "stand still" when they change by less.
SAME, STILL = 0.15, 0.03


def overfitting(trace: Trace) -> Iterator[Verdict]:
    """The validation loss has been 10 % above its best for five epochs in a row, while the training loss fell by 5 %
    more. It began with the epoch after the best.

    Prechelt (1998), "Early stopping - but when?": the generalisation loss GL = 100 (E_va / E_opt - 1), there stopped at
    1 to 5 %; the class UP_s asks for s strips in a row. Both are asked for here and GL is larger, since this is to be
    silent where a small validation set is merely noisy: so must the rise be 2 % of the first validation loss.
    """
    known = np.isfinite(trace.val_losses)
    val, train, epochs = trace.val_losses[known], trace.train_losses[known], trace.epoch_numbers[known]
    if len(val) <= STRIP:
        return
    best = int(np.argmin(val))
    strip = val[-STRIP:]
    loss = 100 * (float(strip.min()) / float(val[best]) - 1) if val[best] > 0 else 0.0
    rise = float(strip.min() - val[best])
    gained = 1 - float(train[-1]) / float(train[best]) if train[best] > 0 else 0.0
    if best + STRIP >= len(val) or loss < GENERALISATION_LOSS or rise < RISE * float(val[0]) or gained < FELL:
        return
    yield Verdict(
        symptom="overfitting",
        severity="warning",
        epoch=int(epochs[best + 1]),
        step=None,
        text=f"the validation loss was best in epoch {int(epochs[best])} ({val[best]:.4g}) and is {val[-1]:.4g} now, "
        f"while the training loss fell from {train[best]:.4g} to {train[-1]:.4g}",
        remedy="stop early and keep the best weights; more data, augmentation, dropout or weight decay",
        evidence={
            "generalisation_loss": loss,
            "threshold": GENERALISATION_LOSS,
            "best": float(val[best]),
            "validation": float(val[-1]),
            "training": float(train[-1]),
        },
    )


def underfitting(trace: Trace) -> Iterator[Verdict]:
    """Training and validation loss are the same within 15 %, neither falls by 3 % over six epochs any more, and both
    are above half of what training began with. It began with the epoch from which on the training loss stood still.

    Goodfellow, Bengio and Courville (2016), section 5.2: an error of training that stays large, with a small gap to
    that of validation, is a lack of capacity (or of rate, or too much regularisation). What is "large" is known only
    against the loss at the start, so that a model that learned half and no more is not found.
    """
    known = np.isfinite(trace.val_losses) & np.isfinite(trace.train_losses)
    val, train, epochs = trace.val_losses[known], trace.train_losses[known], trace.epoch_numbers[known]
    if len(val) < SHORTEST or not trace.start_loss > 0:
        return
    level = float(train[-1]) / trace.start_loss
    gap = abs(float(val[-1]) - float(train[-1])) / float(train[-1])
    if level < HIGH_LEVEL or gap > SAME or _fall(train[-SHORTEST:]) >= STILL or _fall(val[-SHORTEST:]) >= STILL:
        return
    begun = len(train) - SHORTEST
    while begun > 0 and _fall(train[begun - 1 :]) < STILL:
        begun -= 1
    yield Verdict(
        symptom="underfitting",
        severity="warning",
        epoch=int(epochs[begun]),
        step=None,
        text=f"training and validation loss stand at {train[-1]:.4g} and {val[-1]:.4g}, {level:.0%} of where training "
        "began: the model does not even fit the records that it sees",
        remedy="a larger model, less regularisation, a higher learning rate, or features that tell more",
        evidence={"level": level, "gap": gap, "training": float(train[-1]), "validation": float(val[-1])},
    )


def _fall(losses: Floats) -> float:
    """By which part of itself a loss fell over a stretch, by the means of its ends."""
    third = max(1, len(losses) // 3)
    first = float(np.mean(losses[:third]))
    return (first - float(np.mean(losses[-third:]))) / first if first > 0 else 0.0
