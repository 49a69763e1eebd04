"""What the bits of a training depend on besides its state; a resume where it differs may give another result."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import config as tf_config

#: What is compared, with how it is called. Hosts, process ids and MLflow's version leave the result alone.
_COMPARED = {
    "python": "Python",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "numpy": "NumPy",
    "cpu": "processor",
    "usable_cores": "usable cores",
    "thread_settings": "thread settings",
    "threads": "TensorFlow's threads",
    "op_determinism": "op determinism",
    "gpus": "GPUs",
    "gpu_driver": "GPU driver",
    "replicas": "replicas, each with its part of every batch",
}
_UNSAID = {"replicas": 1}


def facts(environment: dict[str, Any]) -> dict[str, Any]:
    """What of ``environment`` (versions, processor, GPUs) decides the bits, and what TensorFlow adds to it."""
    known = {
        **environment,
        **environment.get("versions", {}),
        "threads": [tf.config.threading.get_intra_op_parallelism_threads(),
                    tf.config.threading.get_inter_op_parallelism_threads()],
        "op_determinism": bool(tf_config.is_op_determinism_enabled()),
    }  # fmt: skip
    return {name: known[name] for name in _COMPARED if name in known}


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """``what: before -> now`` for all that is not the same."""
    return [
        f"{called}: {before.get(name, _UNSAID.get(name, 'none'))} -> {now.get(name, _UNSAID.get(name, 'none'))}"
        for name, called in _COMPARED.items()
        if before.get(name, _UNSAID.get(name)) != now.get(name, _UNSAID.get(name))
    ]
