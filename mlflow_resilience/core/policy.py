"""What a user allows, in values; and the decision that follows from it, made here alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from mlflow_resilience.core import addressee
from mlflow_resilience.core.action import Action, NewProcess, Quarantine, RetryStep, RollBack, Wait
from mlflow_resilience.core.addressee import Addressee
from mlflow_resilience.core.attempt import AttemptLog, Settings, Standing
from mlflow_resilience.core.backoff import Backoff
from mlflow_resilience.core.capability import Capabilities, Way, way
from mlflow_resilience.core.decision import Decision, Verdict, in_words
from mlflow_resilience.core.failure import Recovery, Rung, asked_first
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.errors import UsageError

__all__ = ["Backoff", "Capabilities", "Decision", "Policy", "decide"]

_FEW = 10  # so many bad records are no question of their share yet

_BOUNDS = ("ceiling", "lost_time", "quarantine_spent")  # of the job: no other rung is within them either
#: Of several reasons why no rung is any use, the one that tells the most.
_WORTH_SAYING = ("changes_result", "no_new_process", "no_checkpoint", "ladder_spent", "no_progress")
_OF_THE_STEP = RetryStep | Quarantine  # can be done only where the failed step is at hand


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How much recovery is worth, for a whole job over all its processes.

    ``max_attempts`` is the ceiling: so many attempts may fail, whatever progress lay between. ``budgets`` bounds
    the faults of one class at one place, in the place of its ladder's length; progress gives the budget back.
    ``on`` names the only classes to be recovered from. ``max_lost_time`` bounds the seconds lost to faults.
    ``max_quarantined`` and ``max_quarantined_share`` bound the records left out for being bad. ``recoveries`` are
    one's own; :meth:`with_recovery` adds to them. ``notify`` is told of stops, preemptions and changes of the result:
    a function gets a dict, a command (run without a shell) JSON on its standard input, a URL JSON by POST.
    """

    recover: bool = True
    max_attempts: int = 10
    budgets: Mapping[str, int] = field(default_factory=dict)
    backoff: Backoff = Backoff()
    on: Collection[str] | None = None
    max_lost_time: float | None = None
    allow_semantic_changes: bool = True
    max_quarantined: int = 1000
    max_quarantined_share: float = 0.05
    recoveries: tuple[Recovery, ...] = ()
    notify: Addressee | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UsageError(f"max_attempts={self.max_attempts}: at least 1 is needed")
        if isinstance(self.on, str):
            raise UsageError(f"on={self.on!r}: a list of failure classes is needed, not a text")
        if any(budget < 0 for budget in self.budgets.values()):
            raise UsageError(f"budgets={dict(self.budgets)}: none can be negative")
        if self.max_lost_time is not None and self.max_lost_time < 0:
            raise UsageError(f"max_lost_time={self.max_lost_time}: it cannot be negative")
        addressee.check(self.notify)

    @classmethod
    def strict(cls, **changes: Any) -> Self:
        """Nothing that changes the result: where only that would help, training stops."""
        return cls(**{"allow_semantic_changes": False, **changes})

    @classmethod
    def patient(cls, **changes: Any) -> Self:
        """For machines and storage that come and go: many attempts, long waits."""
        waits = Backoff(first_seconds=5.0, max_seconds=600.0, jitter=0.5)
        budgets = dict.fromkeys(("transient_io", "disk_full", "worker_lost", "process_death", "device_fault"), 20)
        return cls(**{"max_attempts": 50, "backoff": waits, "budgets": budgets, **changes})

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """``default``, ``strict`` or ``patient``, as a command line has it. Raises UsageError."""
        known: dict[str, Callable[..., Self]] = {"default": cls, "strict": cls.strict, "patient": cls.patient}
        if name not in known:
            raise UsageError(f"policy={name}: {', '.join(known)} are known")
        return known[name](**changes)

    @classmethod
    def control(cls, **changes: Any) -> Self:
        """Never recovers: faults are recorded, and end the training as they would without us."""
        return cls(**{"recover": False, **changes})

    def with_recovery(self, recovery: Recovery) -> Self:
        """With a failure class of one's own, asked before the built-in ones about every link of a cause chain."""
        return dataclasses.replace(self, recoveries=(asked_first(recovery), *self.recoveries))

    def allows_quarantine(self, records: int, seen: int) -> bool:
        """Whether so many bad records, among so many seen, may be left out."""
        few = records <= _FEW or records <= self.max_quarantined_share * seen
        return few and records <= self.max_quarantined


def decide(
    fault: Fault, recovery: Recovery, log: AttemptLog, settings: Settings, policy: Policy, capabilities: Capabilities
) -> Decision:
    """What follows from a fault. ``log`` holds what was before it. The same values give the same decision."""
    return _Case(fault, recovery, log, settings, policy, capabilities).decide()


