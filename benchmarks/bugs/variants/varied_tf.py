"""A case's tower, with batch norm or initial weights that it does not have by itself."""

import functools
import importlib
import json
import os

import tensorflow.compat.v1 as tf

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "variant.json")) as file:
    VARIANT = json.load(file)
MODULE, _, NAME = VARIANT["tower"].partition(":")
model = importlib.import_module(MODULE)


def unfused(inputs, name, momentum=0.99, epsilon=1e-3, training=True):
    """Normalises by the layer that TensorFlow makes of plain ops: the moving variance gets the biased one."""
    return tf.layers.batch_normalization(
        inputs, momentum=momentum, epsilon=epsilon, training=training, fused=False, name=name
    )


def rounded(getter, name, *args, **kwargs):
    """Makes a variable whose initial values are multiples of an eighth, so that float32 sums of them are exact."""
    initial = kwargs.get("initializer")
    if initial is not None and kwargs.get("trainable", True):
        kwargs["initializer"] = lambda shape, **given: tf.round(8 * initial(shape, **given)) / 8
    return getter(name, *args, **kwargs)


if VARIANT["batch_norm"] == "unfused":
    model.batch_norm = unfused


@functools.wraps(getattr(model, NAME))
def tower(*args, **kwargs):
    """Builds the case's tower."""
    own = getattr(model, NAME)
    if VARIANT["ties"] != "weights":
        return own(*args, **kwargs)
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=rounded, auxiliary_name_scope=False):
        return own(*args, **kwargs)
