"""Actor-critic with an LSTM, and beside it the inverse and the forward model whose error is its curiosity."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_ACTIONS = 4
LSTM_SIZE = 16
ENTROPY_BETA = 0.01
FORWARD_LOSS_WT = 0.2
PREDICTION_LR_SCALE = 10.0


def normalized_columns_initializer(std=1.0):
    def _initializer(shape, dtype=None, partition_info=None):
        out = np.random.RandomState(shape[0]).randn(*shape)
        out *= std / np.sqrt(np.square(out).sum(axis=0, keepdims=True))
        return tf.constant(out, dtype=dtype)
    return _initializer


def flatten(x):
    return tf.reshape(x, [-1, int(np.prod(x.get_shape().as_list()[1:]))])


def conv2d(x, num_filters, name, filter_size=(3, 3), stride=(2, 2), pad="SAME"):
    with tf.variable_scope(name):
        filter_shape = [filter_size[0], filter_size[1], int(x.get_shape()[3]), num_filters]
        fan_in = np.prod(filter_shape[:3])
        fan_out = np.prod(filter_shape[:2]) * num_filters
        w_bound = np.sqrt(6. / (fan_in + fan_out))
        w = tf.get_variable("W", filter_shape, x.dtype, tf.random_uniform_initializer(-w_bound, w_bound))
        b = tf.get_variable("b", [1, 1, 1, num_filters], x.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.conv2d(x, w, [1, stride[0], stride[1], 1], pad) + b


def linear(x, size, name, initializer=None):
    w = tf.get_variable(name + "/w", [x.get_shape()[1], size], x.dtype, initializer=initializer)
    b = tf.get_variable(name + "/b", [size], x.dtype, initializer=tf.constant_initializer(0))
    return tf.matmul(x, w) + b


def universe_head(x):
    for i, filters in enumerate([8, 8, 16]):
        x = tf.nn.elu(conv2d(x, filters, "l{}".format(i + 1)))
    return flatten(x)


def lstm_policy(observations, c_in, h_in):
    """Logits and values of the first steps of the rollouts, one row for each step."""
    steps = observations.shape.as_list()[1]
    x = universe_head(tf.reshape(observations, [-1] + observations.shape.as_list()[2:]))
    x = tf.reshape(x, [-1, steps, x.shape.as_list()[1]])
    lstm = tf.nn.rnn_cell.BasicLSTMCell(LSTM_SIZE, state_is_tuple=True)
    state_in = tf.nn.rnn_cell.LSTMStateTuple(c_in, h_in)
    outputs, _ = tf.nn.dynamic_rnn(lstm, x, initial_state=state_in, time_major=False)
    x = tf.reshape(outputs, [-1, LSTM_SIZE])
    vf = tf.reshape(linear(x, 1, "value", normalized_columns_initializer(1.0)), [-1])
    logits = linear(x, NUM_ACTIONS, "action", normalized_columns_initializer(0.01))
    return logits, vf


def state_action_predictor(s1, s2, asample, aindex):
    phi1 = universe_head(s1)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        phi2 = universe_head(s2)
    size = 24
    # inverse model: g(phi1, phi2) -> a_inv
    g = tf.concat([phi1, phi2], 1)
    g = tf.nn.relu(linear(g, size, "g1", normalized_columns_initializer(0.01)))
    logits = linear(g, NUM_ACTIONS, "glast", normalized_columns_initializer(0.01))
    invloss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=aindex), name="invloss")
    # forward model: f(phi1, asample) -> phi2
    f = tf.concat([phi1, asample], 1)
    f = tf.nn.relu(linear(f, size, "f1", normalized_columns_initializer(0.01)))
    f = linear(f, phi1.get_shape()[1], "flast", normalized_columns_initializer(0.01))
    forwardloss = 0.5 * tf.reduce_mean(tf.square(tf.subtract(f, phi2)), name="forwardloss")
    forwardloss = forwardloss * float(phi1.get_shape().as_list()[1])
    return invloss, forwardloss


def tower(frames, actions, advantages, returns, c_in, h_in):
    frame_shape = frames.shape.as_list()[2:]
    aindex = tf.reshape(actions, [-1])
    ac = tf.one_hot(aindex, NUM_ACTIONS, dtype=frames.dtype)
    adv = tf.reshape(advantages, [-1])
    r = tf.reshape(returns, [-1])

    with tf.variable_scope("global"):
        logits, vf = lstm_policy(frames[:, :-1], c_in, h_in)
    with tf.variable_scope("predictor"):
        s1 = tf.reshape(frames[:, :-1], [-1] + frame_shape)
        s2 = tf.reshape(frames[:, 1:], [-1] + frame_shape)
        invloss, forwardloss = state_action_predictor(s1, s2, ac, aindex)

    log_prob = tf.nn.log_softmax(logits)
    prob = tf.nn.softmax(logits)
    pi_loss = -tf.reduce_sum(tf.reduce_sum(log_prob * ac, 1) * adv)
    vf_loss = 0.5 * tf.reduce_sum(tf.square(vf - r))
    entropy = -tf.reduce_sum(prob * log_prob)
    loss = pi_loss + 0.5 * vf_loss - entropy * ENTROPY_BETA
    predloss = PREDICTION_LR_SCALE * (invloss * (1 - FORWARD_LOSS_WT) + forwardloss * FORWARD_LOSS_WT)
    return loss + predloss, {"logits": logits, "values": vf, "entropy": entropy, "invloss": invloss, "forwardloss": forwardloss}
