import numpy as np
import tensorflow.compat.v1 as tf

NUM_ACTIONS = 5
NUM_ATOMS = 21
VMAX = 5.0
GAMMA = 0.99


def atoms(dtype):
    return tf.constant(np.linspace(-VMAX, VMAX, NUM_ATOMS), dtype=dtype)


def network(state):
    """Logits of the return's distribution for each action."""
    with tf.variable_scope("online", reuse=tf.AUTO_REUSE):
        net = state / 255.0
        net = tf.layers.conv2d(net, 10, 5, strides=2, padding="same", activation=tf.nn.relu, name="conv1")
        net = tf.layers.conv2d(net, 14, 3, strides=2, padding="same", activation=tf.nn.relu, name="conv2")
        net = tf.reshape(net, [-1, 4 * 4 * 14])
        net = tf.layers.dense(net, 48, activation=tf.nn.relu, name="fc")
        net = tf.layers.dense(net, NUM_ACTIONS * NUM_ATOMS, name="logits")
        logits = tf.reshape(net, [-1, NUM_ACTIONS, NUM_ATOMS])
    probabilities = tf.nn.softmax(logits)
    q_values = tf.reduce_sum(atoms(state.dtype) * probabilities, axis=2)
    return logits, probabilities, q_values


def project_distribution(supports, weights, support):
    """Equation (7) of Bellemare et al.: mass of moved atoms is shared between the nearest two."""
    delta = support[1] - support[0]
    clipped = tf.clip_by_value(supports, -VMAX, VMAX)[:, None, :]
    distance = tf.abs(clipped - support[None, :, None]) / delta
    share = tf.clip_by_value(1.0 - distance, 0.0, 1.0)
    return tf.reduce_sum(share * weights[:, None, :], axis=2)


def take_actions(values, actions):
    rows = tf.range(tf.shape(values)[0])
    return tf.gather_nd(values, tf.stack([rows, tf.cast(actions, tf.int32)], axis=1))


def tower(states, actions, rewards, next_states, terminals, probabilities):
    support = atoms(states.dtype)
    logits, _, q_values = network(states)
    _, next_probabilities, next_q_values = network(next_states)

    with tf.name_scope("target"):
        best = take_actions(next_probabilities, tf.argmax(next_q_values, axis=1))
        discount = GAMMA * (1.0 - terminals)
        moved = rewards[:, None] + discount[:, None] * support[None, :]
        target = tf.stop_gradient(project_distribution(moved, best, support))

    chosen = take_actions(logits, actions)
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=chosen)
    loss_weights = 1.0 / tf.sqrt(probabilities + 1e-10)
    loss_weights /= tf.reduce_max(loss_weights)
    loss = tf.reduce_mean(loss_weights * cross_entropy)
    return loss, {"q_values": q_values, "target": target, "cross_entropy": cross_entropy}
