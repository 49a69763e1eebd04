"""One notice to a command or a URL, within a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

SECONDS = 10.0  # that one notice may take


class NotTold(Exception):
    """The notice did not get through; the text says why, without the address, which may be a secret."""


def send(target: Mapping[str, Any], notice: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Give the notice as JSON: to a command on its standard input, to a URL by POST. Raises NotTold."""
    data = json.dumps(notice, ensure_ascii=False).encode()
    if target.get("url"):
        _post(str(target["url"]), data, seconds)
    else:
        _run([str(part) for part in target["command"]], data, seconds)


def _post(url: str, data: bytes, seconds: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "mlflow-resilience"}
    request = urllib.request.Request(url, data=data, headers=headers, method="POST")
    try:
        urllib.request.urlopen(request, timeout=seconds).close()
    except urllib.error.HTTPError as error:
        raise NotTold(f"the URL answered {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotTold(f"the URL cannot be reached ({type(reason).__name__})") from None


def _run(command: Sequence[str], data: bytes, seconds: float) -> None:
    nowhere = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    except OSError as error:
        raise NotTold(f"the command cannot be started ({error.strerror})") from None
    try:
        process.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NotTold(f"the command took longer than {seconds:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()
    if process.returncode:
        raise NotTold(f"the command ended with {process.returncode}")
