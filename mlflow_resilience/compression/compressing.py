"""A trained model, and what was asked for made from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from mlflow_resilience.compression import quantising
from mlflow_resilience.compression.copying import bare
from mlflow_resilience.compression.measured import Measured, Table
from mlflow_resilience.compression.measuring import Yardstick, batches, of_keras
from mlflow_resilience.compression.pruning import prune, sparsity
from mlflow_resilience.compression.wanted import Wanted
from mlflow_resilience.errors import UsageError

FINE_TUNING_RATE = 0.1  # of the rate that the model was compiled with


def compress(
    model: keras.Model,
    wanted: str | Wanted,
    train: Any,
    validation: Any = None,
    *,
    folder: str | Path,
    seed: int = 0,
    **fit: Any,
) -> Table:
    """Make smaller models of a trained one and measure each beside it: ``prune:0.5,int8,litert``.

    The files are written to ``folder``: ``NAME.keras`` or ``NAME.tflite``. ``train`` and ``validation`` are data sets,
    PyDatasets or tuples of arrays; ``fit`` is more for the fine-tuning's ``fit`` (``batch_size``,
    ``callbacks``). It is all measured
    on ``validation``, or on ``train`` where there is none. Keras's random seed is set to ``seed``. The given model is
    left as it is.

    What cannot be made of this model is a statement in the table. Raises UsageError for ``wanted`` that cannot be read,
    for a model that is not compiled or cannot be copied, and for data of other kinds.
    """
    asked = Wanted.parse(wanted) if isinstance(wanted, str) else wanted
    if not getattr(model, "compiled", False):
        raise UsageError("compress: a compiled model is needed, whose loss and metrics are measured by")
    made = Path(folder)
    made.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(seed)
    held_out = train if validation is None else validation
    maker = _Maker(model, asked, train, held_out, made, fit)
    rows, statements = [maker.saved("original", bare(model))], []
    for make in maker.asked():
        try:
            rows.append(make())
        except UsageError as error:
            statements.append(f"not made: {error}")
    if asked.qat:
        statements.append(quantising.aware_training())
    if validation is None:
        statements.append("measured on the training data, since there are no validation data")
    return Table(rows=tuple(rows), statements=tuple(statements))


class _Maker:
    def __init__(
        self, model: keras.Model, asked: Wanted, train: Any, held_out: Any, folder: Path, fit: dict[str, Any]
    ) -> None:
        self._model, self._asked, self._train, self._folder, self._fit = model, asked, train, folder, fit
        self._yardstick = Yardstick(model=model, data=held_out)

    def asked(self) -> Iterator[Any]:
        """The functions that make what is asked for."""
        wanted = {"prune": self._asked.prune is not None, "int8": self._asked.int8, "litert": self._asked.litert}
        made = {"prune": self._pruned, "int8": self._int8, "litert": self._litert}
        return (made[name] for name, is_wanted in wanted.items() if is_wanted)

    def saved(self, name: str, made: keras.Model, note: str = "", zeros: Any = None) -> Measured:
        """A Keras model in its file, measured as it is loaded from there."""
        path = self._folder / f"{name}.keras"
        made.save(path)
        loaded = keras.saving.load_model(path)
        return self._yardstick.measure(name, path, of_keras(loaded), note, zeros)

    def _pruned(self) -> Measured:
        assert self._asked.prune is not None
        data = {**_columns(self._train), **self._fit}
        made = prune(self._model, self._asked.prune, data, epochs=self._asked.epochs, rate=FINE_TUNING_RATE)
        note = f"{self._asked.prune:.0%} of each kernel is zero, after {self._asked.epochs} epochs of fine-tuning"
        return self.saved("pruned", made, note, sparsity(made))

    def _int8(self) -> Measured:
        made, note = quantising.quantised(self._model)
        return self.saved("int8", made, note)

    def _litert(self) -> Measured:
        made = quantising.litert(self._model, (x for x, *_ in batches(self._train)))
        predict = quantising.runner(made)
        path = self._folder / "litert.tflite"
        path.write_bytes(made)
        return self._yardstick.measure("litert", path, predict, "int8 after training, float32 in and out")


def _columns(data: Any) -> dict[str, Any]:
    if not isinstance(data, tuple):
        return {"x": data, "shuffle": False}  # its own order; and Keras warns of anything else
    return dict(zip(("x", "y", "sample_weight"), data, strict=False))
