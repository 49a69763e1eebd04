"""The results of a drill on disk: a line for each finished cell, appended and synchronised, so that the drill goes on
where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mlflow_resilience.drill.facts import Facts
from mlflow_resilience.drill.matrix import Cell
from mlflow_resilience.drill.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Result:
    """A judged cell. ``kept`` is the folder that it left, where it is kept."""

    cell: Cell
    verdict: Verdict
    seconds: float
    codes: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    lost_steps: int = 0
    kept: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.cell.name}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        del told["name"]
        return cls(**{**told, "cell": Cell(**data["cell"]), "verdict": Verdict(**data["verdict"])})


@dataclass
class Results:
    """What is known so far: the undisturbed run, and the judged cells by their names, in the order of their ends."""

    path: Path
    undisturbed: Facts | None = None
    cells: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """What the file has; a line that was cut off is not counted."""
        found = cls(path)
        for line in _lines(path):
            if "undisturbed" in line:
                found.undisturbed = Facts.from_dict(line["undisturbed"])
            elif "result" in line:
                result = Result.from_dict(line["result"])
                found.cells[result.cell.name] = result
        return found

    def set_undisturbed(self, facts: Facts) -> None:
        self.undisturbed = facts
        self._append({"undisturbed": facts.to_dict()})

    def add(self, result: Result) -> None:
        self.cells[result.cell.name] = result
        self._append({"result": result.to_dict()})

    def _append(self, value: dict[str, Any]) -> None:
        """A line of its own, whatever a write before it has left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"\n" + json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = path.read_bytes()
    except OSError:
        return
    for raw in content.splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
