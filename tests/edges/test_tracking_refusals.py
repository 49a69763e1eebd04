"""What an answer of the server's means, asked through MLflow's own client; and values that MLflow would refuse."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.tracking import limits
from mlflow_resilience.tracking.store import prepare_environment
from tests.edges.tracking_tools import Job, until


class Answers(http.server.ThreadingHTTPServer):
    """Gives every request the same answer."""

    status, body, headers = 200, b"{}", {}

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server: Any = self.server
        self.send_response(server.status)
        for name, value in {**server.headers, "Content-Length": str(len(server.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(server.body)

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Answers]:
    server = Answers()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def client(server: Answers) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_RETRIES", "BACKOFF_FACTOR", "BACKOFF_JITTER", "TIMEOUT"):
            patch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", "")
        patch.setenv("MLFLOW_RUN_ID", "")
        for name in ("MLFLOW_ENABLE_ASYNC_LOGGING", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"):
            patch.setenv(name, "")
        prepare_environment()
        import mlflow

        from mlflow_resilience.tracking import retry_after

        retry_after.install()
        yield mlflow.MlflowClient(server.uri)


def error_code(code: str, message: str = "no") -> bytes:
    return f'{{"error_code": "{code}", "message": "{message}"}}'.encode()


@pytest.mark.parametrize(
    ("status", "body", "headers", "meaning", "seconds"),
    [
        (429, b"slow down", {"Retry-After": "7"}, "transient", 7.0),
        (503, b"", {"Retry-After": "2"}, "transient", 2.0),
        (502, b"<html>", {}, "transient", 0.0),
        (500, error_code("INTERNAL_ERROR"), {}, "server_error", 0.0),
        (401, b"who are you", {}, "credentials", 0.0),
        (403, error_code("PERMISSION_DENIED"), {}, "credentials", 0.0),
        (404, error_code("RESOURCE_DOES_NOT_EXIST"), {}, "refused", 0.0),
        (400, error_code("INVALID_PARAMETER_VALUE"), {}, "refused", 0.0),
        (400, error_code("BAD_REQUEST", "UNIQUE constraint failed: metrics.key"), {}, "duplicate", 0.0),
        (400, error_code("BAD_REQUEST", "(sqlite3.OperationalError) database is locked"), {}, "transient", 0.0),
        (413, b"too large", {}, "refused", 0.0),
    ],
)
def test_what_an_answer_means(
    server: Answers, client: Any, status: int, body: bytes, headers: dict[str, str], meaning: str, seconds: float
) -> None:
    """Waited for, given up on, or counted as delivered; a wait that was asked for is known."""
    from mlflow_resilience.tracking.refusals import judge

    server.status, server.body, server.headers = status, body, headers
    with pytest.raises(Exception) as caught:
        client.set_tag("0" * 32, "a", "b")
    refusal = judge(caught.value)
    assert (refusal.meaning, refusal.seconds) == (meaning, seconds), refusal.text


def test_errors_that_are_no_answer() -> None:
    """Nobody listens, a disk is full, a file is missing."""
    import mlflow

    from mlflow_resilience.tracking.refusals import judge

    with pytest.raises(mlflow.exceptions.MlflowException) as caught:
        mlflow.MlflowClient("http://127.0.0.1:9").set_tag("0" * 32, "a", "b")
    assert judge(caught.value).meaning == "transient"
    assert judge(OSError(28, "No space left on device")).meaning == "transient"
    assert judge(FileNotFoundError("gone")).meaning == "refused"
    assert judge(ValueError("no")).meaning == "refused"


def test_refused_credentials_lose_nothing(server: Answers, tmp_path: Path) -> None:
    """With every request refused, all waits on disk for the day that the credentials are right."""
    server.status, server.body, server.headers = 401, b"who are you", {}
    job = Job(tmp_path / "home", server.uri)
    job.start_sender(MLFLOW_RESILIENCE_SENDER_PATIENCE="1")
    until(lambda: job.state.get("state") == "unreachable")
    assert "401" in job.state["message"]
    job.attempt(1)
    job.end()
    assert job.finish() == 3
    assert job.state["cursor"] == 0
    assert job.state["pending"] > 0


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("loss", "loss"),
        ("a (b) [c] 5%#", "a _b_ _c_ 5__"),
        ("a//b/./c", "a/b/c"),
        ("/a", "a"),
        ("../../a", "a"),
        ("", "_"),
        ("batch/Verlust_ä", "batch/Verlust_ä"),
    ],
)
def test_keys(given: str, taken: str) -> None:
    """Mapped to what MLflow takes."""
    from mlflow.utils.validation import _validate_metric_name

    assert limits.key(given) == taken
    _validate_metric_name(limits.key(given))


def test_long_keys_and_values() -> None:
    """Cut, keys so that they stay apart."""
    first, second = limits.key("k" * 300 + "a"), limits.key("k" * 300 + "b")
    assert first != second
    assert len(first) == len(second) == 250
    text, cut = limits.value("v" * 9000, limits.TAG)
    assert (len(text), cut) == (8000, True)
    assert limits.value(None, 5) == ("", False)


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b"])
def test_artifacts_stay_in_the_run(path: str) -> None:
    """A folder that leads out is an error."""
    with pytest.raises(ValueError, match="may not leave"):
        limits.folder(path)


def test_retry_after_forms() -> None:
    """Seconds, a date, or nonsense; never longer than five minutes."""
    from mlflow_resilience.tracking.retry_after import parse

    assert (parse("3"), parse(None), parse("soon"), parse("99999")) == (3.0, 0.0, 0.0, 300.0)
    assert parse("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
