"""A tf.data pipeline as it was before anything was read from it.

A shuffle that reshuffles draws a seed from a generator that lives in the process each time an iterator is made, so the
dataset object that the user made gives another order once it has been used. The graph of the dataset, though, holds all
that it was made of; made again from it, with generators of its own, it starts from the beginning.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.ops import options as options_lib

#: Ops that keep state outside of the dataset; a copy of the pipeline shares it with the original.
_SHARED_STATE_OPS = frozenset({"VarHandleOp", "ReadVariableOp", "AssignAddVariableOp", "AssignVariableOp"})
_RESOURCE = tf.resource.as_datatype_enum


class NotCopyable(ValueError):
    """The pipeline holds state that a copy would share, or a graph that cannot be read."""


def graph_of(dataset: tf.data.Dataset) -> tf.compat.v1.GraphDef:
    """The graph that makes ``dataset``. Reads no element and draws no random number."""
    serialised = dataset._as_serialized_graph(external_state_policy=options_lib.ExternalStatePolicy.IGNORE)
    return tf.compat.v1.GraphDef.FromString(serialised.numpy())


def from_graph(graph: tf.compat.v1.GraphDef, element_spec: Any, output: str | None = None) -> tf.data.Dataset:
    """A dataset made anew from ``graph``, or from the part of it below the node ``output``.

    Raises NotCopyable where it would share state with the original.
    """
    body = tf.compat.v1.GraphDef()
    body.CopyFrom(graph)
    result = next(node for node in body.node if node.op == "_Retval").input[0]
    nodes = [node for node in body.node if node.op != "_Retval"]
    del body.node[:]
    body.node.extend(nodes)
    for node in body.node:
        _renew(node)
    _refuse_shared_state(graph)
    output = output or result
    output = output if ":" in output else f"{output}:0"

    def make() -> tf.Tensor:
        return tf.graph_util.import_graph_def(body, return_elements=[output], name="")[0]

    return dataset_ops._VariantDataset(tf.compat.v1.wrap_function(make, [])(), element_spec)


def _renew(node: Any) -> None:
    """Replace the handle of a seed generator in use by an op that makes a new one."""
    if node.op == "Const" and node.attr["dtype"].type == _RESOURCE and "SeedGenerator" in str(node.attr["value"]):
        node.op = "DummySeedGenerator"
        node.attr.clear()


def _refuse_shared_state(graph: tf.compat.v1.GraphDef) -> None:
    for function in graph.library.function:
        for node in function.node_def:
            if node.op in _SHARED_STATE_OPS:
                raise NotCopyable(f"the pipeline's function {function.signature.name} keeps state in a variable")
