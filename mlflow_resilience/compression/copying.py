"""Copies of a trained model, so that the model itself stays as it is."""

from __future__ import annotations

import keras

from mlflow_resilience.errors import UsageError


def bare(model: keras.Model) -> keras.Model:
    """The same layers and weights, not compiled. Raises UsageError for a model that does not tell how it is made."""
    try:
        config = keras.saving.serialize_keras_object(model)
        config.pop("compile_config", None)
        made: keras.Model = keras.saving.deserialize_keras_object(config)
        made.set_weights(model.get_weights())
    except Exception as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(
            f"the model cannot be copied ({told}): register its classes with keras.saving.register_keras_serializable, "
            "and give them get_config()"
        ) from error
    return made


def compiled(model: keras.Model) -> keras.Model:
    """The same, compiled as ``model`` was, with an optimiser that has not trained yet. Raises UsageError."""
    made = bare(model)
    made.compile_from_config(model.get_compile_config())
    return made
