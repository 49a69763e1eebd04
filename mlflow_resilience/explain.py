"""What is this error, and what would be done about it? From text alone, in well under a second."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.evidence import links
from mlflow_resilience.core.failure import Recovery, Rung, classify
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.reading import is_log, read_fault, tells_of_fault
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.core.text import shorten
from mlflow_resilience.errors import NothingToExplain
from mlflow_resilience.recoveries import BUILT_IN, installed


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The answer: the class, what broke first, what is done rung by rung, and a hint for the user."""

    failure_class: str
    failure_domain: str
    root_cause: str
    ladder: list[str]
    hint: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def explain(text: str) -> Explanation:
    """Explain a bare message, a traceback, a notebook's output or a log. Raises NothingToExplain where it tells of no
    error."""
    fault = read_fault(text)
    recovery = classify(fault, (*installed(), *BUILT_IN))
    if not tells_of_fault(text) and (recovery.failure_class == "unknown" or is_log(text)):
        raise NothingToExplain("no error was found in the text: paste the traceback, or the end of the log")
    return Explanation(
        failure_class=recovery.failure_class,
        failure_domain=recovery.domain,
        root_cause=_root_cause(fault, recovery),
        ladder=[*map(_told, recovery.ladder), "save and leave, to be resumed" if recovery.leaves else "stop"],
        hint=recovery.hint,
    )


def _root_cause(fault: Fault, recovery: Recovery) -> str:
    """The link of the cause chain that decided, in one line."""
    seen = links(fault)
    link = next((link for link in seen if recovery.matches(link)), seen[0])
    lines = [line.strip() for line in link.message.splitlines() if line.strip()] or [""]
    line = next((line for line in lines if recovery.matches(replace(link, message=line, signal=None))), lines[0])
    told = f"{link.exception}: {line}" if link.exception and line else link.exception or line
    return shorten(redact(told), 500).replace("\n", " ")


def _told(rung: Rung) -> str:
    """A rung in words, with how often it is tried."""
    settings = _changed(rung)
    done = ", ".join(action.phrase(settings) for action in rung.actions)
    return done if rung.times == 1 else f"{done} (up to {rung.times} times)"


def _changed(rung: Rung) -> Settings:
    settings = Settings()
    for action in rung.actions:
        settings = action.change(settings, Fault(exception="")) or settings
    return settings
