"""The lines of a log, freed of what loggers and launchers put before them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from mlflow_resilience.core.text import status, words

TRACEBACK = "Traceback (most recent call last)"
_LONG = 3_000  # lines
_WIDE = 4_000  # characters
_FEW = 10  # places of a very long log that are read, from its begin and from its end

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x08")
_RANK = re.compile(r"^ *\d{1,4}: ?")
_PREFIX = re.compile(
    r"> ?"  # quoted
    r"| *(?:\| ?|\+ (?=Exc)|\+[-+ \d]+$)"  # of an exception group
    r"|\[\d+,\d+\]<std(?:err|out)>: ?"  # mpirun
    r"|\(\w[\w .:-]*\bpid=\d+[^)]*\) ?|\((?:raylet|autoscaler|gcs_server)\b[^)]*\) ?"  # ray
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ (?P<ray>[DIWEFC]) \d+ \d+\] ?"
    r"|\[?(?:rank|worker|task|node|default|proc\w*)[-_ ]?\d+\]?(?::| \||(?<=\]))(?: |$)"
    r"|\[\d+\]:? (?=\S)"
    r"|[a-z][\w.-]*(?:[-_]\d+)? +\| ?"  # docker compose
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?\]?[:,]?(?: -)?(?: |$)"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?: |$)"
    r"|\[(?P<app>[DIWEC]) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \w+\] "  # jupyter
    r"|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+ (?:\S+?(?:\[\d+\])?: )?"  # syslog
    r"|(?P<absl>[IWEF])\d{4} (?:\d\d:\d\d:\d\d\.\d+|00:00:\d+\.\d+) +\d+ [\w./-]+:\d+\] ?"
    r"|(?P<tf>[IWEF]) (?=\S+:\d+\])"
    r"|[\w./-]+\.(?:cc|cu|h|py|cpp):\d+(?:\]|:| -)(?: |$)"
    r"|std(?:err|out) [FP] "
    r"|\[?(?P<level>DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?(?:\s*[:|-]\s*|\s+(?=\S)|$)"
    r"|\[ *\d+\.\d{6}\] "  # dmesg
    r"|(?:BaseCollectiveExecutor::StartAbort|OP_REQUIRES failed at \S+ :|Local rendezvous is aborting with status:) +"
)
#: Lines of launchers, which keep their names: what a scheduler says of memory is never said of a device.
_LAUNCHER = re.compile(r"^(?:srun|slurmstepd|mpirun|mpiexec|prte|torchrun|kubelet): ")
#: Where the end of a process, or a logger, was written behind a progress bar.
_GLUED = re.compile(
    r"(?<=\d)(?=(?:Killed|Terminated|Aborted|Bus error|Segmentation fault)\b"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
)
_AS_PRINTED = re.compile(r" \(see above for traceback\)(?=:)")
_PROGRESS = re.compile(
    r"^\s*Epoch \d+(?:/\d+)?\b|^\s*\d+/(?:\d+|Unknown)\s+(?:\[|\S*[━=]|\d+\S* )"
    r"|\b(?:global_)?step\b.{1,40}\bloss\b",
    re.IGNORECASE,
)
#: What nearly every start of TensorFlow complains of, and what never ended a training.
_BENIGN = words(
    r"register\w* .*(?:factory|cudnn|cufft|cublas)|cuinit|tensorrt|tf-trt|cuda drivers? on your machine",
    r"dynamic library|dso_loader|cpu_feature_guard|onednn|numa|computation placer|kernel driver does not appear",
    r"skipping registering|cannot dlopen|deprecat|futurewarning|userwarning.*deprecat|all log messages before",
    r"exceeds \d+% of|interact badly|may deadlock with|finalizing generatordataset",
    r"cannot register \d+ metrics|fork\(\) (?:was called|is incompat)|disables this message",
    r"unrestored values|failed to serialize as json|value in checkpoint could not be found|ignore above",
)
_NOTABLE = words(
    r"\b\w*(?:error|exception|fail\w*|fault|abort\w*|fatal|killed|died|lost|denied|refused|unavailable|corrupt\w*)\b",
    r"out[ _]of[ _]memory|\boom\b|core dumped|cannot|unable|could ?n[o']t|no space|ran out|not (?:found|supported)",
    r"no progress|watchdog|\bhung\b|\bstall\w*",
    r"exceeded|exhausted|interrupt|terminated|preempt|cancell?ed|timed? ?out|\bnan\b|invalid",
    r"exit(?:ed)? (?:with )?code|terminate called|bad_alloc|\bkill\w*|\blow on\b",
    r"(?:\b(?:pod|vm|instance|node|job|container)\b.*|reason: +|^)\bevict\w*",
    r"fallen off|\bxid\b|kernel\b.*\brestart|response code:? [45]\d\d|does not match",
    r"deadlock|outside the|out of (?:range|bounds?)|not in \[|incompatible|mismatch|timeout \(",
)
#: Words that a training does not survive, quickly looked for.
_PLAIN = ("core dumped", "Fatal ", "oom-kill", "oom_kill", "Xid ", "slurmstepd: ", "CANCELLED AT", "Error: ", ": F ")
#: What is called mere information and is more: by the kernel, by TensorFlow's coordinator.
_UNDERSTATED = words(
    r"blocked for more than|detected stall|error reported to coordinator|an error was raised|error recorded"
)
#: Progress of a training that is lost.
_LOST = words(r"\bloss: -?(?:nan|inf)\b")
#: What every epoch ends with, and what only says that there was an end: the reason only where nothing else is.
_PASSING = words(
    r"end of sequence|iteration finished|^ *(?:reason: +evicted|state: +terminated|status: +failed)\b",
    r"exited with (?:exit )?code \W?1\b|terminating (?:job|step)",
)


@dataclass(frozen=True)
class Line:
    """One line: its ``text`` without prefixes, and what the prefixes told."""

    text: str
    is_log: bool = False  # had a prefix
    level: str = ""  # first letter of the level: D, I, N, W, E, C, F

    @cached_property
    def is_progress(self) -> bool:
        """Whether training went on here."""
        return _PROGRESS.search(self.text) is not None and not _LOST.search(self.text)

    @cached_property
    def is_notable(self) -> bool:
        """Whether it may tell of a fault."""
        if self.text.lstrip().startswith("[["):
            return False  # a node's name
        if self.level in ("D", "I"):
            return bool(_UNDERSTATED.search(self.text))
        told = self.level in ("E", "F", "C") or _NOTABLE.search(self.text) or (self.is_log and status("", self.text))
        return bool(told) and not _BENIGN.search(self.text)

    @property
    def is_passing(self) -> bool:
        """Whether it is also said where all is well, or where something else went wrong before."""
        return _PASSING.search(self.text) is not None


@lru_cache(maxsize=2)
def lines_of(told: str) -> tuple[Line, ...]:
    """The lines of a text, a carriage return being one's end too."""
    if "\n" not in told.strip() and "\\n" in told:  # a whole traceback within one line of JSON
        told = told.replace("\\n", "\n").replace('\\"', '"')
    whole = _AS_PRINTED.sub("", _COLOUR.sub("", told)).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    single = [_narrow(part) for line in _worth_reading(whole) for part in _GLUED.split(line)]
    return tuple(_freed(_unranked(single)))


