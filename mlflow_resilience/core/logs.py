"""The lines of a log, freed of what loggers and launchers put before them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlflow_resilience.core.text import words

TRACEBACK = "Traceback (most recent call last)"
_LONG = 6_000  # lines

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
    r"|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \S+ (?:\S+?(?:\[\d+\])?: )?"  # syslog
    r"|(?P<absl>[IWEF])\d{4} (?:\d\d:\d\d:\d\d\.\d+|00:00:\d+\.\d+) +\d+ [\w./-]+:\d+\] ?"
    r"|(?P<tf>[IWEF]) (?=\S+:\d+\])"
    r"|[\w./-]+\.(?:cc|cu|h|py|cpp):\d+(?:\]|:| -)(?: |$)"
    r"|std(?:err|out) [FP] "
    r"|\[?(?P<level>DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?(?:\s*[:|-]\s*|\s+(?=\S)|$)"
    r"|\[ *\d+\.\d{6}\] "  # dmesg
)
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
    r"exceeds \d+% of|interact badly",
)
_NOTABLE = words(
    r"\b\w*(?:error|exception|fail\w*|fault|abort\w*|fatal|killed|died|lost|denied|refused|unavailable|corrupt\w*)\b",
    r"out[ _]of[ _]memory|\boom\b|core dumped|cannot|unable|could ?n[o']t|no space|ran out|not (?:found|supported)",
    r"no progress|watchdog|\bhung\b|\bstall\w*",
    r"exceeded|exhausted|interrupt|terminated|preempt|cancell?ed|timed? ?out|\bnan\b|invalid",
    r"exit(?:ed)? (?:with )?code",
)


@dataclass(frozen=True)
class Line:
    """One line: its ``text`` without prefixes, and what the prefixes told."""

    text: str
    is_log: bool = False  # had a prefix
    level: str = ""  # first letter of the level: D, I, N, W, E, C, F

    @property
    def is_progress(self) -> bool:
        """Whether training went on here."""
        return _PROGRESS.search(self.text) is not None

    @property
    def is_notable(self) -> bool:
        """Whether it may tell of a fault."""
        return self.level not in ("D", "I") and bool(_NOTABLE.search(self.text)) and not _BENIGN.search(self.text)


def lines_of(told: str) -> list[Line]:
    """The lines of a text, a carriage return being one's end too."""
    if "\n" not in told.strip() and "\\n" in told:  # a whole traceback within one line of JSON
        told = told.replace("\\n", "\n").replace('\\"', '"')
    whole = _COLOUR.sub("", told).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return list(_freed(_unranked(_worth_reading(whole))))


def _unranked(lines: list[str]) -> list[str]:
    """Without the task's number before each line; a number before one line alone belongs to it (``404: ...``)."""
    ranked = sum(_RANK.match(line) is not None for line in lines)
    return [_RANK.sub("", line) for line in lines] if len(lines) > 1 and ranked > len(lines) / 2 else lines


def _worth_reading(lines: list[str]) -> list[str]:
    """Of a very long log what stands around its tracebacks, and its end; the rest would take seconds."""
    if len(lines) <= _LONG:
        return lines
    starts = [i for i, line in enumerate(lines) if TRACEBACK in line]
    kept = set(range(len(lines) - (_LONG // 2 if starts else _LONG), len(lines)))
    for start in (*starts[:10], *starts[-10:]):
        kept.update(range(max(0, start - 200), min(len(lines), start + 400)))
    return [lines[i] for i in sorted(kept)]


def _freed(lines: Iterable[str]) -> Iterable[Line]:
    for line in lines:
        rest, level = line, ""
        while (found := _PREFIX.match(rest)) and found.end():
            rest = rest[found.end() :]
            level = (found["absl"] or found["tf"] or found["ray"] or found["level"] or level)[:1]
        yield Line(rest, rest != line, level)
