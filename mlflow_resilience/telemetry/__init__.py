"""Memory of processes, machine, GPUs and TensorFlow's allocator; what kind of machine this is."""

from mlflow_resilience.telemetry.facts import environment
from mlflow_resilience.telemetry.measure import MemoryUse, measure_memory
from mlflow_resilience.telemetry.monitor import Monitor, Point, at_fault
from mlflow_resilience.telemetry.reading import gauges, snapshot

__all__ = ["MemoryUse", "Monitor", "Point", "at_fault", "environment", "gauges", "measure_memory", "snapshot"]
