"""QMIX: recurrent agents that share their weights, mixed by a monotonic network whose weights a hypernetwork makes."""
import tensorflow.compat.v1 as tf

N_AGENTS = 3
N_ACTIONS = 5
RNN_HIDDEN = 16
MIXING_EMBED = 8
GAMMA = 0.95


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation=activation, name=name, reuse=tf.AUTO_REUSE,
                           kernel_initializer=tf.variance_scaling_initializer(1.0, "fan_avg", "uniform"))


def agent_inputs(obs, actions):
    """What an agent sees, what it did last, and who it is."""
    last = tf.one_hot(actions, N_ACTIONS, dtype=obs.dtype)
    last = tf.concat([tf.zeros_like(last[:, :1]), last], axis=1)
    shape = tf.shape(obs)
    ids = tf.tile(tf.eye(N_AGENTS, dtype=obs.dtype)[None, None], [shape[0], shape[1], 1, 1])
    return tf.concat([obs, last, ids], axis=3)


def agent_network(inputs):
    steps, width = inputs.shape.as_list()[1], inputs.shape.as_list()[3]
    x = tf.transpose(inputs, [0, 2, 1, 3])
    x = tf.reshape(x, [-1, steps, width])
    x = dense(x, RNN_HIDDEN, "fc1", tf.nn.relu)
    with tf.variable_scope("rnn", reuse=tf.AUTO_REUSE):
        cell = tf.nn.rnn_cell.GRUCell(RNN_HIDDEN)
        x, _ = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype)
    q = dense(x, N_ACTIONS, "fc2")
    q = tf.reshape(q, [-1, N_AGENTS, steps, N_ACTIONS])
    return tf.transpose(q, [0, 2, 1, 3])


def mixing_network(agent_qs, states):
    """agent_qs [batch, time, agents], states [batch, time, width] to [batch, time]."""
    steps = states.shape.as_list()[1]
    states = tf.reshape(states, [-1, states.shape.as_list()[2]])
    qs = tf.reshape(agent_qs, [-1, 1, N_AGENTS])
    w1 = tf.abs(dense(states, N_AGENTS * MIXING_EMBED, "hyper_w1"))
    w1 = tf.reshape(w1, [-1, N_AGENTS, MIXING_EMBED])
    b1 = tf.reshape(dense(states, MIXING_EMBED, "hyper_b1"), [-1, 1, MIXING_EMBED])
    hidden = tf.nn.elu(tf.matmul(qs, w1) + b1)
    w2 = tf.abs(dense(states, MIXING_EMBED, "hyper_w2"))
    w2 = tf.reshape(w2, [-1, MIXING_EMBED, 1])
    b2 = dense(dense(states, MIXING_EMBED, "hyper_b2_1", tf.nn.relu), 1, "hyper_b2_2")
    q_total = tf.matmul(hidden, w2) + tf.reshape(b2, [-1, 1, 1])
    return tf.reshape(q_total, [-1, steps])


def as_target(getter, name, *args, **kwargs):
    kwargs["trainable"] = False
    return getter(name, *args, **kwargs)


def tower(obs, state, available, actions, rewards, terminated, filled):
    inputs = agent_inputs(obs, actions)
    with tf.variable_scope("eval_net"):
        mac_out = agent_network(inputs)
    with tf.variable_scope("target_net", custom_getter=as_target):
        target_mac_out = agent_network(inputs)[:, 1:]

    chosen = tf.one_hot(actions, N_ACTIONS, dtype=obs.dtype)
    chosen_qs = tf.reduce_sum(mac_out[:, :-1] * chosen, axis=3)

    # double Q: the online agents choose among what is available, the target agents say what it is worth
    masked = tf.where(tf.equal(available, 0), tf.ones_like(mac_out) * -9999999.0, mac_out)
    best = tf.one_hot(tf.argmax(masked[:, 1:], axis=3), N_ACTIONS, dtype=obs.dtype)
    target_qs = tf.reduce_sum(target_mac_out * best, axis=3)

    with tf.variable_scope("eval_net/mixer"):
        q_total = mixing_network(chosen_qs, state[:, :-1])
    with tf.variable_scope("target_net/mixer", custom_getter=as_target):
        target_q_total = mixing_network(target_qs, state[:, 1:])

    targets = rewards + GAMMA * (1.0 - terminated) * target_q_total
    td_error = tf.stop_gradient(targets) - q_total
    masked_td_error = filled * td_error
    loss = tf.reduce_sum(tf.square(masked_td_error)) / tf.reduce_sum(filled)
    return loss, {"agent_qs": mac_out, "q_total": q_total, "targets": targets}
