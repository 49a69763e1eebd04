"""Would an undisturbed run repeat itself? What is found before training, with the reason and the remedy.

Nothing is called identical where the answer is no.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context as tf_context
from tensorflow.python.framework import config as tf_config

from mlflow_resilience.training.pipeline import Stage, stages
from mlflow_resilience.training.reshuffling import EachEpoch

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
#: Functions of Python's and NumPy's that take the next number of a stream which all workers share.
_DRAWS = frozenset({
    "choice", "choices", "exponential", "gauss", "getrandbits", "integers", "normal", "normalvariate", "permutation",
    "poisson", "rand", "randint", "randn", "random", "randrange", "random_sample", "sample", "shuffle", "uniform",
})  # fmt: skip
_OWN_STREAM = frozenset({"default_rng", "RandomState", "Random"})  # made for each batch
_BEFORE_OR_BETWEEN = ("__init__", "on_epoch_begin", "on_epoch_end")  # no worker runs these
_ASSIGNS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


def findings(data: Any) -> list[str]:
    """Why training on ``data`` would not repeat itself, each with what to do about it; empty where it would."""
    if isinstance(data, keras.utils.PyDataset):
        return list(_of_workers(data))
    if not isinstance(data, tf.data.Dataset) or tf_config.is_op_determinism_enabled():
        return []
    found = [text for stage in stages(data) for text in _of_stage(stage)]
    if data.options().deterministic is False:
        found.append(
            "the pipeline's options say deterministic=False, so the order of its elements is left open: set True"
        )
    return list(dict.fromkeys(found))


def unseeded_order(arguments: dict[str, Any]) -> list[str]:
    """The finding about arrays that Keras shuffles without a seed, if it does."""
    if not _shuffles_arrays(arguments) or _seed() is not None:
        return []
    return ["the arrays are shuffled without a seed: call keras.utils.set_random_seed before the model is made"]


def repeats_one_order(arguments: dict[str, Any]) -> bool:
    """Whether arrays are shuffled into the same order in each epoch: what Keras does once a seed is set."""
    return _shuffles_arrays(arguments) and _seed() is not None


def stateful_random_ops(function: Any) -> list[str]:
    """The ops in a traced step whose place in their stream of random numbers lies in the kernel, out of reach."""
    graph = function.graph.as_graph_def()
    ops = {node.op for node in graph.node} | {node.op for each in graph.library.function for node in each.node_def}
    return sorted(op for op in ops & STATEFUL_RANDOM if not op.startswith(("Rng", "Stateful")))


def _shuffles_arrays(arguments: dict[str, Any]) -> bool:
    x = arguments["x"]
    is_arrays = x is not None and not isinstance(x, tf.data.Dataset | keras.utils.PyDataset)
    return bool(is_arrays and arguments["shuffle"] and not isinstance(arguments["shuffle"], EachEpoch))


def _seed() -> int | None:
    """TensorFlow's global seed."""
    seed: int | None = tf_context.context()._seed
    return seed


def _of_workers(data: keras.utils.PyDataset) -> Iterator[str]:
    """What the code of a PyDataset draws in several workers at once."""
    names = _names(type(data))
    drawn = sorted(names & _DRAWS) if not names & _OWN_STREAM else []
    if (data.workers > 1 or data.use_multiprocessing) and drawn:
        yield (
            f"{type(data).__name__} draws random numbers ({', '.join(drawn)}) in {data.workers} workers, so which "
            "batch gets which number is left to chance: draw from np.random.default_rng([seed, index]), or set "
            "workers=1"
        )


def _names(kind: type) -> set[str]:
    """The names that the methods of a class and of its bases use, those of Keras and Python left out."""
    waiting = [
        value.__code__
        for each in kind.__mro__
        if not each.__module__.startswith(("keras", "builtins"))
        for value in vars(each).values()
        if isinstance(value, types.FunctionType) and value.__name__ not in _BEFORE_OR_BETWEEN
    ]
    found: set[str] = set()
    while waiting:
        code = waiting.pop()
        found.update(code.co_names)
        waiting.extend(each for each in code.co_consts if isinstance(each, types.CodeType))
    return found


def _of_stage(stage: Stage) -> Iterator[str]:
    if not stage.ordered:
        yield f"the {stage.kind} stage says deterministic=False, so the order of its elements is left open: set True"
    if not stage.seeded:
        yield (
            f"the {stage.kind} stage has no seed, so each process draws another order: give it one, or call "
            "keras.utils.set_random_seed first"
        )
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
