"""What an error of MLflow's means for what is to be sent: wait, give up on it, or count it as delivered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import requests
from mlflow.exceptions import InvalidUrlException, MlflowException, RestException

from mlflow_resilience.tracking import retry_after

Meaning = Literal["transient", "server_error", "credentials", "refused", "duplicate"]

_CODES: dict[str, Meaning] = {
    "TEMPORARILY_UNAVAILABLE": "transient",
    "REQUEST_LIMIT_EXCEEDED": "transient",
    "RESOURCE_EXHAUSTED": "transient",
    "DEADLINE_EXCEEDED": "transient",
    "ABORTED": "transient",
    "CANCELLED": "transient",
    "INTERNAL_ERROR": "server_error",
    "UNAUTHENTICATED": "credentials",
    "CUSTOMER_UNAUTHORIZED": "credentials",
    "PERMISSION_DENIED": "credentials",
    "RESOURCE_ALREADY_EXISTS": "duplicate",
}
_BUSY = re.compile(r"database is locked|deadlock|could not serialize|too many connections|timed? ?out", re.IGNORECASE)
_DUPLICATE = re.compile(r"unique constraint|duplicate (key|entry)|already exists", re.IGNORECASE)
_SECONDS = "_mlflow_resilience_seconds"  # where an error carries them: they are taken from the request once
_STATUS = re.compile(r"(?:failed with error code|too many|\b(?=\d{3} (?:Client|Server) Error)) ?(\d{3})")


@dataclass(frozen=True)
class Refusal:
    """``seconds`` is how long the server asked us to wait."""

    meaning: Meaning
    text: str
    seconds: float = 0.0


def judge(error: BaseException) -> Refusal:
    """What the error means. It may be asked again on the error's way up."""
    text = str(error).strip() or type(error).__name__
    if _SECONDS not in error.__dict__:
        error.__dict__[_SECONDS] = retry_after.take()
    return Refusal(_meaning(error, text), text, error.__dict__[_SECONDS])


def _meaning(error: BaseException, text: str) -> Meaning:
    if isinstance(error, InvalidUrlException):
        return "refused"
    if isinstance(error, MlflowException):
        return _of_mlflow(error, text)
    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return _of_status(error.response.status_code)
    if isinstance(error, requests.exceptions.RequestException | ConnectionError | TimeoutError):
        return "transient"
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | IsADirectoryError):
        return "refused"
    if isinstance(error, OSError):
        return "transient"  # a full disk, a stale mount
    return "transient" if _BUSY.search(text) else "refused"


def _of_mlflow(error: Any, text: str) -> Meaning:
    if match := _STATUS.search(text):
        return _of_status(int(match.group(1)))
    if not isinstance(error, RestException) and text.startswith("API request to"):
        return "transient"  # no answer: connection refused, reset, timed out
    if _BUSY.search(text):
        return "transient"
    if _DUPLICATE.search(text):
        return "duplicate"
    return _CODES.get(error.error_code, "refused")


def _of_status(status: int) -> Meaning:
    if status in (401, 403):
        return "credentials"
    if status in (408, 425, 429, 502, 503, 504):
        return "transient"
    return "server_error" if status >= 500 else "refused"
