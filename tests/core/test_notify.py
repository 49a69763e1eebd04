"""Who is told of a stop, a preemption or a changed result: in time, in a few words, and never at training's cost."""

from __future__ import annotations

import json
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import UsageError
from mlflow_resilience.listening import Listening
from mlflow_resilience.notify import Caller, arm, caller, following
from mlflow_resilience.notify.arming import ENVIRONMENT, armed
from mlflow_resilience.notify.notices import Notices
from mlflow_resilience.notify.sending import NotTold, send
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.journal import Journal, read

NOTICE = {"format": 1, "event": "stop", "text": "enough"}
FAULT = {"kind": "fault", "failure_class": "bad_data", "fault": {"position": {"global_step": 7}}}


def writes(path: Path) -> list[str]:
    """A command that puts what it is told into a file, a line each."""
    code = f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read() + '\\n')"
    return [sys.executable, "-c", code]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder.create(tmp_path)


@pytest.fixture
def journal(folder: JobFolder) -> Iterator[Journal]:
    journal = folder.open_journal()
    yield journal
    journal.close()


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def failures(folder: JobFolder) -> list[str]:
    return [entry["text"] for entry, _ in read(folder.journal) if entry.get("name") == "notify_failed"]


def heard(journal: Journal, function: Callable[[dict[str, Any]], object]) -> Caller:
    listening = caller(journal, function, job_id="j", run_id=None)
    assert listening is not None
    return listening


@pytest.mark.parametrize(
    ("entry", "within", "event"),
    [
        ({"kind": "job_ended", "outcome": "failed"}, False, "stop"),
        ({"kind": "job_ended", "outcome": "preempted"}, False, "preemption"),
        ({"kind": "job_ended", "outcome": "clean"}, False, None),
        ({"kind": "job_ended", "outcome": "failed"}, True, None),
        ({"kind": "decision", "verdict": "stop"}, True, "stop"),
        ({"kind": "decision", "verdict": "leave"}, True, "preemption"),
        ({"kind": "decision", "verdict": "continue"}, True, None),
        ({"kind": "decision", "verdict": "stop"}, False, None),
        ({"kind": "semantic_change", "step": 7, "text": "x"}, False, "semantic_change"),
        ({"kind": "points"}, False, None),
    ],
)
def test_what_is_worth_a_notice(entry: dict[str, Any], within: bool, event: str | None) -> None:
    """From outside the job's last entry, from within the decision; never both."""
    notice = Notices(within=within).add(entry)
    assert (notice and notice["event"]) == event


def test_a_notice_says_what_where_and_of_which_job_without_secrets() -> None:
    """The documented keys, and no others."""
    notices = Notices()
    for entry in ({"kind": "header", "job_id": "j"}, {"kind": "job", "run_id": "r"}, FAULT):
        assert notices.add(entry) is None
    notice = notices.add({"kind": "job_ended", "outcome": "failed", "text": "password=hunter2hunter2", "time": 5.0})
    assert notice == {
        "format": 1,
        "event": "stop",
        "job_id": "j",
        "run_id": "r",
        "failure_class": "bad_data",
        "step": 7,
        "text": "password=[redacted]",
        "time": 5.0,
    }


def test_a_change_that_is_made_again_after_a_roll_back_is_told_once() -> None:
    """The same step and text say nothing new."""
    notices, change = Notices(), {"kind": "semantic_change", "step": 3, "text": "left out"}
    assert notices.add(change) is not None
    assert notices.add(change) is None
    assert notices.add({**change, "step": 4}) is not None


def test_a_command_gets_json_and_no_shell(tmp_path: Path) -> None:
    """What a shell would take for more than words is a word."""
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.stdin.read())"
    send({"command": [sys.executable, "-c", code, str(tmp_path / "out"), "; rm -rf $HOME"]}, NOTICE)
    assert (tmp_path / "out").read_text() == "; rm -rf $HOME" + json.dumps(NOTICE)


@pytest.mark.parametrize(
    ("code", "why"), [("raise SystemExit(3)", "ended with 3"), ("import time; time.sleep(60)", "longer than 0.5 s")]
)
def test_a_command_that_fails_or_never_ends(code: str, why: str) -> None:
    """It is ended with all that it started, and it is said why."""
    begun = time.monotonic()
    with pytest.raises(NotTold, match=why):
        send({"command": [sys.executable, "-c", code]}, NOTICE, seconds=0.5 if "sleep" in code else 30)
    assert time.monotonic() - begun < 30


class Server:
    """A server that keeps what is posted to it."""

    def __init__(self, answer: int, hold: threading.Event | None = None) -> None:
        self.posted: list[Any] = []
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                if hold is not None:
                    hold.wait(20)
                self.send_response(answer)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/secret"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(*args: Any) -> Server:
        servers.append(Server(*args))
        return servers[-1]

    yield make
    for server in servers:
        server.http.shutdown()
        server.http.server_close()


def test_a_url_gets_json_by_post(serve: Callable[..., Server]) -> None:
    server = serve(200)
    send({"url": server.url}, NOTICE)
    assert server.posted == [NOTICE]


