"""An MLflow model folder around a saved Keras model, as ``mlflow.tensorflow.save_model`` writes it; no TensorFlow."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped, unused-ignore]
from mlflow import pyfunc
from mlflow.models import Model, ModelSignature
from mlflow.types import Schema, TensorSpec
from mlflow.utils.environment import _process_pip_requirements, _PythonEnv
from mlflow.utils.file_utils import get_total_file_size

from mlflow_resilience.spool import atomic

KERAS_FILE, STATE_FOLDER, DESCRIPTION = "model.keras", "training_state", "model.json"
EXTRA = "extra_files"


def describe(folder: Path) -> dict[str, Any]:
    """``model.json``: ``signature`` {inputs, outputs: [{name, dtype, shape}]}, ``requirements``, versions."""
    value = atomic.read_json(folder / DESCRIPTION)
    return value if isinstance(value, dict) else {}


def compose(source: Path, target: Path, model: Model) -> None:
    """Write the model folder of what lies in ``source`` to ``target``, which must not exist."""
    description = describe(source)
    target.mkdir(parents=True)
    keras_file = source / KERAS_FILE
    signature = signature_of(description.get("signature"))
    if signature is not None:
        model.signature = signature
    if keras_file.is_file():
        _write_keras(keras_file, target)
    extra = _copy_extra_files(source, target)
    if keras_file.is_file():
        _add_flavors(model, extra)
    if size := get_total_file_size(target):
        model.model_size_bytes = size
    model.save(str(target / "MLmodel"))
    _write_environment(target, description)


def _write_keras(keras_file: Path, target: Path) -> None:
    data = target / "data"
    data.mkdir()
    (data / "keras_module.txt").write_text("tensorflow.keras")
    (data / "save_format.txt").write_text("tf")
    _link(keras_file, data / KERAS_FILE)


def _add_flavors(model: Model, extra: dict[str, Any]) -> None:
    model.add_flavor(
        "tensorflow",
        code=None,
        data="data",
        model_type="keras",
        keras_version=version("tensorflow"),  # so named by MLflow, and TensorFlow's
        save_format="tf",
        **extra,
    )
    pyfunc.add_to_model(
        model,
        loader_module="mlflow.tensorflow",
        conda_env="conda.yaml",
        python_env="python_env.yaml",
        code=None,
        data="data",
    )


def _copy_extra_files(source: Path, target: Path) -> dict[str, Any]:
    names = sorted(path.name for path in source.iterdir() if path.name not in (KERAS_FILE, DESCRIPTION))
    for name in names:
        path, copy = source / name, target / EXTRA / name
        copy.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copy, copy_function=_link)
        else:
            _link(path, copy)
    return {EXTRA: [{"path": f"{EXTRA}/{name}"} for name in names]} if names else {}


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def signature_of(value: Any) -> ModelSignature | None:
    """The signature of plain specs, or of MLflow's own dictionary; None when there is none."""
    if not isinstance(value, dict) or not value.get("inputs"):
        return None
    if isinstance(value["inputs"], str):
        return ModelSignature.from_dict(value)
    outputs = value.get("outputs")
    return ModelSignature(inputs=_schema(value["inputs"]), outputs=_schema(outputs) if outputs else None)


def _schema(specs: list[dict[str, Any]]) -> Schema:
    return Schema([
        TensorSpec(
            np.dtype(spec.get("dtype", "float32")),
            (-1, *(-1 if size is None else int(size) for size in spec["shape"][1:])),
            spec.get("name") if len(specs) > 1 else None,
        )
        for spec in specs
    ])  # fmt: skip


def _write_environment(target: Path, description: dict[str, Any]) -> None:
    requirements = description.get("requirements") or default_requirements()
    conda, pip, constraints = _process_pip_requirements(None, list(requirements), None)
    (target / "conda.yaml").write_text(yaml.safe_dump(conda, default_flow_style=False))
    if constraints:
        (target / "constraints.txt").write_text("\n".join(constraints))
    (target / "requirements.txt").write_text("\n".join(pip))
    _PythonEnv.current().to_yaml(str(target / "python_env.yaml"))


def default_requirements() -> list[str]:
    """What the model was trained with, pinned."""
    found = []
    for name in ("tensorflow", "keras", "numpy"):
        try:
            found.append(f"{name}=={version(name)}")
        except PackageNotFoundError:
            continue
    return found
