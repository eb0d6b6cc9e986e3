"""R2D2: a convolutional recurrent dueling network, trained on replayed stretches with stored state and burn-in, double Q-learning
over two steps on rescaled values."""
import tensorflow.compat.v1 as tf

NUM_ACTION = 4
LSTM_SIZE = 18
BURN_IN = 3
N_STEP = 2
GAMMA = 0.97
EPS = 1e-2


def value_function_rescaling(x):
    return tf.sign(x) * (tf.sqrt(tf.abs(x) + 1.) - 1.) + EPS * x


def inverse_value_function_rescaling(x):
    return tf.sign(x) * (tf.square((tf.sqrt(1. + 4. * EPS * (tf.abs(x) + 1. + EPS)) - 1.) / (2. * EPS)) - 1.)


def cnn(x, trainable):
    x = tf.layers.conv2d(x, 8, 4, strides=2, padding="valid", activation=tf.nn.relu, trainable=trainable, name="conv1")
    x = tf.layers.conv2d(x, 12, 3, strides=1, padding="valid", activation=tf.nn.relu, trainable=trainable, name="conv2")
    x = tf.layers.flatten(x)
    return tf.layers.dense(x, 24, activation=tf.nn.relu, trainable=trainable, name="fc")


def dueling(x, trainable):
    a = tf.layers.dense(x, 14, activation=tf.nn.relu, trainable=trainable, name="a_hidden")
    a = tf.layers.dense(a, NUM_ACTION, trainable=trainable, name="a")
    v = tf.layers.dense(x, 14, activation=tf.nn.relu, trainable=trainable, name="v_hidden")
    v = tf.layers.dense(v, 1, trainable=trainable, name="v")
    return v + a - tf.reduce_mean(a, axis=-1, keepdims=True)


def build_network(name, obs, prev_action, prev_reward, done, initial_h, initial_c, trainable):
    """Q of every step behind the burn-in, [batch, steps, actions]."""
    length = obs.get_shape().as_list()[1]
    with tf.variable_scope(name):
        frames = tf.reshape(obs / 255., [-1] + obs.get_shape().as_list()[2:])
        features = tf.reshape(cnn(frames, trainable), [-1, length, 24])
        inputs = tf.concat([features, tf.one_hot(prev_action, NUM_ACTION, dtype=obs.dtype), prev_reward[:, :, None]], 2)
        cell = tf.nn.rnn_cell.LSTMCell(LSTM_SIZE, trainable=trainable, name="lstm")
        state = tf.nn.rnn_cell.LSTMStateTuple(initial_c, initial_h)
        outputs = []
        for t in range(length):
            if t == BURN_IN:
                state = tf.nn.rnn_cell.LSTMStateTuple(tf.stop_gradient(state.c), tf.stop_gradient(state.h))
            if t > 0:
                keep = (1. - done[:, t - 1])[:, None]
                state = tf.nn.rnn_cell.LSTMStateTuple(state.c * keep, state.h * keep)
            output, state = cell(inputs[:, t], state)
            if t >= BURN_IN:
                outputs.append(output)
        return dueling(tf.stack(outputs, axis=1), trainable)


def tower(obs, prev_action, prev_reward, action, reward, done, initial_h, initial_c, weight):
    sequence = (obs, prev_action, prev_reward, done, initial_h, initial_c)
    main_q = build_network("main", *sequence, trainable=True)
    target_q = build_network("target", *sequence, trainable=False)
    action, reward, done = action[:, BURN_IN:], reward[:, BURN_IN:], done[:, BURN_IN:]

    next_action = tf.one_hot(tf.argmax(main_q, axis=2), NUM_ACTION, dtype=obs.dtype)
    next_value = inverse_value_function_rescaling(tf.reduce_sum(target_q * next_action, axis=2))
    learnt = main_q.get_shape().as_list()[1] - N_STEP
    target = next_value[:, N_STEP:]
    for i in reversed(range(N_STEP)):
        target = reward[:, i:i + learnt] + GAMMA * (1. - done[:, i:i + learnt]) * target
    target = tf.stop_gradient(value_function_rescaling(target))

    taken = tf.reduce_sum(main_q * tf.one_hot(action, NUM_ACTION, dtype=obs.dtype), axis=2)[:, :learnt]
    td_error = target - taken
    loss = tf.reduce_mean(weight * tf.reduce_sum(0.5 * tf.square(td_error), axis=1))
    return loss, {"q": main_q, "target_q": target_q, "mean_abs_td": tf.reduce_mean(tf.abs(td_error))}
