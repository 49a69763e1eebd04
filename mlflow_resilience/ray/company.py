"""One rank among others: what it agrees on with them."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from mlflow_resilience.core.fault import Fault
from mlflow_resilience.job import Job
from mlflow_resilience.ray.collective import Collective
from mlflow_resilience.ray.notices import BROKEN, DONE, Notices
from mlflow_resilience.ray.trainer import RankTrainer
from mlflow_resilience.resuming import NothingToDo
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.stop import StopRequests
from mlflow_resilience.training import checkpoint, microbatch
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.state import TrainingState

_LOOK_SECONDS = 0.1


@dataclass(kw_only=True)
class Company:
    """Implements `Together` over notices and TensorFlow's collectives. ``folder`` is the job's own in every rank."""

    rank: int
    size: int
    notices: Notices
    folder: JobFolder
    job: Job
    collective: Collective = field(init=False)

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    def connect(self) -> None:
        addresses = [self.wait_for(f"rank-{rank}-start")["address"] for rank in range(self.size)]
        task = {"type": "worker", "index": self.rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        self.collective = Collective(self.rank, self.size)

    def attach(self, model: Any) -> None:
        self.collective.attach(model)
        why = microbatch.changes_result(model)
        if self.is_chief and self.size > 1 and why is not None and not self.job.log().attempt:
            text = f"each batch in {self.size} pieces, one a worker: {why}"
            self.job.journal.append("semantic_change", step=0, text=text)

    def start(self, find: Callable[[], TrainingState | None], checkpoints: Path) -> TrainingState | None:
        if self.is_chief:
            found = find()
            path = checkpoint.complete(checkpoints)[-1] if found is not None else None
            self.notices.tell("begin", checkpoint=None if path is None else str(path))
            return found
        path = self.wait_for("begin")["checkpoint"]
        if path is not None:
            checkpoint.adopt(Path(path), checkpoints)
        return find()

    def stop_asked(self, stop: StopRequests) -> str | None:
        asked = stop.asked or self.folder.read_stop()
        if asked:
            self.collective.asked.assign(1.0)
        return (asked or "SIGTERM") if float(self.collective.agreed.numpy()) else None

    def trainer(self, plan: Plan, ports: Ports, fit: Callable[..., Any]) -> RankTrainer:
        return RankTrainer(plan, ports, fit, is_chief=self.is_chief, broken=self._leave)

    def broken(self, fault: Fault) -> int:
        self.notices.tell_of_rank(self.rank, "fault", fault=fault.redacted().to_dict())
        return BROKEN

    def wait_for(self, name: str) -> dict[str, Any]:
        """A notice; whoever watches us ends the wait where one of the ranks is gone. NothingToDo where the chief is
        done already."""
        while (told := self.notices.told(name)) is None:
            if name != DONE and self.notices.told(DONE) is not None:
                raise NothingToDo("the chief is done")
            time.sleep(_LOOK_SECONDS)
        return told

    def _leave(self, error: BaseException, fault: Fault) -> NoReturn:
        """At once: a collective that others have left cannot be taken down."""
        code = self.broken(fault)
        traceback.print_exception(error)
        self.job.journal.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
