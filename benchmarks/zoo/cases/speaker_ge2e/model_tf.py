"""Generalised end-to-end speaker verification: projected LSTMs, last output, cosine to centroids, contrast loss."""
import tensorflow.compat.v1 as tf

from data import UTTERANCES as M

HIDDEN, PROJ, NUM_LAYER = 24, 12, 2


def normalize(x):
    """Normalises the last dimension of a tensor."""
    return x / tf.sqrt(tf.reduce_sum(x ** 2, axis=-1, keep_dims=True) + 1e-6)


def cossim(x, y, is_normalized=True):
    if is_normalized:
        return tf.reduce_sum(x * y, axis=-1)
    return tf.reduce_sum(normalize(x) * normalize(y), axis=-1)


def slower(x, factor):
    """The value of x, with its gradient multiplied by factor."""
    return factor * x + tf.stop_gradient((1.0 - factor) * x)


def similarity(embedded, w, b, N, P):
    embedded_split = tf.reshape(embedded, [N, M, P])
    center = normalize(tf.reduce_mean(embedded_split, axis=1))
    center_except = normalize(tf.reshape(tf.reduce_sum(embedded_split, axis=1, keep_dims=True) - embedded_split, [N * M, P]))
    S = tf.concat(
        [tf.concat([tf.reduce_sum(center_except[i * M:(i + 1) * M, :] * embedded_split[j, :, :], axis=1, keep_dims=True)
                    if i == j else tf.reduce_sum(center[i:i + 1, :] * embedded_split[j, :, :], axis=1, keep_dims=True)
                    for i in range(N)], axis=1) for j in range(N)], axis=0)
    return tf.abs(w) * S + b


def loss_cal(S, N):
    S_sig = tf.sigmoid(S)
    S_correct = tf.concat([S_sig[i * M:(i + 1) * M, i:(i + 1)] for i in range(N)], axis=0)
    S_other = tf.concat(
        [tf.concat([0 * S_sig[i * M:(i + 1) * M, j:(j + 1)] if i == j else S_sig[i * M:(i + 1) * M, j:(j + 1)]
                    for j in range(N)], axis=1) for i in range(N)], axis=0)
    return tf.reduce_sum(1 - S_correct + tf.reduce_max(S_other, axis=1, keep_dims=True))


def tower(frames):
    dtype = frames.dtype
    N = frames.shape.as_list()[0] // M
    w = tf.get_variable("w", [], dtype, initializer=tf.constant_initializer(4.0))
    b = tf.get_variable("b", [], dtype, initializer=tf.constant_initializer(-2.0))
    batch = tf.transpose(frames, [1, 0, 2])
    with tf.variable_scope("lstm"):
        cells = [tf.nn.rnn_cell.LSTMCell(num_units=HIDDEN, num_proj=PROJ) for _ in range(NUM_LAYER)]
        lstm = tf.nn.rnn_cell.MultiRNNCell(cells)
        outputs, _ = tf.nn.dynamic_rnn(cell=lstm, inputs=batch, dtype=dtype, time_major=True)
        embedded = outputs[-1]
        embedded = normalize(embedded)
    sim_matrix = similarity(embedded, slower(w, 0.01), slower(b, 0.01), N, PROJ)
    return loss_cal(sim_matrix, N), {"embedded": embedded, "similarity": sim_matrix}
