"""Start a group of ranks through Ray Train, and wait for its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mlflow_resilience.errors import UsageError
from mlflow_resilience.ray.watching import train_rank

_OBJECT_STORE_BYTES = 100_000_000  # nothing goes through it
_LOOPBACK = "127.0.0.1"


def check() -> None:
    """UsageError where Ray is not installed."""
    try:
        import ray.train  # noqa: F401
    except ImportError as error:
        raise UsageError(f"engine=ray needs Ray: pip install 'mlflow-resilience[ray]' ({error})") from None


def start_ray(num_workers: int) -> str | None:
    """Connect to the cluster of ``RAY_ADDRESS``, or start one on this machine that ends with this process: then the
    address at which its workers talk to each other."""
    import ray

    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
        return None
    ray.init(
        num_cpus=num_workers,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address=_LOOPBACK,
    )
    return _LOOPBACK


def run_group(config: dict[str, Any], num_workers: int, storage: Path) -> str:
    """One group from its start to its end. What Ray said, where it lost one of its own workers.

    Ray itself is to retry nothing: whether and how to go on is decided once, by the policy that counts attempts.
    """
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    use_gpu = ray.cluster_resources().get("GPU", 0) >= num_workers
    trainer = DataParallelTrainer(
        train_rank,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=RunConfig(storage_path=str(storage), failure_config=FailureConfig(max_failures=0)),
    )
    try:
        trainer.fit()
    except Exception as error:
        print(f"Ray: {error}", flush=True)
        return f"{type(error).__name__}: {error}"
    return ""
