"""A job over rounds, each with an outage, and what the store must hold of it in the end."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import Job, Server, until

Outage = Callable[[int], Callable[[], None]]  # begins the one of this round, and returns what ends it


class Ordeal:
    """One job over rounds, each with an outage; in most of them the sender is killed too. What does not survive a
    round is trained again, as after a crash."""

    def __init__(self, server: Server, place: Path, outage: Outage, seed: int) -> None:
        self.server, self._outage, self._dice = server, outage, random.Random(seed)
        self.job = Job(place / "home", server.uri, params={"epochs": 7}, tags={"resilience.resume_key": "k"})
        self.attempts, self.step, self.rounds = 1, 0, 0
        self.files: dict[str, str] = {}  # path in the run -> digest
        self.models: list[str] = []

    def run(self, rounds: int) -> None:
        job = self.job
        job.start_sender()
        job.run_id()
        job.attempt(1)
        for self.rounds in range(1, rounds + 1):
            self._train()
            until(self.server.is_healthy, 120, "the server is up")
            end_outage = self._outage(self.rounds)
            if self.rounds % 3:
                job.kill_sender()
            self._crash()
            end_outage()
            if job.sender is not None and job.sender.poll() is not None:
                job.start_sender()
        job.end_attempt(self.attempts, "FINISHED", self.step)
        job.end("recovered")
        assert job.finish(150) == 0, job.log()

    def _train(self) -> None:
        """Where the outage falls in what comes of this is the chance under test."""
        job, dice = self.job, self._dice
        for _ in range(dice.randrange(3, 8)):
            job.points(self.attempts, self.step + 1, self.step + 25)
            job.points(self.attempts, self.step + 25, self.step + 25, key="loss")
            self.step += 25
            job.append("gauges", points=[["memory/process_rss_mb", self.step, 1.0, self.step]])
            if dice.random() < 0.5:
                job.checkpoint(self.attempts, self.step)
            job.journal.flush()
            time.sleep(dice.random() * 0.3)
        job.append("params", run="job", params={f"round_{self.rounds}": self.rounds})
        job.append("tags", run="job", tags={f"round_{self.rounds}": f"tag {self.rounds}"})
        self._spool_file(f"file-{self.rounds}.bin", dice.randbytes(dice.randrange(1, 2_000_000)))
        self._spool_model(f"m{self.rounds}", dice.randbytes(dice.randrange(1, 2_000_000)))

    def _spool_file(self, name: str, data: bytes) -> None:
        (self.job.folder.artifacts / name).write_bytes(data)
        self.files[f"resilience/files/{name}"] = hashlib.sha256(data).hexdigest()
        self.job.append("artifact", run="job", path=f"artifacts/{name}", folder="resilience/files")

    def _spool_model(self, local_id: str, data: bytes) -> None:
        folder = self.job.folder.path / "models" / local_id
        (folder / "training_state").mkdir(parents=True)
        (folder / "training_state" / "state.safetensors").write_bytes(data)
        (folder / "model.keras").write_bytes(data[::-1])
        (folder / "model.json").write_text(json.dumps({"requirements": ["keras==3.15.1"]}))
        self.models.append(hashlib.sha256(data).hexdigest())
        fields = {"name": "checkpoint", "attempt": self.attempts, "step": self.step, "epoch": 0, "folder": str(folder)}
        digest = self.models[-1]
        self.job.append(
            "model", local_id=local_id, digest=digest, tags={}, metrics={}, delete_after_upload=True, **fields
        )

    def _crash(self) -> None:
        """The attempt ends after 40 steps that no checkpoint covers, and the next one goes on without them."""
        job = self.job
        job.points(self.attempts, self.step + 1, self.step + 40, shift=1000)
        job.fault(self.attempts, self.rounds, self.step + 40)
        job.end_attempt(self.attempts, "FAILED", self.step + 40)
        job.append("rolled_back", attempt=self.attempts, step=self.step)
        self.attempts += 1
        job.attempt(self.attempts, self.step)

    # -- what the store must hold --

    def check(self) -> None:
        self._check_curves()
        self._check_runs()
        self._check_files()
        self._check_models()
        assert self.job.state["problems"] == []

    def _check_curves(self) -> None:
        database, run_id, last = self.server.database, self.job.run_id(), self.step
        assert tools.steps(database, run_id, "batch/loss") == list(range(1, last + 1))
        values = tools.rows(database, "select max(value) from metrics where run_uuid=? and key='batch/loss'", run_id)
        assert values == [(1.0,)], "a point of a lost trajectory is on the job's curve"
        assert tools.steps(database, run_id, "loss") == list(range(25, last + 1, 25))
        assert tools.steps(database, run_id, "memory/process_rss_mb") == list(range(25, last + 1, 25))

    def _check_runs(self) -> None:
        database, run_id = self.server.database, self.job.run_id()
        found = tools.tags(database, run_id)
        assert (found["resilience.outcome"], found["resilience.attempts"]) == ("recovered", str(self.attempts))
        assert found["resilience.faults"] == str(self.attempts - 1)
        rounds = range(1, self.rounds + 1)
        assert [found[f"round_{number}"] for number in rounds] == [f"tag {number}" for number in rounds]
        params = {"epochs": "7", **{f"round_{number}": str(number) for number in rounds}}
        assert tools.params(database, run_id) == params
        assert tools.status(database, run_id) == "FINISHED"
        query = "select t.value from tags t join runs r on r.run_uuid = t.run_uuid where r.lifecycle_stage = 'active'"
        mine = f"{self.job.folder.job_id}%"
        runs = tools.rows(database, f"{query} and t.key = 'resilience.local_id' and t.value like ?", mine)
        assert len(runs) == len(set(runs)) == self.attempts + 1, "a run was made twice"
        for number, child in tools.children(database, run_id).items():
            assert tools.status(database, child) == ("FINISHED" if number == self.attempts else "FAILED")
            assert tools.params(database, child) == {"accumulation": "1"}
            seen = tools.steps(database, child, "batch/loss")
            assert all(a < b for a, b in itertools.pairwise(seen)), "a point of an attempt was doubled"

    def _check_files(self) -> None:
        folder = next((self.server.folder / "artifacts").rglob(f"{self.job.run_id()}/artifacts"))
        there = {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in self.files}
        assert there == self.files, "an artifact is not whole"
        assert "resilience/attempts.json" in tools.artifacts(folder)
        assert len(list(folder.glob("resilience/exceptions/attempt-*.txt"))) == self.attempts - 1
        events = [json.loads(line) for line in (folder / "resilience/events.jsonl").read_text().splitlines()]
        assert [event["kind"] for event in events].count("job_ended") == 1

    def _check_models(self) -> None:
        query = "select model_id, status from logged_models where source_run_id = ? and lifecycle_stage = 'active'"
        found = dict(tools.rows(self.server.database, query, self.job.run_id()))
        assert set(found.values()) == {2}, "a model is not READY"
        states = (self.server.folder / "artifacts").rglob("training_state/state.safetensors")
        whole = {_model_of(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in states}
        assert sorted(whole[model] for model in found) == sorted(self.models)


def _model_of(path: Path) -> str:
    return next(part for part in path.parts if part.startswith("m-"))
