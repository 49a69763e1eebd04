"""``mlflow-resilience drill``: does this recipe's training come through every fault with the undisturbed result?"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mlflow_resilience import recipe as recipes
from mlflow_resilience.cli.drill_log import DrillLog
from mlflow_resilience.cli.drill_view import progress, show
from mlflow_resilience.cli.output_file import OutputFile
from mlflow_resilience.cli.supervision import package_path
from mlflow_resilience.drill.matrix import read_only
from mlflow_resilience.drill.settings import HANG_SECONDS, Selection, Settings
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.spool.folder import home

_DIVERGED = 1
_COUNT, _SOME = click.IntRange(min=0), click.IntRange(min=1)


@click.command(name="drill")
@click.argument("recipe", required=False, default=Parameters().recipe)
@click.option("--only", default="", help="These cells: KIND[@PHASE] or @PHASE, with commas between them.")
@click.option("--quick", is_flag=True, help="A sample: one cell of each phase.")
@click.option("--sample", type=bool, default=False, hidden=True, help="The same in one word, as an MLproject gives it.")
@click.option(
    "--random", "plans", type=_COUNT, default=0, help="In their place, so many drawn plans of several faults."
)
@click.option("--seed", type=_COUNT, default=0, show_default=True, help="Of the sample and of the plans.")
@click.option("--epochs", type=_SOME, default=3, show_default=True, help="Of every run: 2 or more.")
@click.option("--batch-size", help="As `train` has it.")
@click.option("--learning-rate", help="As `train` has it.")
@click.option("--training-seed", help="The --seed of `train`.")
@click.option("--devices", help="As `train` has it.")
@click.option("--checkpoint-every", default="", help="As `train` has it.  [default: a third of an epoch]")
@click.option(
    "--hang-seconds", type=click.FloatRange(min=1), default=HANG_SECONDS, show_default=True, help="As `train` has it."
)
@click.option("--jobs", type=_SOME, default=1, show_default=True, help="So many cells at a time.")
@click.option("--fresh", is_flag=True, help="Begin anew, whatever was done before.")
@click.option("--json", "json_file", type=OutputFile(), help="Write the scorecard here too.")
@click.option("--junit", "junit_file", type=OutputFile(), help="And as JUnit XML here.")
@click.option("--model", default="", help="Tag this logged model, or the newest one of this run, with the verdict.")
@click.option("--tracking-uri", help="Where the drill is logged; default: MLFLOW_TRACKING_URI, or the store in here.")
@click.option("--experiment", default="", envvar="MLFLOW_EXPERIMENT_NAME", help="The drill's run is made in it.")
@click.option("--no-log", "log", flag_value=False, type=bool, default=True, help="Make no run of it in MLflow.")
def command(
    recipe: str, only: str, quick: bool, sample: bool, plans: int, seed: int, jobs: int, fresh: bool,
    json_file: Path | None, junit_file: Path | None, model: str, tracking_uri: str | None, experiment: str, log: bool,
    **given: Any,
) -> int:  # fmt: skip
    """Strike RECIPE's training with every fault at every moment, and hold each result against the undisturbed one.

    Exit codes: 0 clean, 1 when a result diverged in silence or a job did not end as it should, 2 wrong usage. The same
    command goes on with a drill that was interrupted.
    """
    settings = _settings(recipe, given)
    selection = Selection(only=tuple(read_only(only)), quick=quick or sample, plans=plans, seed=seed)
    with _ends_by_sigterm(), DrillLog.opened(tracking_uri, experiment, model, wanted=log) as told:
        from mlflow_resilience.drill.drilling import drill
        from mlflow_resilience.drill.junit import junit

        with progress(settings, selection, home()) as view:
            done = drill(
                settings, selection, home(), view, jobs=jobs, fresh=fresh, environ=package_path(), check=told.keys
            )
        card = done.card(settings, selection)
        for path, text in ((json_file, json.dumps(card.to_dict(), indent=1) + "\n"), (junit_file, junit(card))):
            if path is not None:
                path.write_text(text, encoding="utf-8")
        show(card, told.publish(card))
    return 0 if card.passed else _DIVERGED


def _settings(recipe: str, given: dict[str, Any]) -> Settings:
    """Checked before anything starts. Raises UsageError."""
    names = {name: name for name in ("batch_size", "learning_rate", "devices")} | {"training_seed": "seed"}
    params = {name: str(given[option]) for option, name in names.items() if given[option] is not None}
    Parameters.from_text(params)
    recipes.check(recipe)
    every, seconds = given["checkpoint_every"], given["hang_seconds"]
    return Settings(recipe=recipe, epochs=given["epochs"], params=params, every=every, hang_seconds=seconds)


@contextmanager
def _ends_by_sigterm() -> Iterator[None]:
    """SIGTERM is a Ctrl-C: no process is left behind by either."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
