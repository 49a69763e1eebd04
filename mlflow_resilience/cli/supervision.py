"""What `train` and `run` share: their options, the job's entry in the journal, the job itself, its last words."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mlflow_resilience.cli import exit_file
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a job is run, whatever it trains."""

    run_id: str | None = None
    run_name: str | None = None
    experiment: str | None = None
    require_tracking: bool = False
    grace_seconds: float = 30.0
    delivery_seconds: float = 30.0
    hang_seconds: float | None = None
    start_seconds: float | None = None
    hangs: bool = True
    stop_with_parent: bool | None = None
    quiet: bool = False

    @classmethod
    def taken_from(cls, given: dict[str, Any]) -> Options:
        """From a command's arguments, which keep only what is not ours."""
        return cls(**{field.name: given.pop(field.name) for field in fields(cls)})


_SECONDS = click.FloatRange(min=0)

_OPTIONS = (
    click.option("--run-id", envvar="MLFLOW_RUN_ID", help="Go on in this MLflow run."),
    click.option("--run-name", help="The new run's name."),
    click.option("--experiment", envvar="MLFLOW_EXPERIMENT_NAME", help="The new run's experiment."),
    click.option("--require-tracking", is_flag=True, envvar="MLFLOW_RESILIENCE_REQUIRE_TRACKING",
                 help="Do not train before MLflow has answered."),
    click.option("--grace-seconds", type=_SECONDS, default=30.0, show_default=True, help="To save in when stopped."),
    click.option("--delivery-seconds", type=_SECONDS, default=30.0, show_default=True, help="At the end, for MLflow."),
    click.option("--hang-seconds", type=click.FloatRange(min=0, min_open=True), help="Silence in a step, data wait, "
                 "validation or save that is no hang; default by phase, and never less than this job's own times say."),
    click.option("--start-seconds", type=click.FloatRange(min=0, min_open=True), help="The same, of what is done for "
                 "the first time: start-up, restoring, first step; default 600, and 3600 for making a recipe's data."),
    click.option("--no-hangs", "hangs", flag_value=False, type=bool, default=True, help="Wait for ever."),
    click.option("--stop-with-parent/--outlive-parent", default=None, help="When the starting process ends, save and "
                 "leave; the default under `mlflow run`."),
    click.option("--quiet", is_flag=True, help="JSON lines for what matters, and nothing else."),
)  # fmt: skip


def options(command: F) -> F:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def supervise(
    command: Sequence[str],
    opts: Options,
    policy: Policy,
    *,
    job: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    opens_attempts: bool = False,
    spare: Sequence[str] = (),
) -> int:
    """Run a job on the terminal: its exit code."""
    from mlflow_resilience import display
    from mlflow_resilience.cli.last_words import last_words
    from mlflow_resilience.recoveries import known
    from mlflow_resilience.spool.folder import home
    from mlflow_resilience.supervisor import Plan, parents, supervise
    from mlflow_resilience.supervisor.delivery import tracking_seconds

    caller = parents.mlflow_run()
    with_parent = bool(caller) if opts.stop_with_parent is None else opts.stop_with_parent
    plan = Plan(
        command=command,
        home=home(),
        job={**_job_fields(opts, parent_owns_end=bool(caller)), **job},
        environ=environ or {},
        policy=policy,
        recoveries=known(policy),
        limits=_limits(opts),
        grace_seconds=opts.grace_seconds,
        sender_wait_seconds=opts.delivery_seconds,
        require_tracking=opts.require_tracking,
        tracking_wait_seconds=tracking_seconds(),
        parents=(caller or parents.nearest()) if with_parent else (),
        spare_command=spare,
        opens_attempts=opens_attempts,
    )
    exit_file.begin()
    view = display.for_terminal(opts.quiet)
    try:
        result = supervise(plan, view)
    finally:
        view.close()
    last_words(result, quiet=opts.quiet)
    return result.exit_code


def supervised() -> bool:
    """Whether this very process runs under a supervisor already."""
    return bool(os.environ.get("MLFLOW_RESILIENCE_JOB"))


def _job_fields(opts: Options, *, parent_owns_end: bool) -> dict[str, Any]:
    from mlflow_resilience.cli.naming import run_to_join

    if opts.run_id is not None and not opts.run_id.strip():
        raise UsageError("run_id is empty")
    return {
        "run_id": None if opts.run_id is None else run_to_join(opts.run_id),
        "run_name": opts.run_name,
        "experiment": opts.experiment,
        "experiment_id": os.environ.get("MLFLOW_EXPERIMENT_ID"),
        "tracking_uri": os.environ.get("MLFLOW_TRACKING_URI"),
        "parent_owns_end": parent_owns_end and opts.run_id is not None,
        "grace_seconds": opts.grace_seconds,
        "require_tracking": opts.require_tracking,
        "params": {},
        "tags": {},
    }


def _limits(opts: Options) -> Any:
    from mlflow_resilience.supervisor import Limits
    from mlflow_resilience.supervisor.hang import FIRST, FLOORS

    limits = Limits(enabled=opts.hangs)
    if opts.hang_seconds is not None:
        later = {phase: opts.hang_seconds for phase in FLOORS if phase not in FIRST}
        limits = replace(limits, floors={**limits.floors, **later}, halted_seconds=opts.hang_seconds)
    if opts.start_seconds is not None:
        first = dict.fromkeys(FIRST, opts.start_seconds)
        limits = replace(limits, floors={**limits.floors, **first}, first_seconds=opts.start_seconds)
    return limits


def package_path() -> dict[str, str]:
    """``PYTHONPATH`` with this very package on it, for processes of ours that run where it is not installed. Never a
    whole ``site-packages``, which may be that of another Python than the one that is started."""
    root = Path(__file__).parents[2]
    if root.name in ("site-packages", "dist-packages"):
        return {}
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(root), before] if before else [str(root)])}
