"""The facts about a worker that ended without a word."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from mlflow_resilience.core.fault import Fault, Phase, Position, signal_name
from mlflow_resilience.core.text import NAME
from mlflow_resilience.supervisor.hang import Beat

_LAST_LINE = re.compile(rf"^(?P<name>{NAME})(?:: (?P<message>.*))?$")
_PHASES = ("start", "restore", "trace", "data", "step", "callback", "validation", "epoch_end", "checkpoint", "tracking")


_OURS = "mlflow-resilience: "


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a worker ended. ``code`` is its exit code, or its signal as a negative number."""

    code: int
    tail: str = ""
    kernel_oom: bool = False
    silent_seconds: float | None = None
    beat: Beat | None = None

    @property
    def complaint(self) -> str:
        """The line in which a worker of ours said what is wrong with how it was started."""
        ours = [line for line in self.tail.splitlines() if line.startswith(_OURS)]
        return ours[-1].removeprefix(_OURS) if ours else ""

    def fault(self, last_step: int, last_epoch: int, *, begun: bool) -> Fault:
        """The same as facts to be judged. Where the worker never said how far it was, the journal's word stands;
        ``begun`` when that says that an attempt had begun."""
        beat = self.beat or Beat(0, "process" if begun else "start", last_step, last_epoch)
        name, message = self._named()
        return Fault(
            exception=name,
            message=message,
            traceback=_traceback(self.tail),
            phase=_phase(beat.phase),
            position=Position(
                global_step=max(beat.step, last_step), epoch=last_epoch if beat.epoch is None else beat.epoch
            ),
            signal=-self.code if self.code < 0 and self.silent_seconds is None else None,
            exit_code=self.code if self.code >= 0 else None,
            kernel_oom=self.kernel_oom,
            silent_seconds=self.silent_seconds,
            output_tail=self.tail,
            time=time.time(),
        )

    def _named(self) -> tuple[str, str]:
        """A name and a sentence: of the hang, the signal, the last traceback, or the exit code."""
        if self.silent_seconds is not None:
            phase = self.beat.phase if self.beat else "unknown"
            return "Hang", f"nothing moved for {self.silent_seconds:.0f} s in {phase}"
        if self.code < 0:
            by = " by the kernel, for want of memory" if self.kernel_oom else ""
            return signal_name(-self.code), f"the training process was ended by {signal_name(-self.code)}{by}"
        if "Traceback (most recent call last):" in self.tail:
            for line in reversed(self.tail.splitlines()):
                if match := _LAST_LINE.match(line):
                    return match["name"].rpartition(".")[2], match["message"] or ""
        return "SystemExit", f"the training process ended with exit code {self.code}"


def _phase(name: str) -> Phase:
    name = "start" if name == "build" else name
    return name if name in _PHASES else "process"  # type: ignore[return-value]


def _traceback(tail: str) -> str:
    begin = tail.rfind("Traceback (most recent call last):")
    fatal = tail.rfind("Fatal Python error:")
    return tail[max(begin, fatal) :] if max(begin, fatal) >= 0 else ""
