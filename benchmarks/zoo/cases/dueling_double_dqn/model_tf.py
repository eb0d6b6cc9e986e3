"""Deep Q-learning with double targets and a dueling network, one update's loss as build_train has it."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_ACTIONS = 4
GAMMA = 0.99
DOUBLE_Q = True


def huber_loss(x, delta=1.0):
    return tf.where(tf.abs(x) < delta, tf.square(x) * 0.5, delta * (tf.abs(x) - 0.5 * delta))


def dueling_model(img_in, num_actions, scope, reuse=None, trainable=True):
    """As described in https://arxiv.org/abs/1511.06581"""
    init = tf.variance_scaling_initializer(2.0)
    with tf.variable_scope(scope, reuse=reuse):
        out = img_in / 255.0
        with tf.variable_scope("convnet"):
            out = tf.layers.conv2d(out, 8, 4, strides=2, activation=tf.nn.relu, kernel_initializer=init,
                                   trainable=trainable, name="Conv")
            out = tf.layers.conv2d(out, 16, 3, strides=1, activation=tf.nn.relu, kernel_initializer=init,
                                   trainable=trainable, name="Conv_1")
            out = tf.layers.flatten(out)
            # both streams train the convolutions: their gradient is rescaled by 1 / sqrt(2)
            rescale = 1.0 / np.sqrt(2.0)
            out = rescale * out + tf.stop_gradient((1.0 - rescale) * out)
        with tf.variable_scope("state_value"):
            state_hidden = tf.layers.dense(out, 24, tf.nn.relu, kernel_initializer=init, trainable=trainable,
                                           name="fully_connected")
            state_score = tf.layers.dense(state_hidden, 1, kernel_initializer=init, trainable=trainable,
                                          name="fully_connected_1")
        with tf.variable_scope("action_value"):
            actions_hidden = tf.layers.dense(out, 24, tf.nn.relu, kernel_initializer=init, trainable=trainable,
                                             name="fully_connected")
            action_scores = tf.layers.dense(actions_hidden, num_actions, kernel_initializer=init, trainable=trainable,
                                            name="fully_connected_1")
        action_scores_mean = tf.reduce_mean(action_scores, 1)
        action_scores = action_scores - tf.expand_dims(action_scores_mean, 1)
        return state_score + action_scores


def tower(obs, actions, rewards, next_obs, dones, weights):
    q_t = dueling_model(obs, NUM_ACTIONS, "q_func")
    # copied from q_func every so many updates, not trained
    q_tp1 = dueling_model(next_obs, NUM_ACTIONS, "target_q_func", trainable=False)
    q_t_selected = tf.reduce_sum(q_t * tf.one_hot(actions, NUM_ACTIONS, dtype=q_t.dtype), 1)
    if DOUBLE_Q:
        q_tp1_using_online_net = dueling_model(next_obs, NUM_ACTIONS, "q_func", reuse=True)
        q_tp1_best_using_online_net = tf.argmax(q_tp1_using_online_net, 1)
        q_tp1_best = tf.reduce_sum(q_tp1 * tf.one_hot(q_tp1_best_using_online_net, NUM_ACTIONS, dtype=q_t.dtype), 1)
    else:
        q_tp1_best = tf.reduce_max(q_tp1, 1)
    q_tp1_best_masked = (1.0 - dones) * q_tp1_best
    q_t_selected_target = rewards + GAMMA * q_tp1_best_masked
    td_error = q_t_selected - tf.stop_gradient(q_t_selected_target)
    weighted_error = tf.reduce_mean(weights * huber_loss(td_error))
    return weighted_error, {"q_values": q_t, "next_q_values": q_tp1, "td_error": td_error}