def _unranked(lines: list[str]) -> list[str]:
    """Without the task's number before each line; a number before one line alone belongs to it (``404: ...``)."""
    ranked = sum(_RANK.match(line) is not None for line in lines)
    return [_RANK.sub("", line) for line in lines] if len(lines) > 1 and ranked > len(lines) / 2 else lines


def _narrow(line: str) -> str:
    """A line without its middle, where it is very long: a dump of data, not a sentence."""
    return line if len(line) <= _WIDE else f"{line[: _WIDE // 2]} ... {line[-_WIDE // 2 :]}"


def _worth_reading(lines: list[str]) -> list[str]:
    """Of a very long log what stands around its tracebacks and its plainest words of an end, and its own end; the rest
    would take seconds."""
    if len(lines) <= _LONG:
        return lines
    starts = [i for i, line in enumerate(lines) if TRACEBACK in line]
    ends = [i for i, line in enumerate(lines) if any(word in line for word in _PLAIN)]
    kept = set(range(len(lines) - (_LONG // 2 if starts else _LONG), len(lines)))
    for found, before, after in ((starts, 200, 400), (ends, 5, 5)):
        for at in (*found[:_FEW], *found[-_FEW:]):
            kept.update(range(max(0, at - before), min(len(lines), at + after)))
    return [lines[i] for i in sorted(kept)]


def _freed(lines: Iterable[str]) -> Iterable[Line]:
    for line in lines:
        rest, level = line, ""
        while (found := _PREFIX.match(rest)) and found.end():
            rest = rest[found.end() :]
            level = (found["absl"] or found["tf"] or found["ray"] or found["app"] or found["level"] or level)[:1]
        yield Line(rest, rest != line or _LAUNCHER.match(rest) is not None, level)
