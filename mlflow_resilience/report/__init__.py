"""The page that answers in a minute: what went wrong, what was done, is the result still good?"""

from mlflow_resilience.report.page import render

__all__ = ["render"]
