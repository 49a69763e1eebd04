"""Arguments in, a command called, one exit code out; what is wrong is said in one line."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from mlflow_resilience.cli import exit_file
from mlflow_resilience.errors import ResilienceError, UsageError

USAGE, FAILED = 2, 1

#: Each in the module of its name.
COMMANDS = ("train", "run", "explain", "report", "compare", "replay", "doctor", "drill", "reap", "sync")


class Commands(click.Group):
    """Finds a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"mlflow_resilience.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mlflow-resilience")
def cli() -> None:
    """Keras training that survives what goes wrong, with all of it in MLflow.

    Exit codes: 0 finished, 75 preempted (start the same command again to resume), 1 failed for good, 2 wrong usage.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    code = call(arguments)
    exit_file.write(code)
    sys.exit(code)


def call(arguments: Sequence[str] | None = None) -> int:
    """Run a command: its exit code."""
    try:
        if not sys.platform.startswith("linux"):
            raise UsageError(f"this runs on Linux only, not on {sys.platform}: use a container or WSL 2")
        code = cli.main(args=arguments, prog_name="mlflow-resilience", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as help_text:
        click.echo(help_text.format_message())
        return USAGE
    except click.ClickException as error:
        return _complain(_in_one_line(error), USAGE)
    except UsageError as error:
        return _complain(str(error), USAGE)
    except (ResilienceError, OSError) as error:
        return _complain(str(error), FAILED)
    except (click.Abort, KeyboardInterrupt):
        return 130


def _in_one_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    more = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{text[:1].lower()}{text[1:]}{more}"


def _complain(text: str, code: int) -> int:
    click.echo(f"mlflow-resilience: {text}", err=True)
    return code
