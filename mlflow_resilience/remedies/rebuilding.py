"""A model built once more from its own layers' configurations, with some of them changed and others put between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
from keras.src.models.functional import Functional

from mlflow_resilience.errors import UsageError

Layer = Any


@dataclass(kw_only=True)
class Changes:
    """``config`` changes what a layer is made from; ``after`` gives new layers that follow it; ``first`` come before
    all, on the one input."""

    config: Callable[[Layer, dict[str, Any]], dict[str, Any]] = lambda layer, config: config
    after: Callable[[Layer], Sequence[Layer]] = lambda layer: ()
    first: Sequence[Layer] = field(default_factory=list)


def rebuilt(model: keras.Model, changes: Changes) -> keras.Model:
    """A new model with the weights of ``model``, compiled as it was; the given one is left as it is.

    Raises UsageError for a model that is neither Sequential nor functional, and for layers that do not tell how they
    are made.
    """
    refuse(model)
    copies = _Copies(changes)
    made = _sequential(model, copies) if isinstance(model, keras.Sequential) else _functional(model, copies)
    copies.carry_weights_over()
    _compile(made, model)
    return made


def refuse(model: keras.Model) -> None:
    """Raises UsageError unless ``model`` can be rebuilt."""
    if type(model) not in (keras.Sequential, Functional):
        raise UsageError(
            f"the model is a {type(model).__name__}, a class of its own, whose layers cannot be taken apart: a "
            "Sequential or functional model is needed; or change it in its own code"
        )
    if model.built and model.optimizer is not None and model.optimizer.built and int(model.optimizer.iterations):
        raise UsageError("the model was trained already: layers are added before training")


def layers_of(model: keras.Model) -> list[Layer]:
    """The layers that can be changed: those of the model itself, and not those within a model that is one of them."""
    return [layer for layer in model.layers if not isinstance(layer, keras.Model | keras.layers.InputLayer)]


def following(model: keras.Model, layer: Layer) -> list[Layer]:
    """The layers that ``layer``'s output goes to."""
    if isinstance(model, keras.Sequential):
        at = model.layers.index(layer)
        return list(model.layers[at + 1 : at + 2])
    given = {id(tensor) for node in layer._inbound_nodes for tensor in node.outputs}
    nodes = [node for each in model._nodes_by_depth.values() for node in each]
    return [node.operation for node in nodes if any(id(tensor) in given for tensor in node.input_tensors)]


def heads(model: keras.Model, kinds: tuple[type, ...]) -> list[Layer]:
    """Of the layers of these ``kinds`` the last ones before each output."""
    if isinstance(model, keras.Sequential):
        return next(([each] for each in reversed(model.layers) if isinstance(each, kinds)), [])
    return list({id(each): each for output in model.outputs for each in _behind(output, kinds)}.values())


def _behind(tensor: Any, kinds: tuple[type, ...]) -> Iterator[Layer]:
    operation, node_index, _ = tensor._keras_history
    if isinstance(operation, kinds):
        yield operation
        return
    for each in operation._inbound_nodes[node_index].input_tensors:
        yield from _behind(each, kinds)


class _Copies:
    """Each layer made once more, however often it is called, with the new layers after it."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._made: dict[int, tuple[Layer, Layer, list[Layer]]] = {}

    def of(self, layer: Layer) -> tuple[Layer, list[Layer]]:
        """The copy and the layers that follow it. What is no layer holds nothing, and is used again."""
        if not isinstance(layer, keras.layers.Layer):
            return layer, []
        if id(layer) not in self._made:
            self._made[id(layer)] = (layer, self._copy(layer), list(self.changes.after(layer)))
        _, copy, after = self._made[id(layer)]
        return copy, after

    def _copy(self, layer: Layer) -> Layer:
        try:
            return type(layer).from_config(self.changes.config(layer, layer.get_config()))
        except (TypeError, ValueError, NotImplementedError, KeyError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0]
            raise UsageError(
                f"layer {layer.name} ({type(layer).__name__}) does not tell how it is made, so that the model cannot "
                f"be rebuilt with other layers ({said[:200]}): change the model in its own code"
            ) from None

    def carry_weights_over(self) -> None:
        """Weights, moving statistics and seeds."""
        for layer, copy, _ in self._made.values():
            if not layer.built:
                continue
            before, now = layer.variables, copy.variables
            if [tuple(each.shape) for each in before] != [tuple(each.shape) for each in now]:
                raise UsageError(f"layer {layer.name} ({type(layer).__name__}) has other weights when it is made anew")
            for old, new in zip(before, now, strict=True):
                new.assign(old)


def _sequential(model: keras.Model, copies: _Copies) -> keras.Model:
    made = keras.Sequential(name=model.name)
    if model.built:
        made.add(_input_like(model.inputs[0]))
    for layer in (*copies.changes.first, *(each for old in model.layers for each in _with_following(copies, old))):
        made.add(layer)
    return made


def _with_following(copies: _Copies, layer: Layer) -> list[Layer]:
    copy, after = copies.of(layer)
    return [copy, *after]


def _functional(model: keras.Model, copies: _Copies) -> keras.Model:
    inputs = keras.tree.map_structure(_input_like, model._inputs_struct)
    begun = keras.tree.flatten(inputs)
    for layer in copies.changes.first:
        begun = [layer(tensor) if len(tensor.shape) == 4 else tensor for tensor in begun]

    def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        copy, after = copies.of(operation)
        result = copy(*args, **kwargs)
        for layer in after:
            result = layer(result)
        return result

    outputs = model._run_through_graph(begun, call_fn=call)
    return keras.Model(inputs, outputs, name=model.name)


def _input_like(tensor: Any) -> Any:
    return keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype, name=tensor.name)


def _compile(made: keras.Model, model: keras.Model) -> None:
    if not model.compiled:
        return
    optimizer = model.optimizer
    if optimizer is not None and optimizer.built:  # its slots are those of the other model's weights
        optimizer = type(optimizer).from_config(optimizer.get_config())
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    given = {**model._compile_config.config, "optimizer": optimizer}
    made.compile(**given, auto_scale_loss=scaled)
