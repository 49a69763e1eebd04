"""A recipe: the user's file or module that says what is trained on what."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mlflow_resilience.errors import UsageError

REQUIRED = ("build_model", "load_data")

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A loaded recipe. ``name`` goes into the resume key; ``source_digest`` only tells that the file has changed."""

    name: str
    path: Path
    source_digest: str
    build_model: Callable[[Params], Any]
    load_data: Callable[[Params], Any]
    callbacks: Callable[[Params], list[Any]] | None = None
    fingerprint: Callable[[Params], str] | None = None

    def check_model(self, model: Any) -> None:
        """UsageError unless ``build_model`` returned a compiled Keras model."""
        call = f"{self.path}: build_model(params)"
        if not callable(getattr(model, "fit", None)):
            raise UsageError(f"{call} returned {type(model).__name__}, not a Keras model")
        if not getattr(model, "compiled", False):
            raise UsageError(f"{call} returned an uncompiled model: call model.compile(...) before returning it")

    def check_data(self, data: Any) -> None:
        """UsageError unless ``load_data`` returned a pair."""
        if not isinstance(data, tuple) or len(data) != 2:
            raise UsageError(f"{self.path}: load_data(params) returned {type(data).__name__}, not (train, validation)")
        if hasattr(data[1], "shape"):
            raise UsageError(
                f"{self.path}: load_data(params) returned a pair of arrays, which is read as (train, validation): "
                "return ((x, y), None) for data without validation"
            )


def check(reference: str) -> Path:
    """Where the recipe's source lies, looked at without running it: UsageError says what is wrong with it."""
    path = _find(reference)
    defined = _defined(path, _source(path))
    if defined is not None:
        _require(path, defined)
    return path


def load(reference: str) -> Recipe:
    """The recipe of a Python file or an importable module, imported: once a process, unless its file has changed."""
    path = check(reference)
    return _loaded(reference, path, hashlib.sha256(path.read_bytes()).hexdigest())


@functools.cache
def _loaded(reference: str, path: Path, digest: str) -> Recipe:
    name = reference if not _is_file(reference) else path.stem
    module = _import(path, name, reference)
    _require(path, {each for each in REQUIRED if callable(getattr(module, each, None))})
    return Recipe(
        name=name,
        path=path,
        source_digest=digest,
        build_model=module.build_model,
        load_data=module.load_data,
        callbacks=getattr(module, "callbacks", None),
        fingerprint=getattr(module, "fingerprint", None),
    )


def _is_file(reference: str) -> bool:
    return reference.endswith(".py") or "/" in reference


def _find(reference: str) -> Path:
    if _is_file(reference):
        return Path(reference).absolute()
    sys.path[:0] = [] if "" in sys.path or str(Path.cwd()) in sys.path else [str(Path.cwd())]
    try:
        spec = importlib.util.find_spec(reference)
    except (ImportError, ValueError) as error:
        raise UsageError(f"recipe={reference}: no such module ({error})") from None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UsageError(f"recipe={reference}: no such module, and a file's name must end with .py")
    return Path(spec.origin)


def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"recipe={path}: it cannot be read: {error.strerror}") from None


def _defined(path: Path, source: bytes) -> set[str] | None:
    """The names that the module's own statements give; None when a star import may give any."""
    try:
        tree = ast.parse(source, str(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}, line {getattr(error, 'lineno', '?')}: not Python ({error})") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return None if "*" in names else names


def _require(path: Path, defined: set[str]) -> None:
    missing = [name for name in REQUIRED if name not in defined]
    if missing:
        raise UsageError(f"{path}: {missing[0]}(params) is missing; a recipe defines {' and '.join(REQUIRED)}")


def _import(path: Path, name: str, reference: str) -> ModuleType:
    try:
        return _import_file(path, name) if _is_file(reference) else importlib.import_module(reference)
    except Exception as error:
        raise UsageError(f"{path}: importing it failed: {type(error).__name__}: {error}") from error


def _import_file(path: Path, name: str) -> ModuleType:
    """As ``python path`` would: its own folder comes first, and the module bears the file's name."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module
