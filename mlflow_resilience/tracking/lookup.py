"""Which earlier job does a new one go on with? The local folders first, then MLflow; one line says which and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking import local_jobs, remote_jobs
from mlflow_resilience.tracking.candidates import Candidate, Question
from mlflow_resilience.tracking.carrying import CARRIED
from mlflow_resilience.tracking.runs import find_experiment
from mlflow_resilience.tracking.state import SenderState

Client = Callable[[], MlflowClient]


class Lookup:
    """Answers one question of one job. ``client`` is only called where the local folders do not suffice."""

    def __init__(self, folder: JobFolder, client: Client, state: SenderState) -> None:
        self._folder, self._client, self._state = folder, client, state
        self._home = folder.path.parent.parent

    def answer(self, question: Question) -> dict[str, Any]:
        """The answer's fields. Errors of MLflow's are raised: whether to wait is the caller's matter."""
        if question.resume == "never":
            return fresh("starting at step 0: resume=never")
        if question.resume == "auto":
            return self._auto(question)
        try:
            found = local_jobs.named(self._home, question.resume) or self._named_remote(question.resume)
        except UsageError as error:
            return refuse(str(error))
        if found is None:
            return refuse(f"there is no run or job {question.resume} to resume from")
        if found.alive and found.job_id != question.own_job:
            return refuse(f"{found.name} is alive: process {found.pid} on {found.host} owns it")
        return self._explicit(found, question)

    def auto_locally(self, question: Question) -> dict[str, Any] | None:
        """What the local folders alone decide; None when MLflow has to be asked."""
        return self._decide(local_jobs.matching(self._home, question), question)

    def _auto(self, question: Question) -> dict[str, Any]:
        if (decided := self.auto_locally(question)) is not None:
            return decided
        decided = self._decide(self._remote(question), question)
        return decided or fresh("starting at step 0: no earlier job with this resume key to go on with")

    def _remote(self, question: Question) -> Iterator[Candidate]:
        client = self._client()
        adopted = self._state.adopted
        if question.own_run and adopted.get("tags", {}).get(local_jobs.KEY_TAG):
            before = remote_jobs.of_tags(question.own_run, adopted["tags"], adopted.get("params", {}))
            if before.matches(question):  # the very run that we were told to go on in
                yield before
        experiment_id = find_experiment(client, question.experiment, question.experiment_id)
        yield from remote_jobs.matching(client, experiment_id, question)

    def _decide(self, candidates: Iterator[Candidate], question: Question) -> dict[str, Any] | None:
        """The first that is neither alive nor an ancestor of a later one decides."""
        ancestors: set[str | None] = set()
        for each in candidates:
            is_ancestor = each.job_id in ancestors or each.run_id in ancestors
            ancestors |= {name for name in each.source if name}
            if each.alive or is_ancestor:
                continue
            if each.finished and question.epochs <= each.epochs:
                return fresh(f"starting at step 0: {each.name} has finished its {each.epochs:g} epochs")
            found = self._with_checkpoint(each)
            if found is not None:
                ends = {"running": "died", "preempted": "was preempted"}
                why = "has more epochs to do" if each.finished else ends.get(each.outcome, "did not finish")
                return self._found(found, f"{each.name} {why}")
        return None

    def _explicit(self, found: Candidate, question: Question) -> dict[str, Any]:
        done = found.finished and question.epochs <= found.epochs
        usable = self._with_checkpoint(found)
        if usable is None and not done:
            return refuse(f"{found.name} has no checkpoint to resume from")
        answer = self._found(usable or found, f"{found.name} was named")
        return {**answer, "nothing_to_do": done}

    def _with_checkpoint(self, found: Candidate, depth: int = 0) -> Candidate | None:
        """The candidate with something to go on from: in its folder, in MLflow, or what it was itself resumed from."""
        if found.step is not None:
            return found
        logged = self._logged(found)
        if logged is not None:
            return logged
        source_job, source_run = found.source
        source = (local_jobs.named(self._home, source_job) if source_job else None) or (
            self._named_remote(source_run) if source_run else None
        )
        if source is None or depth > 20:
            return None
        deeper = self._with_checkpoint(source, depth + 1)
        return None if deeper is None else replace(deeper, lineage=found.lineage)

    def _logged(self, found: Candidate) -> Candidate | None:
        if not found.run_id:
            return None
        client = self._client()
        experiment_id = client.get_run(found.run_id).info.experiment_id
        with_model = remote_jobs.with_checkpoint(client, experiment_id, found)
        return None if with_model.step is None else with_model

    def _named_remote(self, name: str) -> Candidate | None:
        return remote_jobs.named(self._client(), name)

    def _found(self, found: Candidate, why: str) -> dict[str, Any]:
        checkpoints = found.folder.checkpoints if found.folder is not None else None
        if found.model_id is not None and found.step is not None:
            checkpoints = remote_jobs.download(
                self._client(), found.model_id, found.step, self._folder.path / "resumed"
            )
        where = f"the logged model {found.model_id}" if found.model_id else "its checkpoint on this machine"
        carried = self._carry(found)
        return {
            "found": True,
            "from_job": found.job_id,
            "from_run": found.run_id,
            "from_model": found.model_id,
            "from_step": found.step,
            "checkpoint_folder": None if checkpoints is None else str(checkpoints),
            "carried_points_path": str(carried),
            "text": f"resuming from {found.name} at step {found.step}: {why}; from {where}",
            "refused": None,
            "resume_key": found.resume_key,
            "params": found.params,
            "epochs": found.epochs,
            "outcome": found.outcome,
            "lineage": found.lineage,
            "nothing_to_do": False,
        }

    def _carry(self, found: Candidate) -> Path:
        """Where the earlier curve is: here, or in MLflow, where it may be long. The answer does not wait for it."""
        path = self._folder.artifacts / CARRIED
        points_or_run: Any = found.curve or {"run_id": found.run_id}
        atomic.write_bytes(path, json.dumps(points_or_run if found.curve or found.run_id else []).encode())
        return path


def fresh(text: str) -> dict[str, Any]:
    """The answer of a job that begins at step 0."""
    return {"found": False, "from_job": None, "from_run": None, "from_model": None, "from_step": None,
            "checkpoint_folder": None, "carried_points_path": None, "text": text, "refused": None}  # fmt: skip


def refuse(reason: str) -> dict[str, Any]:
    """The answer to a resume that is not possible."""
    return {**fresh(reason), "refused": reason}
