"""Figures of a job, by matplotlib's object interface: no pyplot, no global backend, no display."""

from mlflow_resilience.plots.curves import training_curves, training_curves_svg
from mlflow_resilience.plots.memory import memory, memory_svg

__all__ = ["memory", "memory_svg", "training_curves", "training_curves_svg"]
