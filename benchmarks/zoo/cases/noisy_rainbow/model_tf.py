"""Rainbow without the distribution: noisy dueling network, n-step double Q targets, weighted Huber loss."""
import math

import tensorflow.compat.v1 as tf

NUM_ACTIONS = 5
N_STEP = 3
GAMMA = 0.97
HIDDEN = 24


class Noise(object):
    """Deals out the columns of a block of normal draws, squashed as factorised noise is."""

    def __init__(self, draws):
        self.draws = tf.multiply(tf.sign(draws), tf.pow(tf.abs(draws), 0.5))
        self.offset = 0

    def take(self, n):
        piece = self.draws[:, self.offset:self.offset + n]
        self.offset += n
        return piece


def conv(x, filters, size, stride, name):
    with tf.variable_scope(name):
        w = tf.get_variable("weights", [size, size, x.shape.as_list()[-1], filters], x.dtype,
                            initializer=tf.variance_scaling_initializer(1.0 / 3.0, "fan_in", "uniform"))
        b = tf.get_variable("biases", [filters], x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, stride, stride, 1], "VALID"), b))


def noisy_dense(x, size, name, noise, activation_fn=tf.identity):
    n_in = x.shape.as_list()[1]
    mu_init = tf.random_uniform_initializer(-1.0 / math.sqrt(n_in), 1.0 / math.sqrt(n_in))
    sigma_init = tf.constant_initializer(0.4 / math.sqrt(n_in))
    p = noise.take(n_in)
    q = noise.take(size)
    with tf.variable_scope(name):
        w_mu = tf.get_variable("w_mu", [n_in, size], x.dtype, initializer=mu_init)
        w_sigma = tf.get_variable("w_sigma", [n_in, size], x.dtype, initializer=sigma_init)
        b_mu = tf.get_variable("b_mu", [size], x.dtype, initializer=mu_init)
        b_sigma = tf.get_variable("b_sigma", [size], x.dtype, initializer=sigma_init)
    # every example has noise of its own: w_sigma * p q' is not built
    mean = tf.matmul(x, w_mu) + b_mu
    deviation = (tf.matmul(x * p, w_sigma) + b_sigma) * q
    return activation_fn(mean + deviation)


def q_network(obs, draws, scope, trainable=True):
    def frozen_or_not(getter, *args, **kwargs):
        kwargs["trainable"] = trainable
        return getter(*args, **kwargs)

    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE, custom_getter=frozen_or_not):
        noise = Noise(draws)
        x = tf.cast(obs, draws.dtype) / 255.0
        x = conv(x, 8, 4, 2, "conv1")
        x = conv(x, 16, 3, 1, "conv2")
        x = tf.reshape(x, [-1, 2 * 2 * 16])
        value = noisy_dense(x, HIDDEN, "value_fc", noise, tf.nn.relu)
        value = noisy_dense(value, 1, "value", noise)
        advantage = noisy_dense(x, HIDDEN, "advantage_fc", noise, tf.nn.relu)
        advantage = noisy_dense(advantage, NUM_ACTIONS, "advantage", noise)
        return value + (advantage - tf.reduce_mean(advantage, axis=1, keepdims=True))


def huber_loss(x, delta=1.0):
    return tf.where(tf.abs(x) < delta, tf.square(x) * 0.5, delta * (tf.abs(x) - 0.5 * delta))


def tower(obs, next_obs, actions, rewards, dones, weights, noise):
    q_t = q_network(obs, noise[:, 0], "q_func")
    q_t_selected = tf.reduce_sum(q_t * tf.one_hot(actions, NUM_ACTIONS, dtype=q_t.dtype), 1)

    q_tp1_online = q_network(next_obs, noise[:, 1], "q_func")
    q_tp1 = q_network(next_obs, noise[:, 2], "target_q_func", trainable=False)
    best = tf.one_hot(tf.argmax(q_tp1_online, 1), NUM_ACTIONS, dtype=q_t.dtype)
    q_tp1_best = tf.reduce_sum(q_tp1 * best, 1)

    returns = tf.zeros_like(weights)
    running = tf.ones_like(weights)
    for k in range(N_STEP):
        returns += GAMMA ** k * running * rewards[:, k]
        running *= 1.0 - dones[:, k]
    target = returns + GAMMA ** N_STEP * running * q_tp1_best

    td_error = q_t_selected - tf.stop_gradient(target)
    loss = tf.reduce_mean(weights * huber_loss(td_error))
    return loss, {"q_values": q_t, "target": target, "priorities": tf.abs(td_error)}
