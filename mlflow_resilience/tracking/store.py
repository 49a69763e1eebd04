"""The way to the tracking server or database: settings of our process, and whether an address can ever work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

REQUEST_SECONDS = 10
UPLOAD_SECONDS = 60


def prepare_environment() -> None:
    """Before MLflow is imported: no call of ours blocks for minutes, none is asynchronous, none phones home."""
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = "0"
    os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_JITTER"] = "0"
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = os.environ.get(
        "MLFLOW_RESILIENCE_REQUEST_SECONDS", str(REQUEST_SECONDS)
    )
    os.environ["MLFLOW_ENABLE_ASYNC_LOGGING"] = "false"
    os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
    os.environ.pop("MLFLOW_RUN_ID", None)  # it would override the parent of an attempt's run


@contextmanager
def patient() -> Iterator[None]:
    """A large upload may take longer until it is answered."""
    before = os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", str(REQUEST_SECONDS))
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(max(UPLOAD_SECONDS, int(before)))
    try:
        yield
    finally:
        os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = before


def why_never(uri: str) -> str | None:
    """Why this tracking URI can never work, or None when it may."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking._tracking_service.utils import _get_tracking_scheme

    scheme = urlsplit(uri).scheme
    if scheme in ("http", "https"):
        return None if urlsplit(uri).hostname else f"the tracking URI {uri} names no host"
    if scheme.startswith("sqlite"):
        return _why_no_database(uri)
    if scheme in ("", "file"):
        return _why_no_file_store(uri)
    try:
        if _get_tracking_scheme(uri) == "None":
            return f"MLflow knows no tracking store for {scheme}:// ({uri})"
    except MlflowException as error:
        return str(error)
    return None


def _why_no_database(uri: str) -> str | None:
    path = unquote(uri.partition("://")[2].partition("?")[0])[1:]
    if path in ("", ":memory:"):
        return f"the tracking URI {uri} names no database file"
    file = Path(path)
    if not file.parent.is_dir():
        return f"the folder of the tracking database does not exist: {file.parent}"
    if file.is_dir() or (file.exists() and not os.access(file, os.W_OK)):
        return f"the tracking database cannot be written: {file}"
    if not file.exists() and not os.access(file.parent, os.W_OK):
        return f"the folder of the tracking database cannot be written: {file.parent}"
    if file.exists() and file.stat().st_size and file.open("rb").read(16) != b"SQLite format 3\x00":
        return f"not an SQLite database: {file}"
    return None


def _why_no_file_store(uri: str) -> str | None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking._tracking_service.utils import _get_store

    try:
        _get_store(uri)
    except (MlflowException, OSError) as error:
        return f"MLflow refuses the file store {uri}: {str(error).splitlines()[0]}"
    return None


def absolute(uri: str) -> str:
    """The same SQLite store from any working directory."""
    path = uri.removeprefix("sqlite:///")
    if path == uri or path.startswith("/") or path in ("", ":memory:"):
        return uri
    return f"sqlite:///{os.path.abspath(path)}"
