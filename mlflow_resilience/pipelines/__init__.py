"""Pipelines of pictures and of arrays that resume exactly and know their records by name; and how fast one is.

data = pipelines.images("photos", size=(96, 96), augment="flip,rotate:0.05", cache=True)
return data.train, data.validation
"""

from __future__ import annotations

from mlflow_resilience.pipelines.arrays import arrays
from mlflow_resilience.pipelines.built import Built
from mlflow_resilience.pipelines.images import images
from mlflow_resilience.pipelines.throughput import Throughput, Trial, throughput

__all__ = ["Built", "Throughput", "Trial", "arrays", "images", "throughput"]
