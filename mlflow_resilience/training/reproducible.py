"""Would an undisturbed run repeat itself? What is found before training, with the reason and the remedy.

Nothing is called identical where the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context as tf_context
from tensorflow.python.framework import config as tf_config

from mlflow_resilience.training.pipeline import Stage, stages

#: Ops that keep their own position in a stream of random numbers: who comes first gets the next number.
STATEFUL_RANDOM = frozenset(
    {
        "RandomUniform",
        "RandomUniformInt",
        "RandomStandardNormal",
        "TruncatedNormal",
        "ParameterizedTruncatedNormal",
        "RandomShuffle",
        "RandomGamma",
        "RandomPoissonV2",
        "Multinomial",
        "SampleDistortedBoundingBoxV2",
        "RngReadAndSkip",
        "RngSkip",
        "StatefulUniform",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulUniformInt",
    }
)
_ASSIGNS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


def findings(data: Any) -> list[str]:
    """Why training on ``data`` would not repeat itself, each with what to do about it; empty where it would."""
    if not isinstance(data, tf.data.Dataset) or tf_config.is_op_determinism_enabled():
        return []
    found = [text for stage in stages(data) for text in _of_stage(stage)]
    if data.options().deterministic is False:
        found.append(
            "the pipeline's options say deterministic=False, so the order of its elements is left open: set True"
        )
    return list(dict.fromkeys(found))


def repeats_one_order(arguments: dict[str, Any]) -> bool:
    """Whether arrays are shuffled into the same order in each epoch: what Keras does once a seed is set."""
    x = arguments["x"]
    is_arrays = x is not None and not isinstance(x, tf.data.Dataset | keras.utils.PyDataset)
    return bool(is_arrays and arguments["shuffle"] and tf_context.context()._seed is not None)


def stateful_random_ops(function: Any) -> list[str]:
    """The ops in a traced step whose place in their stream of random numbers lies in the kernel, out of reach."""
    graph = function.graph.as_graph_def()
    ops = {node.op for node in graph.node} | {node.op for each in graph.library.function for node in each.node_def}
    return sorted(op for op in ops & STATEFUL_RANDOM if not op.startswith(("Rng", "Stateful")))


def _of_stage(stage: Stage) -> Iterator[str]:
    if not stage.ordered:
        yield f"the {stage.kind} stage says deterministic=False, so the order of its elements is left open: set True"
    if not stage.parallel:
        return
    if stage.ops & STATEFUL_RANDOM:
        yield (
            f"the {stage.kind} stage calls stateful random ops ({', '.join(sorted(stage.ops & STATEFUL_RANDOM))}) in "
            "parallel, so which element gets which number is left to chance: use tf.random.stateless_* or "
            "tf.image.stateless_* with seeds from tf.data.Dataset.random, or leave num_parallel_calls out"
        )
    elif stage.ops & _ASSIGNS:
        yield (
            f"the {stage.kind} stage changes variables in parallel (as augmentation layers do with their seeds), so "
            "which element gets which number is left to chance: leave num_parallel_calls out, or move the layers "
            "into the model"
        )
