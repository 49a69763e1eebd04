"""Keras's first example, with the one line that MLflow's documentation adds to it."""

import hashlib

import keras
import mlflow
import numpy as np

mlflow.set_experiment("the script's own")
mlflow.tensorflow.autolog(log_models=False, log_datasets=False)

keras.utils.set_random_seed(9)
x = np.random.rand(640, 8).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=3, batch_size=32, verbose=0)

variables = [*model.variables, *model.optimizer.variables]
digest = hashlib.sha256(b"".join(np.asarray(variable.value).tobytes() for variable in variables)).hexdigest()
print("END", digest, history.epoch, history.history)
