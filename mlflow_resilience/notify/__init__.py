"""Tells somebody outside that a job has stopped, was preempted, or changed its result; training never waits for it.

A command or a URL is told by the sender's process, whoever ended the job; a Python function by the process that trains.
"""

from __future__ import annotations

from mlflow_resilience.notify.arming import arm
from mlflow_resilience.notify.calling import Caller, caller
from mlflow_resilience.notify.following import following

__all__ = ["Caller", "arm", "caller", "following"]
