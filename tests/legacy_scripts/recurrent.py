"""An LSTM in a tf.while_loop over looked-up words: averaged IndexedSlices, dropout on the output, a fed rate."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
UNITS = 3


def lstm(inputs):
    kernel = tf.get_variable(
        "kernel", [2 + UNITS, 4 * UNITS], initializer=tf.random_normal_initializer(0.0, 0.4, seed=4)
    )
    bias = tf.get_variable("bias", [4 * UNITS], initializer=tf.constant_initializer(0.05))
    outputs = tf.TensorArray(tf.float32, 4)

    def step(t, c, h, outputs):
        gates = tf.matmul(tf.concat([inputs[:, t], h], 1), kernel) + bias
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, outputs.write(t, h)

    zeros = tf.zeros([tf.shape(inputs)[0], UNITS])
    _, _, _, outputs = tf.while_loop(lambda t, *_: t < 4, step, [0, zeros, zeros, outputs])
    return tf.transpose(outputs.stack(), [1, 0, 2])


def tower_loss(words, targets):
    embedding = tf.get_variable("embedding", [9, 2], initializer=tf.random_normal_initializer(seed=1))
    outputs = tf.nn.dropout(lstm(tf.nn.embedding_lookup(embedding, words)), rate=0.4, seed=12)
    softmax = tf.get_variable("softmax_w", [UNITS, 9], initializer=tf.random_normal_initializer(stddev=0.5, seed=2))
    logits = tf.matmul(tf.reshape(outputs, [-1, UNITS]), softmax)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    return tf.reduce_sum(loss) / 12.0


def average(pairs):
    gradients = [g for g, _ in pairs]
    if isinstance(gradients[0], tf.IndexedSlices):
        values = tf.concat([g.values for g in gradients], 0) / len(gradients)
        return tf.IndexedSlices(values, tf.concat([g.indices for g in gradients], 0), gradients[0].dense_shape)
    return tf.add_n(gradients) / len(gradients)


words = tf.placeholder(tf.int32, [6, 4], "words")
targets = tf.placeholder(tf.int32, [6, 4], "targets")
rate = tf.placeholder(tf.float32, [], "rate")
opt = tf.train.AdamOptimizer(rate)
tower_grads = []
for i, (piece, wanted) in enumerate(zip(tf.split(words, 2), tf.split(targets, 2))):
    with tf.name_scope("tower_%d" % i), tf.variable_scope("lm", reuse=i > 0):
        tower_grads.append(opt.compute_gradients(tower_loss(piece, wanted)))
global_step = tf.train.get_or_create_global_step()
train_op = opt.apply_gradients([(average(pairs), pairs[0][1]) for pairs in zip(*tower_grads)], global_step)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for k in range(STEPS):
        random = np.random.RandomState(k)
        feed = {words: random.randint(9, size=(6, 4)), targets: random.randint(9, size=(6, 4)), rate: 0.1 / (k + 1)}
        sess.run(train_op, feed)
print("done")