def test_a_url_that_refuses_hangs_or_is_not_there(serve: Callable[..., Server]) -> None:
    """Said without the address, which may be a secret, and within the time limit."""
    with pytest.raises(NotTold, match="answered 500") as refused:
        send({"url": serve(500).url}, NOTICE)
    held = threading.Event()
    with pytest.raises(NotTold, match="cannot be reached") as silent:
        send({"url": serve(200, held).url}, NOTICE, seconds=0.5)
    held.set()
    with pytest.raises(NotTold, match="cannot be reached"):
        send({"url": "http://127.0.0.1:9/secret"}, NOTICE)
    assert "secret" not in f"{refused.value}{silent.value}"


def test_beside_the_sender_each_notice_is_sent_once(folder: JobFolder, journal: Journal, tmp_path: Path) -> None:
    """Whoever ends the job; and a sender that begins again does not repeat what is told."""
    arm(folder, writes(tmp_path / "out"))
    journal.append("semantic_change", step=3, text="one", durable=True)
    with following(folder):
        journal.append("job_ended", outcome="failed", text="two", durable=True)
    with following(folder):
        pass
    assert [each["text"] for each in told(tmp_path / "out")] == ["one", "two"]
    assert failures(folder) == []


def test_a_failure_is_recorded_once(folder: JobFolder, journal: Journal) -> None:
    """Two notices that do not get through leave one event."""
    arm(folder, [sys.executable, "-c", "raise SystemExit(3)"])
    journal.append("semantic_change", step=3, text="one")
    journal.append("semantic_change", step=4, text="two", durable=True)
    with following(folder):
        pass
    assert failures(folder) == ["notify: the command ended with 3"]


def test_nobody_but_the_owner_may_read_whom_the_job_tells(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's word, or else the environment's."""
    arm(folder, None)
    assert armed(folder) is None
    monkeypatch.setenv(ENVIRONMENT, "https://example.org/hook")
    arm(folder, None)
    assert armed(folder) == {"url": "https://example.org/hook"}
    arm(folder, "true --flag 'two words'")
    assert armed(folder) == {"command": ["true", "--flag", "two words"]}
    assert stat.S_IMODE((folder.path / "notify.json").stat().st_mode) == 0o600


def test_a_function_is_called_and_training_does_not_wait(journal: Journal, folder: JobFolder) -> None:
    """A call that never ends costs the end of training its limit, and is recorded."""
    called, release = threading.Event(), threading.Event()

    def slow(notice: dict[str, Any]) -> None:
        called.set()
        release.wait(20)

    listening = heard(journal, slow)
    begun = time.monotonic()
    listening({"kind": "decision", "verdict": "stop", "text": "enough"})
    assert time.monotonic() - begun < 10  # it would have waited 20
    assert called.wait(10)
    listening.close(0.1)
    release.set()
    journal.flush()
    assert failures(folder) == ["notify: the function took longer than 0.1 s"]


def test_a_function_that_raises_is_recorded_once(journal: Journal, folder: JobFolder) -> None:
    """It is called again all the same."""
    seen: list[str] = []

    def broken(notice: dict[str, Any]) -> None:
        seen.append(notice["event"])
        raise ValueError("no")

    listening = heard(journal, broken)
    listening({"kind": "semantic_change", "step": 1, "text": "x"})
    listening({"kind": "decision", "verdict": "leave", "text": "y"})
    listening.close()
    journal.flush()
    assert seen == ["semantic_change", "preemption"]
    assert failures(folder) == ["notify: the function raised ValueError: no"]


@pytest.mark.parametrize("notify", ["", "no-such-program-here x", "'open", "https://", 7, []])
def test_what_can_notify_nobody_is_refused(notify: Any) -> None:
    """Before anything starts."""
    with pytest.raises(UsageError, match="notify"):
        Policy(notify=notify)


def test_as_a_parameter_it_is_checked_and_kept_out_of_the_journal() -> None:
    """It may hold a secret."""
    parameters = Parameters.from_text({"notify": "https://example.org/hook"})
    assert parameters.rules().notify == "https://example.org/hook"
    assert "notify" not in parameters.to_dict()
    assert Parameters.from_text({"notify": "none"}).rules().notify is None
    with pytest.raises(UsageError, match=r"^notify: ") as refused:
        Parameters.from_text({"notify": "https:///token"})
    assert "token" not in str(refused.value)


def test_a_listener_that_fails_is_left_out_and_said(journal: Journal, folder: JobFolder) -> None:
    """Whoever listens to a fit's journal cannot harm the fit."""
    heard: list[str] = []

    def broken(entry: dict[str, Any]) -> None:
        heard.append(entry["kind"])
        raise KeyError("x")

    listening = Listening(journal)
    listening.add(broken)
    listening.append("attempt", attempt=1)
    listening.append("attempt_ended", attempt=1)
    journal.flush()
    assert heard == ["attempt"]
    assert [entry["name"] for entry, _ in read(folder.journal) if entry["kind"] == "event"] == ["listener_failed"]
