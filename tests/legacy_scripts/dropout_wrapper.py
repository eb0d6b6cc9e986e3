"""`dynamic_rnn` with a DropoutWrapper: draws for the inputs and the outputs of every time step, inside the loop."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
UNITS = 4


def tower_loss(words, targets):
    embedding = tf.get_variable("embedding", [8, 3], initializer=tf.random_normal_initializer(seed=1))
    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS, forget_bias=0.5)
    cell = tf.nn.rnn_cell.DropoutWrapper(cell, input_keep_prob=0.8, output_keep_prob=0.6)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(embedding, words), dtype=tf.float32)
    softmax = tf.get_variable("softmax_w", [UNITS, 8], initializer=tf.random_normal_initializer(stddev=0.5, seed=2))
    logits = tf.matmul(tf.reshape(outputs, [-1, UNITS]), softmax)
    return tf.losses.sparse_softmax_cross_entropy(tf.reshape(targets, [-1]), logits)


def average(gradients):
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    return tf.reduce_mean(tf.stack(dense), 0)


words = tf.placeholder(tf.int32, [6, 5], "words")
targets = tf.placeholder(tf.int32, [6, 5], "targets")
opt = tf.train.MomentumOptimizer(0.2, 0.9)
initializer = tf.random_uniform_initializer(-0.5, 0.5, seed=3)
tower_grads = []
for i, (piece, wanted) in enumerate(zip(tf.split(words, 2), tf.split(targets, 2))):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        with tf.variable_scope("lm", reuse=i > 0, initializer=initializer):
            tower_grads.append(opt.compute_gradients(tower_loss(piece, wanted)))
averaged = [(average([g for g, _ in pairs]), pairs[0][1]) for pairs in zip(*tower_grads)]
train_op = opt.apply_gradients(averaged, tf.train.get_or_create_global_step())
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
    sess.run(tf.global_variables_initializer())
    for k in range(STEPS):
        random = np.random.RandomState(k)
        sess.run(train_op, {words: random.randint(8, size=(6, 5)), targets: random.randint(8, size=(6, 5))})
    if os.environ.get("SAVE"):
        values = {v.op.name: sess.run(v) for v in tf.global_variables()}
        np.savez(os.environ["SAVE"], **{name.replace("/", "|"): value for name, value in values.items()})
print("done")
