"""Where a job goes on: from its own checkpoints, from those of an earlier job, or from the start."""

from __future__ import annotations

import itertools
import time
import uuid
from pathlib import Path
from typing import Any

from mlflow_resilience.errors import CheckpointError, UsageError
from mlflow_resilience.fits import Turn
from mlflow_resilience.job import Job
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.journal import read
from mlflow_resilience.training import checkpoint, completed
from mlflow_resilience.training.identity import resume_key
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.state import TrainingState, check, optimizers

_ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_FIRST = Turn()
_STARTED = "start"  # the event of a job that goes on with no other


class NothingToDo(Exception):
    """The job that is to be gone on with has finished, and no more epochs are asked for."""


class Resuming:
    """Finds the training state that a job starts from. Asked once, when model and optimiser are whole."""

    def __init__(
        self, job: Job, keeper: Keeper, plan: Plan, resume: str, identity: dict[str, Any], turn: Turn = _FIRST
    ) -> None:
        self._job, self._keeper, self._plan = job, keeper, plan
        self._resume, self._identity, self._turn = resume, identity, turn
        self._reading: Path | None = None  # of an earlier job
        self._left_out: set[Path] = set()

    def take_older(self) -> None:
        """The newest checkpoint cannot be read, and is not waited for any longer: `find` is to take the one before."""
        if self._reading is None:
            self._keeper.set_newest_aside()
            return
        self._left_out.add(self._reading)  # another job's stays where it is
        self._say(f"checkpoint {self._reading.name} of the earlier job cannot be read", "checkpoint_unreadable")

    def find(self) -> TrainingState | None:
        """The state to go on from; None for a fresh start.

        Raises UsageError when a job that was named cannot be gone on with, NothingToDo when it has finished; OSError or
        MemoryError where a checkpoint cannot be read just now.
        """
        self._reading = None
        own = self._keeper.newest()
        if own is not None:
            self._refuse_another_model(own)
            return own
        if self._turn.index:  # the job's first fit has settled, for all of them, what they go on from
            return None
        key = resume_key(self._plan.model, self._plan.training, self._plan.validation, **self._identity)
        self._job.journal.append("tags", run="job", tags={"resilience.resume_key": key})
        if self._resume == "never" or self._has_begun_afresh():
            return None
        answer = self._ask(key)
        if answer.get("refused"):
            raise UsageError(f"resume={self._resume}: {answer['refused']}")
        if answer.get("nothing_to_do"):
            raise NothingToDo(str(answer.get("text")))
        if not answer.get("found"):
            self._say(str(answer.get("text") or "starting at step 0"))
            return None
        return self._take_over(answer)

    def _ask(self, key: str) -> dict[str, Any]:
        request = uuid.uuid4().hex[:12]
        self._job.journal.append(
            "ask",
            durable=True,
            request=request,
            question="resume",
            resume=self._resume,
            resume_key=key,
            epochs=self._plan.epochs,
        )
        path = self._job.folder.answers / f"{request}.json"
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            answer = atomic.read_json(path)
            if isinstance(answer, dict):
                return answer
            time.sleep(_LOOK_SECONDS)
        return {"found": False, "text": "starting at step 0: nobody answered whether there is an earlier job"}

    def _take_over(self, answer: dict[str, Any]) -> TrainingState | None:
        """Make the newest intact checkpoint of the earlier job the first of this one."""
        source = Path(answer["checkpoint_folder"])
        for path in reversed(checkpoint.complete(source)):
            if path in self._left_out:
                continue
            self._reading = path
            try:
                state = checkpoint.read(path)
            except CheckpointError as error:
                self._say(f"checkpoint {path.name} of the earlier job is damaged: {error}", "checkpoint_unreadable")
                continue  # it is another job's: left where it is
            self._refuse_another_model(state)
            if state.meta["first_step"] != self._plan.first_step:
                self._say("starting at step 0: what is left of the earlier job is of a later fit, and not of the first")
                return None
            checkpoint.adopt(path, self._job.folder.checkpoints)
            step = int(state.meta["position"]["global_step"])
            self._tell_other_parameters(answer.get("params") or {}, step)
            text = str(answer.get("text") or f"going on from step {step}")
            text += (
                f"; from step {step}, since what is later cannot be read"
                if step < (answer.get("from_step") or 0)
                else ""
            )
            later = self._take_over_later_fits(source)
            text += "" if later is None else f"; its complete fits are passed by, on to step {later}"
            step = step if later is None else later
            self._job.journal.append(
                "resumed",
                durable=True,
                from_job=answer.get("from_job"),
                from_run=answer.get("from_run"),
                from_model=answer.get("from_model"),
                from_step=step,
                text=text,
            )
            for changed, what in state.meta.get("changes", ()):  # by the earlier job: it is in the weights
                self._job.journal.append("semantic_change", step=min(int(changed), step), text=str(what))
            return state
        self._say("starting at step 0: no checkpoint of the earlier job can be read")
        return None

    def _take_over_later_fits(self, source: Path) -> int | None:
        """Of a script with several fits: the ends of those that were complete, and the newest state of the one after
        them. The step that it goes on from, if any fit was complete."""
        reached = None
        if completed.find(source, self._plan) is None:
            return None
        for index in itertools.count():
            turn = Turn(index=index)
            theirs, ours = turn.checkpoints(source), turn.checkpoints(self._job.folder.checkpoints)
            newest = checkpoint.complete(theirs)[-1:] if index else []
            ended = completed.paths(theirs)[-1:]
            for path, folder in [(path, ours) for path in newest] + [(path, ours / completed.FOLDER) for path in ended]:
                checkpoint.adopt(path, folder)
                reached = checkpoint.named_position(path).global_step
            if not ended:
                break
        return reached

    def _tell_other_parameters(self, before: dict[str, Any], step: int) -> None:
        """A job that was named may be gone on with by other parameters; what that means is written down."""
        effects = {  # the learning rate is told with the optimiser that has it
            "batch_size": "the batches done in this epoch count as they were",
            "seed": "the random state goes on from the one before",
        }
        for name, effect in effects.items():
            old, new = before.get(name), self._identity.get(name)
            if old is not None and new is not None and str(old) != str(new):
                text = f"{name} {old} -> {new} from step {step + 1}, by the caller: {effect}"
                self._job.journal.append("semantic_change", step=step + 1, text=text)

    def _refuse_another_model(self, state: TrainingState) -> None:
        """Said before training: later it would count as a damaged checkpoint, and cost the good ones."""
        model = self._plan.model
        if not model.built or not all(optimizer.built for optimizer in optimizers(model)):
            return
        try:
            check(model, state.tensors)
        except CheckpointError as error:
            raise UsageError(f"resume={self._resume}: {error}") from error

    def _has_begun_afresh(self) -> bool:
        """Whether an earlier process of the job has settled that it goes on with no other: faults before that, of
        this process or of an earlier one, do not settle it."""
        self._job.journal.flush()
        entries = (entry for entry, _ in read(self._job.folder.journal))
        return any(entry.get("kind") == "event" and entry.get("name") == _STARTED for entry in entries)

    def _say(self, text: str, name: str = _STARTED) -> None:
        self._job.journal.append("event", name=name, attempt=0, step=0, text=text, data={})
