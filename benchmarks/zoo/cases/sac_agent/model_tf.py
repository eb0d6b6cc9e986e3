"""Soft actor-critic with a learned temperature, after the kind of code in spinningup's TensorFlow 1 agents and softlearning.

All three losses are minimised at once, from the weights before the step. The target networks are copied into from outside, every
so many steps; here they are variables that are not trained. The noise of the policy's draws is fed.
"""
import numpy as np
import tensorflow.compat.v1 as tf

ACT_DIM = 3
ACT_LIMIT = 1.5
HIDDEN_SIZES = (32, 24)
GAMMA = 0.97
LOG_STD_MAX = 2
LOG_STD_MIN = -5
EPS = 1e-8


def mlp(x, hidden_sizes, activation=tf.nn.relu, trainable=True):
    for i, h in enumerate(hidden_sizes):
        x = tf.layers.dense(x, units=h, activation=activation, trainable=trainable, name="fc%d" % i)
    return x


def gaussian_likelihood(x, mu, log_std):
    pre_sum = -0.5 * (((x - mu) / (tf.exp(log_std) + EPS)) ** 2 + 2 * log_std + np.log(2 * np.pi))
    return tf.reduce_sum(pre_sum, axis=1)


def squashed_gaussian_policy(x, noise):
    with tf.variable_scope("pi", reuse=tf.AUTO_REUSE):
        net = mlp(x, HIDDEN_SIZES)
        mu = tf.layers.dense(net, ACT_DIM, activation=None, name="mu")
        log_std = tf.layers.dense(net, ACT_DIM, activation=tf.tanh, name="log_std")
    log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
    pi = mu + noise * tf.exp(log_std)
    logp_pi = gaussian_likelihood(pi, mu, log_std)
    # change of variables for the tanh, in a form that does not underflow
    logp_pi -= tf.reduce_sum(2 * (np.log(2) - pi - tf.nn.softplus(-2 * pi)), axis=1)
    return tf.tanh(pi) * ACT_LIMIT, logp_pi


def q_function(x, a, name, trainable=True):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        net = mlp(tf.concat([x, a], axis=-1), HIDDEN_SIZES, trainable=trainable)
        q = tf.layers.dense(net, 1, activation=None, trainable=trainable, name="q")
        return tf.squeeze(q, axis=1)


def tower(obs, act, rew, next_obs, done, noise, next_noise):
    dtype = obs.dtype
    log_alpha = tf.get_variable("log_alpha", [], dtype, initializer=tf.constant_initializer(-1.0))
    alpha = tf.exp(log_alpha)

    with tf.variable_scope("main"):
        pi, logp_pi = squashed_gaussian_policy(obs, noise)
        next_pi, next_logp_pi = squashed_gaussian_policy(next_obs, next_noise)
        q1 = q_function(obs, act, "q1")
        q2 = q_function(obs, act, "q2")
        q1_pi = q_function(obs, pi, "q1")
        q2_pi = q_function(obs, pi, "q2")

    with tf.variable_scope("target"):
        q1_targ = q_function(next_obs, next_pi, "q1", trainable=False)
        q2_targ = q_function(next_obs, next_pi, "q2", trainable=False)

    min_q_pi = tf.minimum(q1_pi, q2_pi)
    min_q_targ = tf.minimum(q1_targ, q2_targ)
    q_backup = tf.stop_gradient(rew + GAMMA * (1 - done) * (min_q_targ - alpha * next_logp_pi))

    pi_loss = tf.reduce_mean(tf.stop_gradient(alpha) * logp_pi - min_q_pi)
    q1_loss = 0.5 * tf.reduce_mean((q_backup - q1) ** 2)
    q2_loss = 0.5 * tf.reduce_mean((q_backup - q2) ** 2)
    alpha_loss = -tf.reduce_mean(log_alpha * tf.stop_gradient(logp_pi - float(ACT_DIM)))
    return q1_loss + q2_loss, {
        "q1": q1, "q2": q2, "pi": pi, "logp_pi": logp_pi, "pi_loss": pi_loss, "alpha_loss": alpha_loss,
    }
