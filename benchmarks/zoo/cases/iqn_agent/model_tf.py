"""Implicit quantile network agent, laid out as Dopamine's: everything that has quantiles is tiled to the front of the batch."""
import math

import tensorflow.compat.v1 as tf

NUM_ACTIONS = 4
QUANTILE_EMBEDDING_DIM = 8
NUM_TAU_SAMPLES = 6
NUM_TAU_PRIME_SAMPLES = 6
NUM_QUANTILE_SAMPLES = 5
KAPPA = 1.0
GAMMA = 0.99
UPDATE_HORIZON = 3


def _conv2d(net, num_outputs, kernel, stride, scope, trainable):
    with tf.variable_scope(scope):
        init = tf.variance_scaling_initializer(1.0 / math.sqrt(3.0), "fan_in", "uniform")
        w = tf.get_variable("weights", [kernel, kernel, net.shape.as_list()[-1], num_outputs], net.dtype, init, trainable=trainable)
        b = tf.get_variable("biases", [num_outputs], net.dtype, tf.zeros_initializer(), trainable=trainable)
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(net, w, [1, stride, stride, 1], "SAME"), b))


def _fully_connected(net, num_outputs, scope, trainable, activation_fn=tf.nn.relu):
    with tf.variable_scope(scope):
        init = tf.variance_scaling_initializer(1.0 / math.sqrt(3.0), "fan_in", "uniform")
        w = tf.get_variable("weights", [net.shape.as_list()[-1], num_outputs], net.dtype, init, trainable=trainable)
        b = tf.get_variable("biases", [num_outputs], net.dtype, tf.zeros_initializer(), trainable=trainable)
        net = tf.nn.bias_add(tf.matmul(net, w), b)
        return net if activation_fn is None else activation_fn(net)


def _conv_layers(state, trainable):
    state_net = state / 255.0
    state_net = _conv2d(state_net, 6, 4, 2, "Conv", trainable)
    state_net = _conv2d(state_net, 8, 3, 2, "Conv_1", trainable)
    return tf.reshape(state_net, [-1, 3 * 3 * 8])


def _quantiles(state_net, quantiles, num_quantiles, trainable):
    """quantiles: [num_quantiles * batch, 1]."""
    state_net_size = state_net.get_shape().as_list()[-1]
    state_net_tiled = tf.tile(state_net, [num_quantiles, 1])
    quantile_net = tf.tile(quantiles, [1, QUANTILE_EMBEDDING_DIM])
    pi = tf.constant(math.pi, state_net.dtype)
    quantile_net = tf.cast(tf.range(1, QUANTILE_EMBEDDING_DIM + 1, 1), state_net.dtype) * pi * quantile_net
    quantile_net = tf.cos(quantile_net)
    quantile_net = _fully_connected(quantile_net, state_net_size, "fully_connected", trainable)
    net = tf.multiply(state_net_tiled, quantile_net)
    net = _fully_connected(net, 24, "fully_connected_1", trainable)
    return _fully_connected(net, NUM_ACTIONS, "fully_connected_2", trainable, activation_fn=None)


def _flat(taus):
    return tf.reshape(tf.transpose(taus), [-1, 1])


def tower(states, actions, rewards, next_states, terminals, taus, next_taus, action_taus):
    batch_size = tf.shape(rewards)[0]
    with tf.variable_scope("Online"):
        replay_quantiles = _flat(taus)
        replay_net_quantile_values = _quantiles(_conv_layers(states, True), replay_quantiles, NUM_TAU_SAMPLES, True)
    with tf.variable_scope("Target"):
        next_features = _conv_layers(next_states, False)
        replay_net_target_quantile_values = _quantiles(next_features, _flat(next_taus), NUM_TAU_PRIME_SAMPLES, False)
    with tf.variable_scope("Target", reuse=True):
        target_net_for_action = _quantiles(next_features, _flat(action_taus), NUM_QUANTILE_SAMPLES, False)
    target_net_for_action = tf.reshape(target_net_for_action, [NUM_QUANTILE_SAMPLES, -1, NUM_ACTIONS])
    replay_next_qt_argmax = tf.argmax(tf.reduce_mean(target_net_for_action, axis=0), axis=1, output_type=tf.int32)

    # targets, [num_tau_prime * batch, 1]
    tiled_rewards = tf.tile(rewards[:, None], [NUM_TAU_PRIME_SAMPLES, 1])
    is_terminal_multiplier = 1.0 - terminals
    gamma_with_terminal = GAMMA ** UPDATE_HORIZON * is_terminal_multiplier
    gamma_with_terminal = tf.tile(gamma_with_terminal[:, None], [NUM_TAU_PRIME_SAMPLES, 1])
    batch_indices = tf.range(NUM_TAU_PRIME_SAMPLES * batch_size)[:, None]
    next_argmax = tf.tile(replay_next_qt_argmax[:, None], [NUM_TAU_PRIME_SAMPLES, 1])
    target_quantile_values = tf.gather_nd(
        replay_net_target_quantile_values, tf.concat([batch_indices, next_argmax], axis=1))[:, None]
    target_quantile_values = tf.stop_gradient(tiled_rewards + gamma_with_terminal * target_quantile_values)
    target_quantile_values = tf.reshape(target_quantile_values, [NUM_TAU_PRIME_SAMPLES, -1, 1])
    target_quantile_values = tf.transpose(target_quantile_values, [1, 0, 2])

    indices = tf.range(NUM_TAU_SAMPLES * batch_size)[:, None]
    reshaped_actions = tf.tile(actions[:, None], [NUM_TAU_SAMPLES, 1])
    chosen_action_quantile_values = tf.gather_nd(
        replay_net_quantile_values, tf.concat([indices, reshaped_actions], axis=1))
    chosen_action_quantile_values = tf.reshape(chosen_action_quantile_values, [NUM_TAU_SAMPLES, -1, 1])
    chosen_action_quantile_values = tf.transpose(chosen_action_quantile_values, [1, 0, 2])

    # batch x num_tau_prime x num_tau x 1
    bellman_errors = target_quantile_values[:, :, None, :] - chosen_action_quantile_values[:, None, :, :]
    dtype = bellman_errors.dtype
    huber_loss_case_one = tf.cast(tf.abs(bellman_errors) <= KAPPA, dtype) * 0.5 * bellman_errors ** 2
    huber_loss_case_two = tf.cast(tf.abs(bellman_errors) > KAPPA, dtype) * KAPPA * (tf.abs(bellman_errors) - 0.5 * KAPPA)
    huber_loss = huber_loss_case_one + huber_loss_case_two
    replay_quantiles = tf.reshape(replay_quantiles, [NUM_TAU_SAMPLES, -1, 1])
    replay_quantiles = tf.transpose(replay_quantiles, [1, 0, 2])
    replay_quantiles = tf.cast(tf.tile(replay_quantiles[:, None, :, :], [1, NUM_TAU_PRIME_SAMPLES, 1, 1]), dtype)
    quantile_huber_loss = (tf.abs(replay_quantiles - tf.stop_gradient(tf.cast(bellman_errors < 0, dtype))) * huber_loss) / KAPPA
    loss = tf.reduce_mean(tf.reduce_sum(quantile_huber_loss, axis=2), axis=1)
    return tf.reduce_mean(loss), {
        "chosen_quantiles": chosen_action_quantile_values[:, :, 0],
        "target_quantiles": target_quantile_values[:, :, 0],
    }
