"""One rank of a plain `fit` that is done together: started by ``test_collective.py`` as often as there are ranks."""

from __future__ import annotations

import sys

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from mlflow_resilience.ray.collective import Collective
from mlflow_resilience.training import build

RECORDS, BATCH, EPOCHS = 1281, 64, 3  # the last batch of an epoch has one record, which only one rank can have


def main(rank: int, size: int, path: str) -> None:
    collective = Collective(rank, size)
    keras.utils.set_random_seed(3)
    x, y = load_digits(return_X_y=True)
    x, y = (x[:RECORDS] / 16).astype("float32"), y[:RECORDS]
    weights = np.linspace(0.5, 1.5, RECORDS, dtype="float32")
    data = tf.data.Dataset.from_tensor_slices((x, y, weights)).shuffle(RECORDS, seed=5).batch(BATCH)
    regularised = keras.layers.Dense(32, "tanh", kernel_regularizer=keras.regularizers.L2(1e-3))
    model = keras.Sequential([keras.Input((64,)), regularised, keras.layers.Dense(10)])
    model.compile(
        keras.optimizers.Adam(0.002, global_clipnorm=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    build.build(model, data.element_spec)  # as every fit of ours
    if size > 1:
        collective.attach(model)
    history = model.fit(data, epochs=EPOCHS, verbose=0).history
    told = {f"history_{name}": np.array(values) for name, values in history.items()}
    np.savez(path, **told, **{f"weights_{index}": value for index, value in enumerate(model.get_weights())})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
