"""The functional API on a `tf.data` pipeline, with the usual callbacks."""

import hashlib
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(7)
images = np.random.rand(400, 8, 8, 1).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int32")

train = (
    tf.data.Dataset.from_tensor_slices((images[:320], labels[:320])).shuffle(320).batch(16).prefetch(tf.data.AUTOTUNE)
)
test = tf.data.Dataset.from_tensor_slices((images[320:], labels[320:])).batch(16)

for batch, _ in train.take(1):  # "let us look at the data"
    print("a batch:", batch.shape)

inputs = keras.Input(shape=(8, 8, 1))
x = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
x = keras.layers.BatchNormalization()(x)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dropout(0.3)(x)
outputs = keras.layers.Dense(2)(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
callbacks = [
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, restore_best_weights=True),
    keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
    keras.callbacks.CSVLogger("log.csv"),
    keras.callbacks.ReduceLROnPlateau(patience=1),
]
history = model.fit(train, validation_data=test, epochs=6, callbacks=callbacks, verbose=0)

best = keras.models.load_model("best.keras")
variables = [*model.variables, *model.optimizer.variables, *best.variables]
digest = hashlib.sha256(b"".join(np.asarray(variable.value).tobytes() for variable in variables)).hexdigest()
print("END", digest, history.epoch, history.history, Path("log.csv").read_text().split())
