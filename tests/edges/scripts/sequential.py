"""A first network, as tutorials begin: arrays, `Sequential`, `fit`, `evaluate`."""

import hashlib

import numpy as np
from tensorflow import keras

keras.utils.set_random_seed(812)
rng = np.random.default_rng(0)
x_train = rng.normal(size=(960, 20)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int32")

model = keras.Sequential(
    [
        keras.layers.Input(shape=(20,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=32, epochs=3, validation_split=0.2, verbose=2)
loss, accuracy = model.evaluate(x_train, y_train, verbose=0)

variables = [*model.variables, *model.optimizer.variables]
digest = hashlib.sha256(b"".join(np.asarray(variable.value).tobytes() for variable in variables)).hexdigest()
print("END", digest, history.epoch, history.history, loss, accuracy)
