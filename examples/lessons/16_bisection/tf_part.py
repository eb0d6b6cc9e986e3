"""The towers' net, trained from weights that are given: what each layer computes, and the weights of each step."""

import numpy as np
import tensorflow.compat.v1 as tf
from model_tf import tower

tf.disable_v2_behavior()


def run(dtype, weights, batches, rates):
    """Returns by name the tensors of the first step, and the weights before each step and behind the last."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs, labels = tf.placeholder(dtype, [None, 8]), tf.placeholder(tf.int32, [None])
        rate = tf.placeholder(dtype, [])
        loss, seen = tower(inputs, labels)
        variables = tf.trainable_variables()
        update = tf.train.GradientDescentOptimizer(rate).minimize(loss)
        for variable in variables:
            variable.load(np.array(weights[variable.op.name], variable.dtype.as_numpy_dtype), session)
        tensors, losses, states = {}, [], []
        for step, ((x, y), now) in enumerate(zip(batches, rates)):
            fed = {inputs: x, labels: y, rate: now}
            states.append(state(session, variables))
            if not step:
                tensors = session.run(dict(seen, loss=loss), fed)
            losses.append(session.run([loss, update], fed)[0])
        return {"tensors": tensors, "losses": losses, "states": states + [state(session, variables)]}


def state(session, variables):
    """Returns all variables in one row, in the order of their names."""
    values = dict(zip([variable.op.name for variable in variables], session.run(variables)))
    return np.concatenate([values[name].ravel() for name in sorted(values)])


def measure(weights, batches, rates):
    return {dtype: run(dtype, weights, batches, rates) for dtype in ("float64", "float32")}
