"""Where a job's time went, in plain words."""

from __future__ import annotations

import math

from mlflow_resilience.spool.record import JobRecord

#: Words for the parts of the time, in the order in which they are shown.
TIMES = {
    "productive": "training that counts",
    "replayed": "steps done again",
    "startup": "start of processes",
    "restore": "restoring checkpoints",
    "recovery": "recovering",
    "backoff": "waiting before a retry",
    "save_stall": "waiting for a save",
    "data_wait": "waiting for data",
    "compression": "making smaller models",
    "idle": "idle after a death",
}
_SHORT = 300.0  # seconds: the start of Python and TensorFlow is a large part of a job below it, and no sign of trouble
_WORTH_NAMING = 0.1  # of the time


def duration(seconds: float) -> str:
    """``0.4 s``, ``1 min 23 s``, ``2 h 05 min``, ``3 d 4 h``."""
    if not math.isfinite(seconds) or seconds < 0:
        return "unknown"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def elapsed(record: JobRecord) -> float:
    """Seconds from the job's start to its end, or to the last word of it."""
    return max(0.0, (record.ended or record.last_time or record.started) - record.started)


def time_parts(record: JobRecord) -> dict[str, float]:
    """Where the time went, over all attempts and processes, in seconds; the parts sum to :func:`elapsed`. Empty where
    nothing was counted."""
    clock = record.wall_clock
    return {part: seconds for part, seconds in clock.parts().items() if seconds > 0} if clock.is_measured else {}


def goodput(record: JobRecord) -> float | None:
    """The share of the elapsed time that went into steps which count, 0 to 1; None where it was not measured."""
    series = record.gauges.get("resilience/goodput")
    if series is not None and len(series):
        return float(series.values[-1])
    parts = time_parts(record)
    total = max(elapsed(record), sum(parts.values()))
    return parts.get("productive", 0.0) / total if parts and total > 0 else None


def goodput_words(record: JobRecord) -> str:
    """``18% of 56 s, the rest mostly start of processes (31 s, as in any short job)``; empty where not measured."""
    share = goodput(record)
    if share is None:
        return ""
    rest = _rest(record)
    return f"{share:.0%}" + (f" of {duration(elapsed(record))}, the rest mostly {rest}" if rest else "")


def _rest(record: JobRecord) -> str:
    """What else took a good part of the time, the most first."""
    parts = {part: seconds for part, seconds in time_parts(record).items() if part != "productive"}
    large = sorted(parts, key=lambda part: -parts[part])
    named = [part for part in large if parts[part] > _WORTH_NAMING * elapsed(record)][:2]
    short = ", as in any short job" if elapsed(record) < _SHORT else ""
    return " and ".join(
        f"{part_name(record, part)} ({duration(parts[part])}{short if part == 'startup' else ''})" for part in named
    )


def part_name(record: JobRecord, part: str) -> str:
    """The part of the time in words; what a job that did not finish did beyond its last checkpoint is lost."""
    return "steps that were lost" if part == "replayed" and record.outcome in ("failed", "preempted") else TIMES[part]
