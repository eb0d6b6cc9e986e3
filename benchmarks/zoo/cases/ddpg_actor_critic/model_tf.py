"""DDPG with two critics and a smoothed target policy; the target networks are a snapshot and stand still."""
import numpy as np
import tensorflow.compat.v1 as tf

OBS_DIM = 6
ACTION_DIM = 2
HIDDEN = 32
MAX_ACTION = 2.0
GAMMA = 0.98
NOISE_CLIP = 0.5
ACTION_L2 = 0.1
CRITIC_L2 = 1e-2
OBS_MEAN = [0.25, -0.125, 0.0, 0.125, 0.5, -0.375]
OBS_STD = [2.0, 1.75, 1.125, 0.875, 2.5, 2.5]
OBS_CLIP = 1.5


def normalize(obs):
    scaled = (obs - tf.constant(OBS_MEAN, obs.dtype)) / tf.constant(OBS_STD, obs.dtype)
    return tf.clip_by_value(scaled, -OBS_CLIP, OBS_CLIP)


def layer_norm(x, name=None):
    """As tf.contrib.layers.layer_norm; without a name it has no beta and gamma."""
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    if name is None:
        return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-12)
    with tf.variable_scope(name):
        beta = tf.get_variable("beta", [x.shape.as_list()[-1]], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [x.shape.as_list()[-1]], x.dtype, tf.ones_initializer())
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def actor(obs):
    with tf.variable_scope("actor", reuse=tf.AUTO_REUSE):
        x = tf.nn.relu(layer_norm(tf.layers.dense(obs, HIDDEN, name="fc1"), "ln1"))
        x = tf.nn.relu(layer_norm(tf.layers.dense(x, HIDDEN, name="fc2"), "ln2"))
        return tf.nn.tanh(tf.layers.dense(x, ACTION_DIM, name="pi"))


def critic(obs, action, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        x = tf.nn.relu(layer_norm(tf.layers.dense(obs, HIDDEN, name="fc1"), "ln1"))
        x = tf.concat([x, action], axis=-1)
        x = tf.nn.relu(layer_norm(tf.layers.dense(x, HIDDEN, name="fc2"), "ln2"))
        return tf.squeeze(tf.layers.dense(x, 1, name="q"), -1)


def snapshot(seed, inputs, late, outputs):
    """Kernels and biases of a target network, drawn once: `late` inputs join in front of the second layer."""
    rng = np.random.RandomState(seed)
    layers = []
    for n, m in ((inputs, HIDDEN), (HIDDEN + late, HIDDEN), (HIDDEN, outputs)):
        layers.append((rng.normal(0, n ** -0.5, (n, m)).astype("float32"), rng.normal(0, 0.1, m).astype("float32")))
    return layers


def target_network(obs, layers, action=None):
    def linear(x, kernel, bias):
        return tf.matmul(x, tf.constant(kernel, x.dtype)) + tf.constant(bias, x.dtype)

    x = tf.nn.relu(layer_norm(linear(obs, *layers[0])))
    if action is not None:
        x = tf.concat([x, action], axis=-1)
    x = tf.nn.relu(layer_norm(linear(x, *layers[1])))
    return linear(x, *layers[2])


def huber(x):
    return tf.where(tf.abs(x) < 1.0, 0.5 * tf.square(x), tf.abs(x) - 0.5)


def tower(obs, action, reward, next_obs, done, noise, weights):
    obs, next_obs = normalize(obs), normalize(next_obs)
    next_action = tf.nn.tanh(target_network(next_obs, snapshot(1, OBS_DIM, 0, ACTION_DIM)))
    next_action += tf.clip_by_value(noise, -NOISE_CLIP, NOISE_CLIP)
    next_action = tf.clip_by_value(next_action, -1.0, 1.0)
    next_q1 = tf.squeeze(target_network(next_obs, snapshot(2, OBS_DIM, ACTION_DIM, 1), next_action), -1)
    next_q2 = tf.squeeze(target_network(next_obs, snapshot(3, OBS_DIM, ACTION_DIM, 1), next_action), -1)
    target_q = tf.stop_gradient(reward + GAMMA * (1.0 - done) * tf.minimum(next_q1, next_q2))

    scaled = action / MAX_ACTION
    q1 = critic(obs, scaled, "critic_1")
    q2 = critic(obs, scaled, "critic_2")
    critic_loss = tf.reduce_mean(weights * (huber(q1 - target_q) + huber(q2 - target_q)))
    kernels = [v for v in tf.trainable_variables() if "critic" in v.name and "kernel" in v.name and "/q/" not in v.name]
    critic_loss += CRITIC_L2 * tf.add_n([tf.nn.l2_loss(v) for v in kernels])

    pi = actor(obs)
    q_pi = critic(obs, pi, "critic_1")
    actor_loss = -tf.reduce_mean(q_pi) + ACTION_L2 * tf.reduce_mean(tf.square(pi))
    return critic_loss, {"target_q": target_q, "q1": q1, "q2": q2, "pi": pi, "q_pi": q_pi, "actor_loss": actor_loss}
