"""Measure, keep the numbers, and make the page of them; started by scripts/bench."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "benchmarks"
#: Each is a module with `measure(quick)`, which gives JSON values, and `page(told)`, which gives lines of Markdown.
NAMES = ("overhead", "peers", "checkpoints", "tracking", "diagnostics")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("what", choices=(*NAMES, "report"))
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; keeps nothing")
    given = parser.parse_args()
    if given.what != "report":
        told = {"format": 1, "machine": machine.facts(), **importlib.import_module(given.what).measure(given.quick)}
        print(json.dumps(told, indent=1))
        if not given.quick:
            RESULTS.mkdir(parents=True, exist_ok=True)
            _path(given.what).write_text(json.dumps(told, indent=1) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(_page()))


def _page() -> list[str]:
    lines = [
        "# Benchmarks",
        "",
        "Made by `scripts/bench`; the numbers behind the tables are in `docs/benchmarks/`.",
        "",
    ]
    for name in NAMES:
        if _path(name).exists():
            told: dict[str, Any] = json.loads(_path(name).read_text())
            lines += [*importlib.import_module(name).page(told), machine.line(told["machine"]), ""]
    return lines


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    main()
