"""A file that a command will write: refused at once where it cannot be, and not after the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class OutputFile(click.Path):
    """The path of a file to write, in a folder that is made where it is not there."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error where it cannot be written."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.fail(f"{path} cannot be written: {error.strerror}", param, ctx)
        if not os.access(path.parent, os.W_OK):
            self.fail(f"{path} cannot be written: no permission in {path.parent}", param, ctx)
        return path
