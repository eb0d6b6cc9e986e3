"""Decoder-only language model, written like the first GPT code: everything is a one-by-one convolution."""
import numpy as np
import tensorflow.compat.v1 as tf

N_VOCAB = 64
N_CTX = 14
N_EMBD = 32
N_HEAD = 4
N_LAYER = 2
LABEL_SMOOTHING = 0.1


def shape_list(x):
    static = x.shape.as_list()
    dynamic = tf.shape(x)
    return [dynamic[i] if s is None else s for i, s in enumerate(static)]


def gelu(x):
    return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))


def norm(x, scope, epsilon=1e-5):
    with tf.variable_scope(scope):
        n_state = x.shape.as_list()[-1]
        g = tf.get_variable("g", [n_state], x.dtype, initializer=tf.constant_initializer(1))
        b = tf.get_variable("b", [n_state], x.dtype, initializer=tf.constant_initializer(0))
        u = tf.reduce_mean(x, axis=-1, keepdims=True)
        s = tf.reduce_mean(tf.square(x - u), axis=-1, keepdims=True)
        return (x - u) * tf.rsqrt(s + epsilon) * g + b


def conv1d(x, scope, nf, w_init_stdev=0.02):
    with tf.variable_scope(scope):
        *start, nx = shape_list(x)
        w = tf.get_variable("w", [1, nx, nf], x.dtype, initializer=tf.random_normal_initializer(stddev=w_init_stdev))
        b = tf.get_variable("b", [nf], x.dtype, initializer=tf.constant_initializer(0))
        return tf.reshape(tf.matmul(tf.reshape(x, [-1, nx]), tf.reshape(w, [-1, nf])) + b, start + [nf])


def attention_mask(n, dtype):
    i = tf.range(n)[:, None]
    j = tf.range(n)
    return tf.cast(i >= j, dtype)


def split_heads(x):
    *start, m = shape_list(x)
    return tf.transpose(tf.reshape(x, start + [N_HEAD, m // N_HEAD]), [0, 2, 1, 3])


def merge_heads(x):
    x = tf.transpose(x, [0, 2, 1, 3])
    *start, a, b = shape_list(x)
    return tf.reshape(x, start + [a * b])


def attn(x, scope):
    with tf.variable_scope(scope):
        q, k, v = map(split_heads, tf.split(conv1d(x, "c_attn", 3 * N_EMBD), 3, axis=2))
        w = tf.matmul(q, k, transpose_b=True)
        w = w * tf.rsqrt(tf.cast(N_EMBD // N_HEAD, w.dtype))
        b = tf.reshape(attention_mask(N_CTX, w.dtype), [1, 1, N_CTX, N_CTX])
        w = w * b - tf.constant(1e10, w.dtype) * (1 - b)
        return conv1d(merge_heads(tf.matmul(tf.nn.softmax(w), v)), "c_proj", N_EMBD)


def mlp(x, scope, n_state):
    with tf.variable_scope(scope):
        h = gelu(conv1d(x, "c_fc", n_state))
        return conv1d(h, "c_proj", N_EMBD)


def tower(inputs, targets, weights):
    dtype = weights.dtype
    with tf.variable_scope("model"):
        wpe = tf.get_variable("wpe", [N_CTX, N_EMBD], dtype, initializer=tf.random_normal_initializer(stddev=0.01))
        wte = tf.get_variable("wte", [N_VOCAB, N_EMBD], dtype, initializer=tf.random_normal_initializer(stddev=0.02))
        embedded = tf.gather(wte, inputs) * N_EMBD ** 0.5 + wpe
        h = embedded
        for layer in range(N_LAYER):
            with tf.variable_scope("h%d" % layer):
                h = h + attn(norm(h, "ln_1"), "attn")
                h = h + mlp(norm(h, "ln_2"), "mlp", N_EMBD * 4)
        h = norm(h, "ln_f")
        logits = tf.matmul(tf.reshape(h, [-1, N_EMBD]), wte, transpose_b=True)
    # smoothing spreads over the other classes only, and the entropy of the target is taken off
    confidence = 1.0 - LABEL_SMOOTHING
    low_confidence = LABEL_SMOOTHING / (N_VOCAB - 1)
    normalizing = -(confidence * np.log(confidence) + (N_VOCAB - 1) * low_confidence * np.log(low_confidence + 1e-20))
    soft_targets = tf.one_hot(tf.reshape(targets, [-1]), N_VOCAB, on_value=tf.constant(confidence, dtype),
                              off_value=tf.constant(low_confidence, dtype), dtype=dtype)
    xentropy = tf.nn.softmax_cross_entropy_with_logits_v2(labels=soft_targets, logits=logits) - normalizing
    weight = tf.reshape(weights, [-1])
    loss = tf.reduce_sum(xentropy * weight) / tf.reduce_sum(weight)
    return loss, {"embedded": embedded, "hidden": h, "logits": tf.reshape(logits, [-1, N_CTX, N_VOCAB])}
