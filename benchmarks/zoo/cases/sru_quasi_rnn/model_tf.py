"""Language model of a quasi-recurrent layer (convolutions of width two, fo-pooling) under a simple recurrent unit."""
import tensorflow.compat.v1 as tf

VOCAB = 48
SIZE = 20
ALPHA = 2.0   # activation regularisation
BETA = 1.0    # temporal activation regularisation


def _uniform(scale):
    return tf.random_uniform_initializer(-scale, scale)


def qrnn_layer(inputs, keep, scope):
    """inputs [batch, time, size]; keep [batch, time] is 0 where a document begins."""
    dtype = inputs.dtype
    with tf.variable_scope(scope):
        w = tf.get_variable("W", [2, SIZE, 3 * SIZE], dtype, initializer=_uniform(0.2))
        b = tf.get_variable("b", [3 * SIZE], dtype, initializer=tf.zeros_initializer())
        c0 = tf.get_variable("c0", [SIZE], dtype, initializer=tf.zeros_initializer())
        padded = tf.pad(inputs, [[0, 0], [1, 0], [0, 0]])  # only the past is seen
        gates = tf.nn.bias_add(tf.nn.conv1d(padded, w, stride=1, padding="VALID"), b)
        z, f, o = tf.split(gates, 3, axis=2)
        z = tf.tanh(z)
        f = tf.sigmoid(f) * tf.expand_dims(keep, 2)
        o = tf.sigmoid(o)

        def pool(c, step):
            z_t, f_t = step
            return f_t * c + (1.0 - f_t) * z_t

        initial = tf.tile(tf.expand_dims(c0, 0), [tf.shape(inputs)[0], 1])
        cells = tf.scan(pool, (tf.transpose(z, [1, 0, 2]), tf.transpose(f, [1, 0, 2])), initializer=initial)
        return o * tf.transpose(cells, [1, 0, 2])


def sru_layer(inputs, keep, scope):
    dtype = inputs.dtype
    with tf.variable_scope(scope):
        w = tf.get_variable("W", [SIZE, 3 * SIZE], dtype, initializer=_uniform(0.3))
        bf = tf.get_variable("b_forget", [SIZE], dtype, initializer=tf.ones_initializer())
        br = tf.get_variable("b_highway", [SIZE], dtype, initializer=tf.zeros_initializer())
        u = tf.tensordot(inputs, w, [[2], [0]])
        candidate, f, r = tf.split(u, 3, axis=2)
        f = tf.sigmoid(f + bf) * tf.expand_dims(keep, 2)
        r = tf.sigmoid(r + br)
        c = tf.zeros_like(inputs[:, 0])
        outputs = []
        for x_t, u_t, f_t, r_t in zip(*(tf.unstack(v, axis=1) for v in (inputs, candidate, f, r))):
            c = f_t * c + (1.0 - f_t) * u_t
            outputs.append(r_t * tf.tanh(c) + (1.0 - r_t) * x_t)
        return tf.stack(outputs, axis=1)


def tower(inputs, targets, starts, weights):
    dtype = weights.dtype
    with tf.variable_scope("lm"):
        embedding = tf.get_variable("embedding", [VOCAB, SIZE], dtype, initializer=_uniform(0.4))
        softmax_b = tf.get_variable("softmax_b", [VOCAB], dtype, initializer=tf.zeros_initializer())
        keep = 1.0 - starts
        x = tf.nn.embedding_lookup(embedding, inputs)
        lower = qrnn_layer(x, keep, "qrnn")
        upper = sru_layer(lower, keep, "sru")
        logits = tf.tensordot(upper, embedding, [[2], [1]]) + softmax_b
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    batch = tf.cast(tf.shape(inputs)[0], dtype)
    nll = tf.reduce_sum(xent * weights) / batch
    ar = tf.reduce_mean(tf.square(upper))
    tar = tf.reduce_mean(tf.square(upper[:, 1:] - upper[:, :-1]))
    loss = nll + ALPHA * ar + BETA * tar
    return loss, {"qrnn": lower, "sru": upper, "logits": logits, "nll": nll}
