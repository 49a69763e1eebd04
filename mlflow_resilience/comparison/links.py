"""Addresses of pages of MLflow's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from mlflow_resilience.comparison.page import Places
from mlflow_resilience.comparison.values import ComparedRun

_MOST_COMPARED = 50  # a longer address is refused by some browsers


def places(tracking_uri: str, runs: Sequence[ComparedRun], opened_by: str) -> Places:
    """Deep links where the store is a server; else only the command that opens it."""
    server = base(tracking_uri)
    if not server:
        return Places(opened_by=opened_by)
    found = {run.run_id: f"{server}/#/experiments/{run.experiment_id}/runs/{run.run_id}" for run in runs}
    return Places(found, _compare(server, runs), opened_by)


def base(tracking_uri: str) -> str:
    """The server's address without name and password, or nothing where it is none."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def _compare(server: str, runs: Sequence[ComparedRun]) -> str:
    if not 2 <= len(runs) <= _MOST_COMPARED:
        return ""
    ids = quote(json.dumps([run.run_id for run in runs]))
    experiments = quote(json.dumps(list(dict.fromkeys(run.experiment_id for run in runs))))
    return f"{server}/#/compare-runs?runs={ids}&experiments={experiments}"