@dataclass(frozen=True)
class _Case:
    fault: Fault
    recovery: Recovery
    log: AttemptLog
    settings: Settings
    policy: Policy
    can: Capabilities

    @property
    def standing(self) -> Standing:
        return self.log.standing(self.recovery.failure_class, self.fault.global_step)

    @property
    def budget(self) -> int | None:
        return self.policy.budgets.get(self.recovery.failure_class)

    def decide(self) -> Decision:
        if self.recovery.leaves:
            return self._end("leave", "interrupted")
        basis = self._refusal()
        if basis is not None:
            return self._end("stop", basis)
        reasons = {"no_progress"}
        for index, rung in self._rungs_left():
            chosen = self._take(index, rung)
            if chosen.verdict == "continue" or chosen.basis in _BOUNDS:
                return chosen
            reasons.add(chosen.basis)
        return self._end("stop", next(basis for basis in _WORTH_SAYING if basis in reasons))

    def _refusal(self) -> str | None:
        """Why this fault is not to be recovered from, whatever its ladder holds."""
        if not self.policy.recover:
            return "recovery_off"
        if not self.recovery.ladder:
            return "stop_class"
        if self.recovery.harmless:
            return None
        if self.policy.on is not None and self.recovery.failure_class not in self.policy.on:
            return "class_excluded"
        if self.budget is not None and self.standing.strikes >= self.budget:
            return "budget_spent"
        return None

    def _rungs_left(self) -> list[tuple[int, Rung]]:
        """A ladder is climbed, never descended; where a budget is set, its last rung lasts as long."""
        used, ladder = self.standing.used, list(enumerate(self.recovery.ladder))
        left = [(i, rung) for i, rung in ladder if i >= max(used, default=0) and used.get(i, 0) < rung.times]
        return left or (ladder[-1:] if self.budget is not None or self.recovery.harmless else [])

    def _take(self, index: int, rung: Rung) -> Decision:
        """This rung; or the stop that says why not."""
        if not self.policy.allow_semantic_changes and self._alters_result(rung):
            return self._end("stop", "changes_result")
        found = way(rung, self.fault, self.can, condemned=self.recovery.condemns(self.fault))
        settings = _changed(self.settings, rung, self.fault)
        if settings is None or not rung.when(self.fault):
            return self._end("stop", "ladder_spent")
        if found.resumption is None:
            return self._end("stop", found.basis or "ladder_spent")
        delay = 0.0
        if any(isinstance(action, Wait) for action in rung.actions):
            seed = f"{self.log.job_id}/{self.recovery.failure_class}"
            delay = self.policy.backoff.delay(self.standing.strikes, seed)
        opens = found.resumption != "in_place" or settings != self.settings
        basis = self._beyond_bounds(rung, opens=opens, delay=delay)
        if basis is not None:
            return self._end("stop", basis)
        return self._go_on(index, rung, found, settings, delay, opens)

    def _alters_result(self, rung: Rung) -> bool:
        return any(action.alters_result(self.fault, exact_split=self.can.exact_split) for action in rung.actions)

    def _beyond_bounds(self, rung: Rung, *, opens: bool, delay: float) -> str | None:
        """The bound over the whole job that this rung would break."""
        log, policy = self.log, self.policy
        if any(isinstance(action, Quarantine) for action in rung.actions):
            seen = (self.fault.global_step + 1) * (self.fault.batch_size or 0)
            if not policy.allows_quarantine(log.quarantined, seen):
                return "quarantine_spent"
        if opens and len(log.failed | {log.current}) >= policy.max_attempts:
            return "ceiling"
        if not self.recovery.harmless and policy.max_lost_time is not None:
            return "lost_time" if log.lost_seconds + delay > policy.max_lost_time else None
        return None

    def _go_on(self, index: int, rung: Rung, found: Way, settings: Settings, delay: float, opens: bool) -> Decision:
        basis = "harmless" if self.recovery.harmless else found.basis or self._occasion()
        actions = _actions(rung, found)
        done = ", ".join(action.phrase(settings) for action in actions) + (f" ({delay:.1f} s)" if delay else "")
        return Decision(
            verdict="continue",
            basis=basis,
            failure_class=self.recovery.failure_class,
            settings=settings,
            resumption=found.resumption,
            actions=actions,
            delay=delay,
            rung=index,
            opens_attempt=opens,
            text=in_words(self.fault, self.recovery.failure_class, done, basis),
        )

    def _occasion(self) -> str:
        name = self.recovery.failure_class
        if name not in self.log.standings:
            return "first"
        return "strike" if self.standing.strikes else "progress"

    def _end(self, verdict: Verdict, basis: str) -> Decision:
        name = self.recovery.failure_class
        detail = self.recovery.detail(self.fault) if verdict == "stop" else ""
        done = "stop" if verdict == "stop" else "save and leave, to be resumed"
        text = in_words(self.fault, name, done, basis, detail)
        return Decision(verdict=verdict, basis=basis, failure_class=name, settings=self.settings, text=text)


def _changed(settings: Settings, rung: Rung, fault: Fault) -> Settings | None:
    changed: Settings | None = settings
    for action in rung.actions:
        changed = changed and action.change(changed, fault)
    return changed


def _actions(rung: Rung, found: Way) -> tuple[Action, ...]:
    """The rung's actions; where training goes on harsher than they ask for, those that still apply."""
    if found.resumption == rung.resumption:
        return rung.actions
    instead = NewProcess() if found.resumption == "new_process" else RollBack()
    left = (action for action in rung.actions if not isinstance(action, _OF_THE_STEP | RollBack | NewProcess))
    return (*left, instead)
