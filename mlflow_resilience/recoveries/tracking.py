"""MLflow failed. Training does not depend on it."""

from __future__ import annotations

from mlflow_resilience.core.action import GoOn
from mlflow_resilience.core.failure import Recovery, Rung, anywhere
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.origin import packages
from mlflow_resilience.core.text import words
from mlflow_resilience.recoveries import disk_full, programming_error

_NAMED = ("MlflowException", "RestException", "ExecutionException", "InvalidUrlException", "TrackingError")
_WORDS = words(
    r"\bmlflow(?!.resilience)[ .:_](?!/)|/api/\d\.\d/(?:preview/)?mlflow",
    r"\b(?:sqlalchemy|sqlite3|pymysql|mysqldb|psycopg2|alembic)\b|queuepool",
    r"mlflow-artifacts|\b[0-9a-f]{32}/artifacts/",
    r"run with id|run_uuid|experiment with (?:id|name)|no experiment",
)


#: What MLflow reaches its stores through.
_CARRIERS = {
    *("python", "requests", "urllib3", "httpx", "httpcore", "sqlalchemy", "pymysql", "MySQLdb", "psycopg2", "alembic"),
    *("boto3", "botocore", "s3transfer", "google", "azure", "paramiko", "tenacity"),
}


def matches(fault: Fault) -> bool:
    """Anything that comes from MLflow, or out of it."""
    if fault.phase == "tracking" or fault.is_a(*_NAMED) or _raised_in_mlflow(fault):
        return True
    if any(name.startswith("mlflow.") for name in fault.type_names):
        return True
    return fault.says(_WORDS) and not programming_error.of_code(fault)


def _raised_in_mlflow(fault: Fault) -> bool:
    """With autologging MLflow has a frame in every traceback: only the innermost counts, carriers aside."""
    return next((name for name in packages(fault.traceback) if name not in _CARRIERS), None) == "mlflow"


_somewhere = anywhere(matches)
_disk_is_full = anywhere(disk_full.matches)  # training will want to write there too

RECOVERY = Recovery(
    failure_class="tracking",
    domain="infrastructure",
    certain=lambda fault: _somewhere(fault) and not _disk_is_full(fault),
    matches=matches,
    harmless=True,
    ladder=(Rung((GoOn(),)),),
    hint="MLflow is out of reach or refuses: what is logged waits on the local disk and is sent when it answers "
    "(mlflow-resilience sync).",
)
