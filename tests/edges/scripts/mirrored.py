"""Two devices under `MirroredStrategy`, as TensorFlow's own guide has them where there is one processor."""

import hashlib

import keras
import numpy as np
import tensorflow as tf

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())

keras.utils.set_random_seed(7)
images = np.random.rand(400, 8, 8, 1).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int32")
train = tf.data.Dataset.from_tensor_slices((images[:320], labels[:320])).shuffle(320, seed=3).batch(16)
test = tf.data.Dataset.from_tensor_slices((images[320:], labels[320:])).batch(16)

with strategy.scope():
    layers = [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(2),
    ]
    model = keras.Sequential([keras.Input(shape=(8, 8, 1)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
history = model.fit(train, validation_data=test, epochs=3, verbose=0)

held = [variable.value for variable in [*model.variables, *model.optimizer.variables]]
every = [each for value in held for each in getattr(value, "values", [value])]  # on each device
digest = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in every)).hexdigest()
print("END", digest, history.epoch, history.history)
