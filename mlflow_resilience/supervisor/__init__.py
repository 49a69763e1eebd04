"""The parent of the training process: restarts it, stops it in order, and judges it when it ends without a word.

On the standard library alone, so that it starts at once, stays small, and cannot fail as its worker does.
"""

from mlflow_resilience.supervisor.hang import Limits
from mlflow_resilience.supervisor.plan import Plan
from mlflow_resilience.supervisor.supervise import Result, supervise
from mlflow_resilience.supervisor.view import NoView, View

__all__ = ["Limits", "NoView", "Plan", "Result", "View", "supervise"]
