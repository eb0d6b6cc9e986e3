"""Float16 in TensorFlow: rounding, gradients that vanish, masters, and a dynamic loss scale (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def rounded(values):
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.cast(tf.cast(tf.constant(values, tf.float64), tf.float16), tf.float64))
    return [float(value) if np.isfinite(value) else str(value) for value in found]


def gradients(inputs, factor, scale):
    """Returns the gradients of ``factor * sum(w * inputs)``, computed in float16, with the scale taken out in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(inputs, tf.float16)
        w = tf.constant(np.ones(len(inputs)), tf.float16)
        loss = tf.reduce_sum(tf.cast(w * x, tf.float32)) * tf.constant(factor * scale, tf.float32)
        gradient = tf.gradients(loss, w)[0]
        return session.run(tf.cast(gradient, tf.float32) / scale)


def many_updates(update, updates):
    """Returns a weight of 1 after many small updates: kept in float16, and as the rounding of a float32 master."""
    with tf.Graph().as_default(), tf.Session() as session:
        half, master = tf.Variable(tf.ones([], tf.float16)), tf.Variable(tf.ones([], tf.float32))
        step = tf.group(half.assign_add(tf.cast(update, tf.float16)), master.assign_add(tf.cast(update, tf.float32)))
        session.run(tf.global_variables_initializer())
        for _ in range(updates):
            session.run(step)
        return dict(zip(["half", "master"], session.run([half, tf.cast(tf.cast(master, tf.float16), tf.float32)])))


def dynamic(steep, steps):
    def tower(x):
        w = tf.get_variable("w", [4], tf.float32, tf.ones_initializer())
        return tf.reduce_mean(tf.reduce_sum(tf.cast(tf.cast(w, tf.float16) * x, tf.float32), 1)) * steep

    training = tf_towers.build(
        tower,
        inputs={"x": ("float16", [2, 4])},
        towers=2,
        optimizer=lambda: tf.train.GradientDescentOptimizer(0.125),
        loss_scale={"initial": 2.0**16, "growth_interval": 2000, "factor": 2.0},
    )
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, 2))
    stepper.initialize()
    scales, skipped = [], []
    for _ in range(steps):
        scales.append(float(stepper.state()["state/loss_scale"]))
        recorded = stepper.step({"x": np.ones([2, 4], np.float16)})
        skipped.append(bool(recorded["state/skipped"]))
    stepper.close()
    return {"scales": scales, "skipped": skipped}


def measure(probes, inputs, factor, scale, update, updates, steep, steps, x, y, rate, train_steps):
    return {
        "rounded": rounded(probes),
        "gradients": {"plain": gradients(inputs, factor, 1.0), "scaled": gradients(inputs, factor, scale)},
        "weight": many_updates(update, updates),
        "dynamic": dynamic(steep, steps),
    }
