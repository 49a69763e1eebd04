"""The guide to a team's server: its commands are run, against a PostgreSQL in a temporary folder."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edges import postgres as databases
from tests.edges import tracking_tools as tools
from tests.edges.main_job import ROOT, environ
from tests.edges.postgres import Postgres
from tests.edges.tracking_tools import until

GUIDE = (ROOT / "docs" / "guides" / "team-server.md").read_text()
NOT_HERE = ("apt-get ", "adduser ")


def block(name: str) -> str:
    """The guide's commands of this name."""
    (found,) = re.findall(rf"^```sh {name}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_unit_serves_as_the_command_does() -> None:
    """Word for word, but for the quotes that only a shell needs."""
    (unit,) = re.findall(r"^```ini\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    assert shlex.split(parser["Service"]["ExecStart"]) == shlex.split(block("serve").replace("\\\n", " "))


class Site:
    """The guide's server, with this machine's places in the place of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = Postgres(database="")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.database = f"postgresql://mlflow@/mlflow?host={self.postgres.folder}"

    def here(self, text: str) -> str:
        """Its commands as they are to be run here."""
        python = shlex.quote(sys.executable)
        for theirs, ours in {
            "/srv/mlflow/venv/bin/mlflow": f"{python} -m mlflow",
            "/srv/mlflow": str(self.folder),
            "/var/run/postgresql": str(self.postgres.folder),
            "0.0.0.0": "127.0.0.1",
            "mlflow.example": "127.0.0.1",
            "5000": str(self.port),
            "mlflow-resilience ": f"{python} -m mlflow_resilience.cli ",
        }.items():
            text = text.replace(theirs, ours)
        return re.sub(r"^mlflow-resilience$", f"{python} -m mlflow_resilience.cli", text, flags=re.MULTILINE)

    def environ(self) -> dict[str, str]:
        mine = {**environ(), "PGHOST": str(self.postgres.folder), "PGUSER": "mlflow"}
        path = os.pathsep.join([self.postgres.environ["PATH"], mine["PATH"]])
        return {**mine, "PATH": path, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}

    def shell(self, name: str) -> str:
        """Run the commands of this name to their end; what they said."""
        done = subprocess.run(
            ["bash", "-euc", self.here(block(name))], cwd=self.folder, env=self.environ(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def set_up(self) -> None:
        for line in block("setup").splitlines():
            if not line.startswith(NOT_HERE):
                (command,) = re.findall(r"^su postgres -c '(.*)'$", line)
                self.postgres.call(*shlex.split(command))

    def serve(self) -> subprocess.Popen[bytes]:
        command = "exec " + self.here(block("serve"))
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", command], env=self.environ(), stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    site.set_up()
    server = site.serve()
    probe = tools.Server(site.folder / "probe")
    probe.uri = site.uri
    try:
        until(probe.is_healthy, 180, "the server is up")
        yield site
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        site.postgres.remove()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_guides_commands(site: Site) -> None:
    """A training on that server; nothing waits for it; and its backup restores."""
    assert "see: " + site.uri in site.shell("train")
    assert site.shell("sync") == "nothing waits\n"
    database = site.database
    ((run_id, status),) = databases.rows(
        database,
        "select r.run_uuid, r.status from runs r join tags t on t.run_uuid = r.run_uuid "
        "where t.key = 'resilience.outcome'",
    )
    assert status == "FINISHED"
    assert tools.steps(database, run_id, "loss") == [45, 90]
    site.shell("backup")
    site.postgres.call("createdb", "restored")
    site.postgres.call("pg_restore", "--no-owner", "--dbname=restored", _readable(site))
    restored = database.replace("/mlflow?", "/restored?").replace("mlflow@", "postgres@")
    count = "select count(*) from metrics"
    assert databases.rows(restored, count) == databases.rows(database, count)
    with tarfile.open(site.folder / "artifacts.tar") as archive:
        assert any(name.endswith(f"{run_id}/artifacts/resilience/report.html") for name in archive.getnames())


def _readable(site: Site) -> Path:
    """The dump where the user postgres may read it."""
    copy = site.postgres.folder / "backup.dump"
    copy.write_bytes((site.folder / "backup.dump").read_bytes())
    copy.chmod(0o644)
    return copy
