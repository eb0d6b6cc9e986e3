"""Imitation by a mixture of squashed gaussians, weighted by exponentiated advantages."""
import numpy as np
import tensorflow.compat.v1 as tf

ACTIONS, COMPONENTS, HIDDEN = 3, 4, 24
LOG_STD_MIN, LOG_STD_MAX = -2.0, 1.0
TEMPERATURE, MAX_WEIGHT = 1.5, 5.0
ENTROPY, VALUE = 0.01, 0.5


class RunningMeanStd(object):
    """Mean, variance and count of everything seen so far, merged batch by batch."""

    def __init__(self, size, dtype, scope="obs_filter"):
        with tf.variable_scope(scope):
            def make(name, shape, value):
                return tf.get_variable(name, shape, dtype, initializer=tf.constant_initializer(value), trainable=False)
            self.mean = make("mean", [size], 0.0)
            self.var = make("var", [size], 1.0)
            self.count = make("count", [], 1e-2)

    def update(self, x):
        batch_mean, batch_var = tf.nn.moments(x, [0])
        n = tf.cast(tf.shape(x)[0], x.dtype)
        delta = batch_mean - self.mean
        total = self.count + n
        mean = self.mean + delta * n / total
        m2 = self.var * self.count + batch_var * n + tf.square(delta) * self.count * n / total
        var = m2 / total
        with tf.control_dependencies([mean, var, total]):
            for variable, value in ((self.mean, mean), (self.var, var), (self.count, total)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(variable, value))
        return mean, var


def dense(x, units, name, stddev):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [x.shape.as_list()[1], units], x.dtype,
                            initializer=tf.random_normal_initializer(stddev=stddev))
        b = tf.get_variable("bias", [units], x.dtype, initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def tower(observations, actions, returns, training=True):
    rms = RunningMeanStd(6, observations.dtype)
    mean, var = rms.update(observations) if training else (rms.mean, rms.var)
    normed = tf.clip_by_value((observations - mean) / tf.sqrt(var + 1e-8), -5.0, 5.0)
    with tf.variable_scope("pi"):
        h = tf.nn.tanh(dense(normed, HIDDEN, "fc1", 0.3))
        h = tf.nn.tanh(dense(h, HIDDEN, "fc2", 0.2))
        logits = dense(h, COMPONENTS, "logits", 0.1)
        mu = tf.reshape(dense(h, COMPONENTS * ACTIONS, "mu", 0.2), [-1, COMPONENTS, ACTIONS])
        log_std = tf.reshape(dense(h, COMPONENTS * ACTIONS, "log_std", 0.1), [-1, COMPONENTS, ACTIONS])
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (tf.tanh(log_std) + 1.0)
    with tf.variable_scope("vf"):
        h = tf.nn.relu(dense(normed, HIDDEN, "fc1", 0.3))
        value = tf.squeeze(dense(h, 1, "out", 0.2), [1])

    log_pi = tf.nn.log_softmax(logits)
    raw = tf.expand_dims(tf.atanh(actions), 1)
    z = (raw - mu) * tf.exp(-log_std)
    log_gauss = tf.reduce_sum(-0.5 * tf.square(z) - log_std - 0.5 * np.log(2 * np.pi), axis=2)
    log_prob = tf.reduce_logsumexp(log_pi + log_gauss, axis=1)
    log_prob -= tf.reduce_sum(tf.log(1.0 - tf.square(actions) + 1e-6), axis=1)

    advantage = tf.stop_gradient(returns - value)
    weight = tf.minimum(tf.exp(advantage / TEMPERATURE), MAX_WEIGHT)
    imitation = -tf.reduce_mean(weight * log_prob)
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_pi) * log_pi, axis=1))
    value_loss = tf.reduce_mean(tf.square(returns - value))
    loss = imitation - ENTROPY * entropy + VALUE * value_loss
    return loss, {"normed": normed, "log_prob": log_prob, "value": value, "imitation": imitation, "entropy": entropy}
