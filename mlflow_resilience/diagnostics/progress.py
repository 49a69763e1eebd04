"""Does the loss still fall? Plateaus, saddles that were left, and losses that swing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlflow_resilience.diagnostics.spans import Flags
from mlflow_resilience.diagnostics.trace import Floats, Trace
from mlflow_resilience.diagnostics.verdict import Verdict

#: A stretch is flat when the means of its first and its last third differ by less than this part of its level.
FLAT = 0.01
#: Epochs, or blocks of readings, of the shortest stretch.
SHORTEST = 6
#: A loss that stands still below this part of what it began with counts as converged.
HIGH_LEVEL = 0.5
#: A saddle is left when the loss falls by so much within as many points as the shortest stretch has.
LEFT = 0.1
#: The mean rise of a loss that swings, as a part of its level; and the part of all moves that are rises.
SWING, RISES = 0.1, 0.3
#: Readings are taken together in so many blocks, each over so many steps: batches differ, and that is no swing.
_BLOCKS, _STEPS_A_BLOCK = 24, 100


@dataclass(frozen=True, kw_only=True)
class Course:
    """The training loss: of epochs, or, before there are enough of those, of blocks of readings."""

    losses: Floats
    epochs: Floats
    steps: Floats | None
    rates: Floats

    def place(self, index: int) -> tuple[int, int | None]:
        """Epoch and step of a point."""
        return int(self.epochs[index]), None if self.steps is None else int(self.steps[index])


def course(trace: Trace) -> Course | None:
    """None where there is too little to look at, or a loss that is not finite."""
    found = _of_epochs(trace) if len(trace.epoch_numbers) >= SHORTEST else _of_readings(trace)
    return found if found is not None and np.isfinite(found.losses).all() else None


def plateau(trace: Trace) -> Iterator[Verdict]:
    """The loss has not changed by 1 % over six epochs or more, up to now, and is above half of what it began with; and
    ``saddle``, a note: it had stood like that, and then fell by 10 %, at the same learning rate.

    Whether it is a local optimum or a saddle cannot be told from the loss. Dauphin et al. (2014): in many dimensions
    nearly all critical points of high loss are saddles, which look like plateaus and are left in the end. What a warm
    restart (Loshchilov and Hutter, 2017) or a cyclic rate (Smith, 2017) changes is measured by `try_rates`. Half of
    the first loss keeps apart what has converged; the floor that noise in the data sets may lie above it.
    """
    line = course(trace)
    if line is None or not trace.start_loss > 0:
        return
    begun = flat_since(line.losses)
    level = float(line.losses[-1]) / trace.start_loss
    if begun is not None and level >= HIGH_LEVEL:
        epoch, step = line.place(begun)
        yield Verdict(
            symptom="plateau",
            severity="warning",
            epoch=epoch,
            step=step,
            text=f"the loss stands at {line.losses[-1]:.4g}, {level:.0%} of where it began: a saddle, a local optimum, "
            "or the floor that the data set",
            remedy="see what a warm restart or a cyclic rate changes (diagnostics.try_rates), or change model or data",
            evidence={"loss": float(line.losses[-1]), "level": level, "change": _change(line.losses[begun:])},
        )
    elif begun is None:
        yield from _saddle(line, trace.start_loss)


def oscillation(trace: Trace) -> Iterator[Verdict]:
    """Of the last eight epochs' losses a third or more rose on the one before, by a tenth of their level on average
    (and a hundredth of the first loss), and together they rose as much as they gained.

    A rate beyond twice the inverse of the curvature overshoots the valley at each step (LeCun et al., 1998, "Efficient
    BackProp", section 4.7); mean losses of whole epochs of a healthy training fall, or move by little.
    """
    line = course(trace)
    if line is None or len(line.losses) < SHORTEST:
        return
    window = min(8, len(line.losses))
    flags: Flags = np.array(
        [_swings(line.losses[end - window : end], trace.start_loss) for end in range(window, len(line.losses) + 1)]
    )
    if not flags[-1]:
        return
    first = int(len(flags) - np.argmin(flags[::-1])) if not flags.all() else 0
    epoch, step = line.place(first)
    recent = line.losses[-window:]
    rises = np.diff(recent)[np.diff(recent) > 0]
    yield Verdict(
        symptom="oscillation",
        severity="warning",
        epoch=epoch,
        step=step,
        text=f"the loss swings between {recent.min():.4g} and {recent.max():.4g}, and rose {len(rises)} times in "
        f"{window - 1}",
        remedy="lower the learning rate or the momentum, raise the batch size, or let the rate decay",
        evidence={"mean_rise": float(rises.mean()), "level": float(np.median(recent)), "rises": float(len(rises))},
    )


def flat_since(losses: Floats) -> int | None:
    """The index at which the flat stretch began that lasts up to the end; None where there is none."""
    if len(losses) < SHORTEST or _change(losses[-SHORTEST:]) >= FLAT:
        return None
    starts = range(len(losses) - SHORTEST, -1, -1)
    begun = len(losses) - SHORTEST
    for start in starts:
        if _change(losses[start:]) >= FLAT:
            break
        begun = start
    return begun


def _saddle(line: Course, start_loss: float) -> Iterator[Verdict]:
    """The longest flat stretch at a high level that was left by itself."""
    losses = line.losses
    found: tuple[int, int] | None = None
    for end in range(SHORTEST, len(losses) - 1):
        begun = flat_since(losses[:end])
        after = losses[end : end + SHORTEST]
        left = after.min() <= (1 - LEFT) * losses[end - 1]
        if begun is not None and left and losses[end - 1] >= HIGH_LEVEL * start_loss and _same_rate(line, end):
            found = (begun, end)
    if found is None:
        return
    epoch, step = line.place(found[0])
    until = line.place(found[1] - 1)[0]
    yield Verdict(
        symptom="saddle",
        severity="note",
        epoch=epoch,
        step=step,
        text=f"the loss stood at {losses[found[1] - 1]:.4g} until epoch {until}, then fell by itself, as at a saddle",
        remedy="a higher or cyclic rate, momentum or better initial weights leave such a place sooner",
        evidence={"loss": float(losses[found[1] - 1]), "until": float(until), "after": float(losses[-1])},
    )


def _same_rate(line: Course, end: int) -> bool:
    """Whether the rate is what it was before ``end``, within a factor of 1.5, or not known."""
    rates = line.rates[max(0, end - 2) : end + SHORTEST]
    known = rates[np.isfinite(rates) & (rates > 0)]
    return len(known) < 2 or bool(known.max() <= 1.5 * known.min())


def _change(losses: Floats) -> float:
    """By how much the last third of a stretch differs from the first, as a part of its level; a single point that lies
    further off counts a third."""
    third = max(1, len(losses) // 3)
    level = float(np.abs(np.mean(losses)))
    if level == 0:
        return 0.0
    drift = abs(float(np.mean(losses[-third:]) - np.mean(losses[:third])))
    spread = float(losses.max() - losses.min()) / 3
    return max(drift, spread) / level


def _swings(losses: Floats, start_loss: float) -> bool:
    moves = np.diff(losses)
    rises = moves[moves > 0]
    if len(rises) < max(2.0, RISES * len(moves)):
        return False
    large = rises.mean() >= SWING * np.median(losses) and rises.mean() >= 0.01 * abs(start_loss)
    return bool(large and rises.sum() >= losses[0] - losses[-1])


def _of_epochs(trace: Trace) -> Course:
    return Course(losses=trace.train_losses, epochs=trace.epoch_numbers, steps=None, rates=trace.epoch_rates)


def _of_readings(trace: Trace) -> Course | None:
    if len(trace.steps) < _BLOCKS or trace.steps[-1] - trace.steps[0] < _BLOCKS * _STEPS_A_BLOCK:
        return None
    blocks = np.array_split(np.arange(len(trace.steps)), _BLOCKS)
    first = np.array([block[0] for block in blocks])
    return Course(
        losses=np.array([trace.losses[block].mean() for block in blocks]),
        epochs=trace.epochs[first],
        steps=trace.steps[first],
        rates=trace.rates[first],
    )
