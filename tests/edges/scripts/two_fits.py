"""Transfer learning in two fits on one pipeline, logged in an MLflow run of the script's own."""

import hashlib

import keras
import mlflow
import numpy as np
import tensorflow as tf

mlflow.set_experiment("the script's own")
keras.utils.set_random_seed(11)
x = np.random.rand(320, 10).astype("float32")
y = x[:, :1] * 3 - x[:, 1:2]
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320).batch(16)

base = keras.Sequential([keras.Input((10,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2)])
model = keras.Sequential([base, keras.layers.Dense(1)])

with mlflow.start_run():
    base.trainable = False
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    head = model.fit(data, epochs=2, verbose=0)
    between = [*model.evaluate(data, verbose=0), float(np.random.rand())]

    base.trainable = True
    model.compile(keras.optimizers.Adam(0.001), "mse", metrics=["mae"])
    tuned = model.fit(data, epochs=4, initial_epoch=2, validation_data=(x[:32], y[:32]), verbose=0)
    mlflow.log_metric("last_loss", tuned.history["loss"][-1])

variables = [*model.variables, *model.optimizer.variables]
digest = hashlib.sha256(b"".join(np.asarray(variable.value).tobytes() for variable in variables)).hexdigest()
print("END", digest, head.epoch, head.history, between, tuned.epoch, tuned.history, float(np.random.rand()))
