"""A run as a comparison sees it: plain values, whichever store they came from."""

from __future__ import annotations

from dataclasses import dataclass, field

#: step and value
Points = list[tuple[int, float]]

FINISHED = ("clean", "recovered", "finished")


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run. What nobody recorded is None or empty; ``curves`` are read of a few runs only."""

    run_id: str
    experiment_id: str = ""
    name: str = ""
    outcome: str = "unknown"  # the job's, or the status in small letters of a run that is no job of ours
    deleted: bool = False
    started: float = 0.0
    seconds: float | None = None
    attempts: int | None = None
    faults: int | None = None
    failure_classes: tuple[str, ...] = ()
    attempt_lines: tuple[str, ...] = ()
    last_words: str = ""  # the exception that ended it
    metrics: dict[str, float] = field(default_factory=dict)  # Keras's own, each as it ended
    params: dict[str, str] = field(default_factory=dict)
    lost_steps: int | None = None
    goodput: float | None = None
    digest: str = ""  # of the final model and its optimiser
    resume_key: str = ""
    changes: tuple[str, ...] = ()  # what recovery changed in the result, over the lineage
    not_reproducible: str = ""  # why even an undisturbed run would not repeat itself
    place: dict[str, str] = field(default_factory=dict)  # machine and versions
    curves: dict[str, Points] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether there is a finished result."""
        return self.outcome in FINISHED

    @property
    def label(self) -> str:
        """What a line calls it: the name, and enough of the id to tell it from others of that name."""
        return f"{self.name} ({self.run_id[:8]})" if self.name else self.run_id[:8]
