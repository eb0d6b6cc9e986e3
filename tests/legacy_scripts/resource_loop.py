"""Resource variables, dropout inside a tf.while_loop, an averaged sparse gradient, a decaying rate."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.enable_resource_variables()


def tower(ids, keep_prob):
    embedded = tf.nn.embedding_lookup(tf.get_variable("embedding", [7, 4]), ids)
    kernel = tf.get_variable("kernel", [4, 4])

    def step(t, state):
        return t + 1, tf.tanh(tf.matmul(state, kernel) + tf.nn.dropout(embedded[:, t], rate=1 - keep_prob))

    _, state = tf.while_loop(lambda t, _: t < 3, step, [0, tf.zeros([2, 4])])
    return tf.reduce_mean(tf.square(state))


def average(pairs):
    first = pairs[0][0]
    if isinstance(first, tf.IndexedSlices):
        values = tf.concat([g.values for g, _ in pairs], 0) / len(pairs)
        return tf.IndexedSlices(values, tf.concat([g.indices for g, _ in pairs], 0), first.dense_shape)
    return tf.add_n([g for g, _ in pairs]) / len(pairs)


tokens = tf.placeholder(tf.int32, [4, 3], "tokens")
keep = tf.placeholder_with_default(0.8, [], "keep")
global_step = tf.train.get_or_create_global_step()
opt = tf.train.AdamOptimizer(tf.train.exponential_decay(0.1, global_step, 2, 0.5))
tower_grads = []
for i, piece in enumerate(tf.split(tokens, 2)):
    with tf.name_scope("tower_%d" % i), tf.variable_scope("rnn", reuse=i > 0):
        tower_grads.append(opt.compute_gradients(tower(piece, keep)))
train_op = opt.apply_gradients([(average(pairs), pairs[0][1]) for pairs in zip(*tower_grads)], global_step)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for k in range(4):
        sess.run(train_op, {tokens: np.random.RandomState(k).randint(7, size=(4, 3))})
print("done")
