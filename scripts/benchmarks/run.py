"""Measure, keep the numbers, and make the page of them; started by scripts/bench."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "docs" / "benchmarks", ROOT / "docs" / "benchmarks.md"
#: Each is a module with `measure(quick)`, which gives JSON values, and `page(told)`, which gives lines of Markdown.
NAMES = ("overhead", "peers", "checkpoints", "tracking", "diagnostics")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("what", choices=(*NAMES, "report"))
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; keeps nothing")
    parser.add_argument("--check", action="store_true", help="only say whether the page is that of the numbers")
    given = parser.parse_args()
    if given.check:
        return 0 if PAGE.read_text() == _page() else 1
    if given.what != "report":
        told = {"format": 1, "machine": machine.facts(), **importlib.import_module(given.what).measure(given.quick)}
        print(json.dumps(told, indent=1))
        if not given.quick:
            RESULTS.mkdir(parents=True, exist_ok=True)
            _path(given.what).write_text(json.dumps(told, indent=1) + "\n")
    PAGE.write_text(_page())
    return 0


def _page() -> str:
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
    return "\n".join(lines)


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    raise SystemExit(main())
