"""Where training runs: versions, processor, GPUs. Nothing that is asked about is imported."""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path
from typing import Any

from mlflow_resilience.telemetry.nvml import nvml

#: What may carry each package, in the order it is looked for.
_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-macos"),
    "keras": ("keras", "keras-nightly"),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "numpy": ("numpy",),
    "mlflow-resilience": ("mlflow-resilience",),
}
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OPENBLAS_NUM_THREADS")


def environment() -> dict[str, Any]:
    """Host, process, versions, processor and GPUs as plain JSON values; what is not known is left out."""
    driver = nvml()
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: found for name, options in _DISTRIBUTIONS.items() if (found := _version(options))},
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "thread_settings": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "gpus": driver.names(),
        "gpu_driver": driver.driver(),
        "gpu_problem": driver.problem,
    }
    return {key: value for key, value in facts.items() if value not in ("", None, [], {})}


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _cpu_model() -> str:
    """The processor's name; where /proc/cpuinfo has none (Arm), the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(names, platform.machine())
