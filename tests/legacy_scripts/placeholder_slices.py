"""Two towers over slices of one placeholder, average_gradients, Adam: the way of many tutorials."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--num_gpus", type=int, default=2)
parser.add_argument("--save", default="")
args = parser.parse_args()

BATCH = 6


def net(x, reuse):
    with tf.variable_scope("net", reuse=reuse):
        w1 = tf.get_variable("w1", [5, 4], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
        b1 = tf.get_variable("b1", [4], initializer=tf.zeros_initializer())
        w2 = tf.get_variable("w2", [4, 3], initializer=tf.random_normal_initializer(stddev=0.3, seed=2))
        b2 = tf.get_variable("b2", [3], initializer=tf.zeros_initializer())
    hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
    return tf.matmul(hidden, w2) + b2


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = []
        for g, _ in grad_and_vars:
            grads.append(tf.expand_dims(g, 0))
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


with tf.device("/cpu:0"):
    X = tf.placeholder(tf.float32, [None, 5], name="X")
    Y = tf.placeholder(tf.float32, [None, 3], name="Y")
    tower_grads = []
    reuse_vars = False
    for i in range(args.num_gpus):
        with tf.device("/gpu:%d" % i):
            _x = X[i * BATCH : (i + 1) * BATCH]
            _y = Y[i * BATCH : (i + 1) * BATCH]
            logits = net(_x, reuse_vars)
            loss_op = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=_y))
            optimizer = tf.train.AdamOptimizer(learning_rate=0.01)
            tower_grads.append(optimizer.compute_gradients(loss_op))
            reuse_vars = True
    train_op = optimizer.apply_gradients(average_gradients(tower_grads))
    init = tf.global_variables_initializer()

random = np.random.RandomState(0)
with tf.Session() as sess:
    sess.run(init)
    for step in range(args.steps):
        batch_x = random.randn(args.num_gpus * BATCH, 5).astype(np.float32)
        batch_y = np.eye(3, dtype=np.float32)[random.randint(3, size=args.num_gpus * BATCH)]
        sess.run(train_op, feed_dict={X: batch_x, Y: batch_y})
        loss = sess.run(loss_op, feed_dict={X: batch_x, Y: batch_y})
        print("Step %d loss %.6f" % (step, loss))
    if args.save:
        np.savez(args.save, **{v.op.name.replace("/", "|"): sess.run(v) for v in tf.global_variables()})
    print("Optimization Finished!")
