"""Faults of hardware and of other machines: exceptions with messages as they were recorded, said to be simulated."""

from __future__ import annotations

from typing import Any, TypeVar

from mlflow_resilience.core.fault import SIMULATED
from mlflow_resilience.strikes.place import Place, Strike

E = TypeVar("E", bound=BaseException)

_DEVICE_OOM = (
    "OOM when allocating tensor with shape[256,64,112,112] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
_DEVICE_FAULT = (
    "Failed to synchronize the GPU: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered on "
    "/job:localhost/replica:0/task:0/device:GPU:0"
)
_WORKER_LOST = (
    "Collective ops is aborted by: /job:worker/replica:0/task:1 is unreachable: Socket closed. The error could be from "
    "a previous operation. Restart your program to reset."
)
_TRACKING = (
    "mlflow.exceptions.MlflowException: API request to http://tracking:5000/api/2.0/mlflow/runs/log-batch failed with "
    "exception HTTPConnectionPool(host='tracking', port=5000): Max retries exceeded"
)


def simulated(error: E) -> E:
    """The exception, with a mark that it was made by hand: its fault says so, and so do the tags in MLflow."""
    setattr(error, SIMULATED, True)
    return error


def _tensorflow(name: str, message: str) -> Strike:
    def strike(batch: Any, place: Place) -> Any:
        import tensorflow as tf

        raise simulated(getattr(tf.errors, name)(None, None, message))

    return strike


def _tracking(batch: Any, place: Place) -> Any:
    raise simulated(ConnectionError(_TRACKING))


STRIKES: dict[str, Strike] = {
    "device_oom": _tensorflow("ResourceExhaustedError", _DEVICE_OOM),
    "device_fault": _tensorflow("InternalError", _DEVICE_FAULT),
    "worker_lost": _tensorflow("UnavailableError", _WORKER_LOST),
    "tracking": _tracking,
}
