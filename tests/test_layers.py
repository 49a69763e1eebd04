"""The direction of imports, read from the source: what is low knows nothing of what is above it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "mlflow_resilience"
ROOT = Path(__file__).parents[1] / PACKAGE

GROUND = {
    "errors",
    "core",
    "spool",
    "recoveries",
    "fault_plan",
    "forensics",
    "notify",
    "parameters",
    "recipe",
    "summary",
    "time_use",
    "undisturbed",
    "explain",
}

#: The composition root and its pieces: they put the parts together for one process that trains.
ROOT_PARTS = (
    "api",
    "together",
    "leaving",
    "child",
    "fits",
    "sizes",
    "job",
    "replaying",
    "worker",
    "spare",
    "equipping",
    "shrinking",
    "fitting",
    "surroundings",
    "ending",
    "resuming",
    "change_log",
    "diagnosing",
    "listeners",
    "listening",
    "stop",
)

#: What each part may import of the package besides itself. A part that is missing here fails the test.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "core": {"errors"},
    "spool": {"errors", "core"},
    "recoveries": {"errors", "core"},
    "notify": {"errors", "core", "spool"},
    "forensics": {"core", "spool", "recoveries"},
    "fault_plan": {"errors"},
    "parameters": {"errors", "core", "fault_plan", "remedies", "device", "compression"},
    "remedies": {"errors", "core"},
    "compression": {"errors", "core"},
    "device": {"errors", "core"},
    "recipe": {"errors"},
    "recipes": set(),
    "startup": {"child"},
    "run_context": {"spool"},
    "summary": {"spool", "time_use"},
    "time_use": {"spool"},
    "undisturbed": {"spool", "summary"},
    "explain": {"errors", "core", "recoveries"},
    **{part: GROUND for part in ("training", "tracking", "telemetry", "plots", "supervisor")},
    "strikes": GROUND,
    "testing": GROUND | {"strikes"},
    "report": GROUND | {"plots"},
    "display": GROUND,
    "comparison": GROUND | {"plots", "tracking"},
    "doctor": {*GROUND, "training", "telemetry", "pipelines"},
    "pipelines": {*GROUND, "training", "remedies"},
    "diagnostics": {*GROUND, "training", "plots"},
    "ray": {*GROUND, "job", "worker", "resuming", "stop", "training", "supervisor"},
    "drill": GROUND | {"plots", "tracking", "strikes", "supervisor"},
    "sender": GROUND | {"tracking", "plots", "report", "telemetry"},
    **{
        part: {
            *GROUND,
            *ROOT_PARTS,
            "training",
            "telemetry",
            "doctor",
            "diagnostics",
            "remedies",
            "device",
            "compression",
            "testing",
            "supervisor",
            "display",
        }
        for part in ROOT_PARTS
    },
    "backend": GROUND | {"supervisor", "display", "cli"},
    "cli": GROUND | {"supervisor", "display", "job", "tracking", "report", "comparison", "doctor", "drill", "testing"},
    "__init__": {*GROUND, *ROOT_PARTS, "testing", "training"},
}

#: Of TensorFlow and Keras.
AT_HOME = (
    *("training", "ray", "pipelines", "compression", "doctor", "diagnostics", "recipes", "remedies", "device"),
    *("api", "fitting"),
)

#: Where each heavy or special package may be imported; with False, only inside functions.
THIRD_PARTY: dict[str, dict[str, bool]] = {
    "tensorflow": {**dict.fromkeys(("strikes", *ROOT_PARTS), False), **dict.fromkeys(AT_HOME, True)},
    "keras": {**dict.fromkeys(("strikes", "drill", *ROOT_PARTS), False), **dict.fromkeys(AT_HOME, True)},
    "mlflow": {
        "tracking": True,
        "comparison": True,
        "backend": True,
        "cli": False,
        "drill": False,
        "doctor": False,
        "diagnostics": False,
        "job": False,
        "child": False,
        "sender": True,
    },
    "psutil": {"telemetry": True},
    "pynvml": {"telemetry": True},
    "matplotlib": {"plots": True, "comparison": True, "drill": True, "diagnostics": True},
    "click": {"cli": True},
    "ray": {"ray": False},
    "rich": {"display": False, "cli": False},
}

STANDARD_LIBRARY_ONLY = GROUND | {"supervisor"}


@dataclass(frozen=True)
class Import:
    path: Path
    line: int
    part: str
    module: str
    top_level: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT.parent)}:{self.line} imports {self.module}"


def imports() -> Iterator[Import]:
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        part = relative.parts[0].removesuffix(".py")
        tree = ast.parse(path.read_bytes())
        inside = _within(tree, lambda node: isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        typing_only = _within(tree, lambda node: isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for node in ast.walk(tree):
            if id(node) in typing_only:
                continue
            for module in _modules(node, relative):
                yield Import(path, node.lineno, part, module, id(node) not in inside)  # type: ignore[attr-defined]


def _within(tree: ast.AST, chosen: Callable[[ast.AST], bool]) -> set[int]:
    """Everything below the chosen nodes."""
    return {id(node) for block in ast.walk(tree) if chosen(block) for node in ast.walk(block)}


def _modules(node: ast.AST, relative: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"{relative}: relative imports hide the direction"
        if node.module == PACKAGE:
            return [f"{PACKAGE}.{alias.name}" for alias in node.names]
        return [node.module or ""]
    return []


ALL = list(imports())


def test_every_part_has_its_place() -> None:
    parts = {each.part for each in ALL} | {path.stem for path in ROOT.glob("*.py")}
    assert parts <= set(MAY_IMPORT), f"say in MAY_IMPORT what these may import: {parts - set(MAY_IMPORT)}"


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    allowed = MAY_IMPORT[part] | {part}
    wrong = [
        str(each)
        for each in ALL
        if each.part == part
        and each.module.startswith(f"{PACKAGE}.")
        and (name := each.module.split(".")[1]) not in allowed
        and ((ROOT / f"{name}.py").exists() or (ROOT / name).is_dir())
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(THIRD_PARTY))
def test_a_heavy_package_is_imported_only_where_it_is_at_home(package: str) -> None:
    places = THIRD_PARTY[package]
    wrong = [
        str(each)
        for each in ALL
        if each.module.split(".")[0] == package
        and (each.part not in places or (each.top_level and not places[each.part]))
    ]
    assert wrong == []


def test_the_ground_and_the_supervisor_stand_on_the_standard_library_alone() -> None:
    wrong = [
        str(each)
        for each in ALL
        if each.part in STANDARD_LIBRARY_ONLY and each.module.split(".")[0] not in {PACKAGE, *sys.stdlib_module_names}
    ]
    assert wrong == []


def test_no_submodule_bears_the_name_of_a_public_function() -> None:
    for name in ("fit", "autolog"):
        assert not (ROOT / f"{name}.py").exists()
        assert not (ROOT / name).exists()
