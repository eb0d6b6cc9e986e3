"""MuZero's learning step: a representation of the board, a dynamics function that is unrolled along the actions played, and
predictions of policy, value and reward at each step, the latter two as distributions over a support of transformed values."""
import tensorflow.compat.v1 as tf

ACTIONS = 6
UNROLL = 2
CHANNELS = 8
HEAD_CHANNELS = 2
HEAD_UNITS = 12
SUPPORT = 5
VALUE_LOSS_WEIGHT = 0.25
WEIGHT_DECAY = 1e-3


def scale_gradient(tensor, scale):
    return tensor * scale + tf.stop_gradient(tensor) * (1 - scale)


def scalar_transform(x):
    return tf.sign(x) * (tf.sqrt(tf.abs(x) + 1.0) - 1.0) + 0.001 * x


def scalar_to_support(x):
    """Two neighbours of the support share the weight of each value."""
    x = tf.clip_by_value(scalar_transform(x), -SUPPORT, SUPPORT)
    floor = tf.floor(x)
    rest = tf.expand_dims(x - floor, -1)
    index = tf.cast(floor, tf.int32) + SUPPORT
    low = tf.one_hot(index, 2 * SUPPORT + 1, dtype=x.dtype)
    high = tf.one_hot(index + 1, 2 * SUPPORT + 1, dtype=x.dtype)
    return low * (1 - rest) + high * rest


def conv(x, filters, size, name):
    return tf.layers.conv2d(x, filters, size, padding="same", name=name)


def residual_block(x, name):
    with tf.variable_scope(name):
        h = tf.nn.relu(conv(x, CHANNELS, 3, "conv1"))
        h = conv(h, CHANNELS, 3, "conv2")
        return tf.nn.relu(h + x)


def normalize_state(state):
    """Each plane to the range from zero to one."""
    low = tf.reduce_min(state, [1, 2], keepdims=True)
    scale = tf.reduce_max(state, [1, 2], keepdims=True) - low
    scale = tf.where(scale < 1e-5, scale + 1e-5, scale)
    return (state - low) / scale


def head(x, units, name, hidden=True):
    with tf.variable_scope(name):
        h = tf.nn.relu(conv(x, HEAD_CHANNELS, 1, "conv1x1"))
        h = tf.layers.flatten(h)
        if hidden:
            h = tf.layers.dense(h, HEAD_UNITS, activation=tf.nn.elu, name="fc")
        return tf.layers.dense(h, units, name="logits")


class Network(object):
    def representation(self, observation):
        with tf.variable_scope("representation", reuse=tf.AUTO_REUSE):
            h = tf.nn.relu(conv(observation, CHANNELS, 3, "conv"))
            return normalize_state(residual_block(h, "block"))

    def dynamics(self, state, action):
        with tf.variable_scope("dynamics", reuse=tf.AUTO_REUSE):
            plane = tf.reshape(tf.cast(action, state.dtype) / ACTIONS, [-1, 1, 1, 1]) * tf.ones_like(state[..., :1])
            h = tf.nn.relu(conv(tf.concat([state, plane], -1), CHANNELS, 3, "conv"))
            h = residual_block(h, "block")
            return normalize_state(h), head(h, 2 * SUPPORT + 1, "reward")

    def prediction(self, state):
        with tf.variable_scope("prediction", reuse=tf.AUTO_REUSE):
            h = residual_block(state, "block")
            return head(h, ACTIONS, "policy", hidden=False), head(h, 2 * SUPPORT + 1, "value")


def tower(observation, actions, target_value, target_reward, target_policy, weight):
    network = Network()
    with tf.variable_scope("muzero"):
        state = network.representation(observation)
        policies, values, rewards = [], [], []
        for k in range(UNROLL + 1):
            if k > 0:
                state, reward = network.dynamics(state, actions[:, k - 1])
                rewards.append(reward)
            policy, value = network.prediction(state)
            policies.append(policy)
            values.append(value)
            if k > 0:
                state = scale_gradient(state, 0.5)

    def cross_entropy(labels, logits):
        return -tf.reduce_sum(labels * tf.nn.log_softmax(logits), -1)

    value_support = scalar_to_support(target_value)
    reward_support = scalar_to_support(target_reward)
    value_loss, reward_loss, policy_loss = 0.0, 0.0, 0.0
    for k in range(UNROLL + 1):
        gradient_scale = 1.0 if k == 0 else 1.0 / UNROLL
        value_loss += scale_gradient(cross_entropy(value_support[:, k], values[k]), gradient_scale)
        policy_loss += scale_gradient(cross_entropy(target_policy[:, k], policies[k]), gradient_scale)
        if k > 0:
            reward_loss += scale_gradient(cross_entropy(reward_support[:, k - 1], rewards[k - 1]), gradient_scale)
    loss = tf.reduce_mean(weight * (VALUE_LOSS_WEIGHT * value_loss + reward_loss + policy_loss))
    loss += WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    return loss, {"policy": tf.stack(policies, 1), "value": tf.stack(values, 1), "reward": tf.stack(rewards, 1), "state": state,
                  "value_loss": tf.reduce_mean(value_loss), "policy_loss": tf.reduce_mean(policy_loss),
                  "reward_loss": tf.reduce_mean(reward_loss)}
