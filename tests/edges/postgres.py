"""A PostgreSQL of a test's own, from the Debian package, on a socket in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest


def programs() -> Path | None:
    """Where `initdb` and the others are; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda path: float(path.parent.name), default=None)


def needed() -> Path:
    """Where its programs are; the test is skipped, with a word that says why, where they or the driver are not."""
    pytest.importorskip("psycopg2", reason="the driver psycopg2 is not installed")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed on this machine (Debian: apt install postgresql)")
    if os.geteuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return folder


class Postgres:
    """One cluster with an empty database, started; as root it belongs to the user postgres."""

    def __init__(self, database: str = "mlflow") -> None:
        self._programs = needed()
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        try:
            self.call("initdb", "--no-sync", "--auth=trust", "--username=postgres", "-D", self._data)
            self.start()
            if database:
                self.call("createdb", database)
        except BaseException:
            self.remove()
            raise
        self.uri = f"postgresql+psycopg2://postgres@/{database}?host={self.folder}"

    @property
    def environ(self) -> dict[str, str]:
        """With which its client programs find it."""
        path = os.pathsep.join([str(self._programs), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PGHOST": str(self.folder), "PGUSER": "postgres"}

    def call(self, program: str, *arguments: Any) -> None:
        """Run one of its programs to its end."""
        user: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        command = [str(self._programs / program), *map(str, arguments)]
        with (self.folder / "called.log").open("ab") as log:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": self.folder, "timeout": 60}
            done = subprocess.run(command, env=self.environ, **quiet, **user)
        assert done.returncode == 0, (self.folder / "called.log").read_text()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self.call("pg_ctl", "-D", self._data, "-w", "-o", options, "-l", self.folder / "log", "start")

    def stop(self) -> None:
        """At once, as a crash."""
        self.call("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def remove(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def rows(uri: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Straight from the store's tables."""
    import psycopg2

    with (
        contextlib.closing(psycopg2.connect(uri.replace("+psycopg2", "", 1))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(query.replace("%", "%%").replace("?", "%s"), values)
        return list(cursor.fetchall())
