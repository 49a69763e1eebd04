"""What can be done before training goes on. An action is a value; the trainer or the supervisor carries it out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.fault import Fault

#: Where training goes on, mildest first: at the failed step's own boundary, from the last checkpoint within this
#: process, or from it in a new process.
Resumption = Literal["in_place", "roll_back", "new_process"]


_PIECES = 64  # that a batch of unknown size is split into at most


@dataclass(frozen=True)
class Action:
    """Base of all actions. ``change`` gives the settings that it leaves in force, or None when it cannot help any
    further (a batch that cannot be split again)."""

    resumption: ClassVar[Resumption] = "in_place"
    changes_result: ClassVar[bool] = False  # the trained weights are no longer those of an undisturbed run

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        return settings

    def alters_result(self, fault: Fault, *, exact_split: bool) -> bool:
        """Whether training goes on to other weights than it would have had undisturbed."""
        return self.changes_result

    def phrase(self, settings: Settings) -> str:
        """What is done, in words, given the settings that it left in force."""
        return (self.__doc__ or "").split(";")[0].rstrip(".").lower()


@dataclass(frozen=True)
class RetryStep(Action):
    """The same step again; from its own boundary."""


@dataclass(frozen=True)
class RollBack(Action):
    """Back to the last checkpoint; the newest intact one, in this process."""

    resumption: ClassVar[Resumption] = "roll_back"


@dataclass(frozen=True)
class NewProcess(Action):
    """New process from the last checkpoint.

    With ``or_roll_back`` rolling back within this process is sound too, where nobody can start a new one.
    """

    or_roll_back: bool = False
    resumption: ClassVar[Resumption] = "new_process"

    def phrase(self, settings: Settings) -> str:
        return "new process from the last checkpoint"


@dataclass(frozen=True)
class Wait(Action):
    """Wait first; for as long as the policy's backoff says."""


@dataclass(frozen=True)
class GoOn(Action):
    """Training goes on; what failed was beside it."""


@dataclass(frozen=True)
class SplitBatch(Action):
    """Train each batch in twice as many pieces, with the same effective batch.

    In validation only the validation batch is split. Before the first step there is no batch to split.
    """

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        if fault.phase in ("start", "restore"):
            return None
        name = "validation_pieces" if fault.phase == "validation" else "accumulation"
        pieces = getattr(settings, name) * 2
        if pieces > (fault.batch_size or _PIECES):
            return None
        return replace(settings, **{name: pieces})

    def alters_result(self, fault: Fault, *, exact_split: bool) -> bool:
        return fault.phase != "validation" and not exact_split

    def phrase(self, settings: Settings) -> str:
        if settings.accumulation == 1:
            return f"validation batches in {settings.validation_pieces} pieces"
        return f"each batch in {settings.accumulation} micro-batches"


@dataclass(frozen=True)
class SkipBatch(Action):
    """Leave out the batch of the failed step."""

    changes_result: ClassVar[bool] = True

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        if fault.position is None:
            return None
        step = fault.position.global_step + 1
        return replace(settings, skipped_batches=tuple(sorted({*settings.skipped_batches, step})))


@dataclass(frozen=True)
class ScaleLearningRate(Action):
    """Multiply the learning rate."""

    factor: float = 0.5
    changes_result: ClassVar[bool] = True

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        return replace(settings, learning_rate_scale=settings.learning_rate_scale * self.factor)

    def phrase(self, settings: Settings) -> str:
        return f"learning rate times {settings.learning_rate_scale:g}"


@dataclass(frozen=True)
class ClipGradients(Action):
    """Clip gradients to a global norm; to half of the one before, each time further.

    The norm is that of all gradients of an optimiser together, at the rate and the loss of the user; what the optimiser
    clips itself it goes on to clip. A gradient that is not finite is no smaller for it.
    """

    norm: float = 1.0
    changes_result: ClassVar[bool] = True

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        before = settings.gradient_bound
        return replace(settings, gradient_bound=self.norm if before is None else min(self.norm, before / 2))

    def phrase(self, settings: Settings) -> str:
        bound = self.norm if settings.gradient_bound is None else settings.gradient_bound
        return f"gradients clipped to a global norm of {bound:g}"


@dataclass(frozen=True)
class ReduceInput(Action):
    """Halve shuffle buffer, prefetch and parallelism of the input pipeline."""

    changes_result: ClassVar[bool] = True  # a smaller shuffle buffer gives another order

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        if settings.input_reduction >= 16:
            return None
        return replace(settings, input_reduction=settings.input_reduction * 2)

    def phrase(self, settings: Settings) -> str:
        return f"input buffers and parallelism divided by {settings.input_reduction}"


@dataclass(frozen=True)
class GrowMemory(Action):
    """Let the device allocator grow on demand."""

    def change(self, settings: Settings, fault: Fault) -> Settings | None:
        return None if settings.memory_growth else replace(settings, memory_growth=True)


@dataclass(frozen=True)
class Quarantine(Action):
    """Quarantine the bad records; find them by a rescan of the failed batch, leave them out from now on, train the
    rest."""

    changes_result: ClassVar[bool] = True


@dataclass(frozen=True)
class RebuildInput(Action):
    """Make the input iterator anew."""

    changes_result: ClassVar[bool] = True  # plain Keras would have ended here


@dataclass(frozen=True)
class OlderCheckpoint(Action):
    """Set the damaged checkpoint aside; take the newest intact older one."""

    resumption: ClassVar[Resumption] = "roll_back"


@dataclass(frozen=True)
class SkipSave(Action):
    """Go on without this save; the next one comes as usual."""


@dataclass(frozen=True)
class FreeDisk(Action):
    """Delete own checkpoints that retention no longer needs."""
