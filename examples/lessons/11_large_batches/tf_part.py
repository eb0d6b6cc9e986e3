"""Eight towers with a learning rate that is scaled and warmed up (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def measure(x, y, w1, w2, towers, batch, rate, warm_up_steps, epochs):
    def tower(x, y):
        first = tf.get_variable("w1", np.shape(w1), x.dtype, tf.constant_initializer(w1))
        second = tf.get_variable("w2", np.shape(w2), x.dtype, tf.constant_initializer(w2))
        return tf.reduce_mean(tf.square(tf.tensordot(tf.tanh(tf.matmul(x, first)), second, 1) - y))

    def optimizer():
        schedule = {"schedule": "constant", "learning_rate": towers * rate, "warm_up_steps": warm_up_steps}
        step = tf.train.get_or_create_global_step()
        return tf.train.GradientDescentOptimizer(tf_towers.make_learning_rate(schedule, step))

    large, (x, y) = towers * batch, (np.array(x), np.array(y))
    training = tf_towers.build(
        tower,
        inputs={"x": ("float64", [large, x.shape[1]]), "y": ("float64", [large])},
        towers=towers,
        optimizer=optimizer,
    )
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, towers))
    stepper.initialize()
    rates = []
    for _ in range(epochs):
        for start in range(0, len(x), large):
            recorded = stepper.step({"x": x[start : start + large], "y": y[start : start + large]})
            rates.append(float(recorded["state/learning_rate"]))
    state = stepper.state()
    stepper.close()
    return {"rates": rates, "w1": state["var/w1"], "w2": state["var/w2"]}
