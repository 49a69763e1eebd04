"""``mlflow run <uri> --backend resilience``: any MLflow project, supervised.

MLflow loads this in its own process, which only starts a supervisor. The supervised command is this module again: it
runs the project on MLflow's local backend, in the same run each time, and ends as the project's command ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from mlflow.entities import RunStatus
from mlflow.exceptions import ExecutionException
from mlflow.projects.backend.abstract_backend import AbstractBackend
from mlflow.projects.backend.local import LocalBackend
from mlflow.projects.submitted_run import SubmittedRun
from mlflow.projects.utils import (
    MLFLOW_LOCAL_BACKEND_RUN_ID_CONFIG,
    PROJECT_BUILD_IMAGE,
    PROJECT_DOCKER_ARGS,
    PROJECT_DOCKER_AUTH,
    PROJECT_ENV_MANAGER,
    PROJECT_STORAGE_DIR,
    PROJECT_SYNCHRONOUS,
    fetch_and_validate_project,
    get_or_create_run,
)
from mlflow.tracking import MlflowClient

from mlflow_resilience.cli.supervision import package_path

_MLFLOWS_OWN = {
    MLFLOW_LOCAL_BACKEND_RUN_ID_CONFIG,
    PROJECT_BUILD_IMAGE,
    PROJECT_DOCKER_ARGS,
    PROJECT_DOCKER_AUTH,
    PROJECT_ENV_MANAGER,
    PROJECT_STORAGE_DIR,
    PROJECT_SYNCHRONOUS,
}
_ENDS = {0: RunStatus.FINISHED, 75: RunStatus.KILLED}

#: What --backend-config may hold, and the option of `mlflow-resilience run` that it is.
OPTIONS = {
    "max_attempts": "--max-attempts",
    "grace_seconds": "--grace-seconds",
    "hang_seconds": "--hang-seconds",
    "delivery_seconds": "--delivery-seconds",
    "start_seconds": "--start-seconds",
}

#: And one that is no number: false makes it `--no-recover`.
RECOVER = "recover"


@dataclass(frozen=True)
class Project:
    """What MLflow was asked to run, as JSON can hold it."""

    uri: str
    entry_point: str
    params: Mapping[str, str]
    version: str | None
    config: Mapping[str, Any]
    tracking_uri: str
    experiment_id: str
    run_id: str


class Supervised(SubmittedRun):
    """A project's run that has come to its end."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    @property
    def run_id(self) -> str:
        return self._run_id

    def wait(self) -> bool:
        return True

    def get_status(self) -> str:
        return str(RunStatus.to_string(RunStatus.FINISHED))

    def cancel(self) -> None:
        pass


class ResilienceBackend(AbstractBackend):
    """Restarts a project's command on abnormal ends, in one run, which gets its true final status."""

    def run(
        self,
        project_uri: str,
        entry_point: str,
        params: dict[str, str],
        version: str | None,
        backend_config: Mapping[str, Any],
        tracking_uri: str,
        experiment_id: str,
    ) -> SubmittedRun:
        """Run the project to its end: MLflow neither waits for nor closes the run of a backend of others."""
        options = _options(backend_config)
        config = {key: value for key, value in backend_config.items() if key not in (*OPTIONS, RECOVER)}
        work_dir = fetch_and_validate_project(project_uri, version, entry_point, params)
        known = config.pop(MLFLOW_LOCAL_BACKEND_RUN_ID_CONFIG, None)
        run_id = get_or_create_run(
            known, project_uri, experiment_id, work_dir, version, entry_point, params
        ).info.run_id
        project = Project(project_uri, entry_point, params, version, config, tracking_uri, str(experiment_id), run_id)
        code = _supervise(project, options)
        MlflowClient().set_terminated(run_id, RunStatus.to_string(_ENDS.get(code, RunStatus.FAILED)))
        if code:
            raise ExecutionException(f"Run (ID '{run_id}') ended with exit code {code}")
        return Supervised(run_id)


def _options(config: Mapping[str, Any]) -> list[str]:
    """Of `mlflow-resilience run`; what neither MLflow nor we know is refused, for it may be a misspelt option."""
    unknown = [key for key in config if key not in (*OPTIONS, RECOVER) and key not in _MLFLOWS_OWN]
    if unknown:
        # the one exception of which `mlflow run` makes a line instead of a traceback
        known = ", ".join([*OPTIONS, RECOVER])
        raise ExecutionException(f"backend-config: unknown key {', '.join(unknown)}; known are {known}")
    if (recover := config.get(RECOVER, True)) not in (True, False):
        raise ExecutionException(f"backend-config: {RECOVER}={recover!r}: true or false is needed")
    told = [word for key, option in OPTIONS.items() if key in config for word in (option, str(config[key]))]
    return told if recover else [*told, "--no-recover"]


def _supervise(project: Project, options: list[str]) -> int:
    environ = {
        **os.environ,
        **package_path(),
        "MLFLOW_TRACKING_URI": project.tracking_uri,
        "MLFLOW_EXPERIMENT_ID": project.experiment_id,
    }
    worker = [sys.executable, "-m", "mlflow_resilience.backend", json.dumps(asdict(project))]
    command = [
        sys.executable,
        "-m",
        "mlflow_resilience.cli",
        "run",
        "--run-id",
        project.run_id,
        *options,
        "--",
        *worker,
    ]
    supervisor = subprocess.Popen(command, env=environ)
    while True:
        try:
            return supervisor.wait()
        except KeyboardInterrupt:
            continue  # Ctrl-C reached the supervisor too, and it saves


def work(project: Project) -> int:
    """Run the project once, on MLflow's local backend: how its command ended."""
    config = {**project.config, PROJECT_SYNCHRONOUS: True, MLFLOW_LOCAL_BACKEND_RUN_ID_CONFIG: project.run_id}
    submitted = LocalBackend().run(
        project.uri,
        project.entry_point,
        dict(project.params),
        project.version,
        config,
        project.tracking_uri,
        project.experiment_id,
    )
    signal.signal(signal.SIGTERM, lambda number, _: submitted.command_proc.send_signal(number))
    submitted.wait()
    return int(submitted.command_proc.returncode)


def main() -> NoReturn:
    """End as the project's command ended, by its signal if it was one."""
    code = work(Project(**json.loads(sys.argv[1])))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
