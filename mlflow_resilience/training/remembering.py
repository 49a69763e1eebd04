"""Does a pipeline remember, outside of its iterators, that it was read from?"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mlflow_resilience.training import pipeline


def remembers(arguments: dict[str, Any] | None) -> bool:
    """Whether data made anew from the same graph may begin elsewhere than where a fit has found it: a shuffle, whose
    seeds go on with each iterator that a script has made (to look at a batch, say), or Python code."""
    data = arguments["x"] if arguments is not None else None
    if not isinstance(data, tf.data.Dataset):
        return False
    return pipeline.calls_python(data) or any(_shuffles(stage) for stage in pipeline.stages(data))


def _shuffles(stage: pipeline.Stage) -> bool:
    return "Shuffle" in stage.kind or stage.kind == "Random" or any("Shuffle" in op for op in stage.ops)
