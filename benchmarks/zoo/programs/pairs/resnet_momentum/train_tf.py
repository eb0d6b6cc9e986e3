"""Residual network on several towers: momentum, L2 loss, batch norm whose statistics tower 0 keeps."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()

BN_DECAY = 0.9
BN_EPSILON = 1e-3


def conv(x, name, ksize, out_ch, stride):
    in_ch = x.get_shape().as_list()[-1]
    with tf.variable_scope(name):
        init = tf.variance_scaling_initializer(scale=2.0, mode="fan_out")
        w = tf.get_variable("kernel", [ksize, ksize, in_ch, out_ch], dtype=tf.float32, initializer=init)
        return tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding="SAME")


def batch_norm(x, name):
    """Training form: the batch's own moments; the first tower updates the moving ones."""
    ch = x.get_shape().as_list()[-1]
    with tf.variable_scope(name):
        beta = tf.get_variable("beta", [ch], tf.float32, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [ch], tf.float32, tf.ones_initializer())
        moving_mean = tf.get_variable("moving_mean", [ch], tf.float32, tf.zeros_initializer(), trainable=False)
        moving_var = tf.get_variable("moving_variance", [ch], tf.float32, tf.ones_initializer(), trainable=False)
        mean, var = tf.nn.moments(x, [0, 1, 2], name="moments")
        if not tf.get_variable_scope().reuse:
            for moving, value in ((moving_mean, mean), (moving_var, var)):
                update = tf.assign_sub(moving, (1.0 - BN_DECAY) * (moving - value))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, BN_EPSILON)


def block(x, name, out_ch, stride):
    with tf.variable_scope(name):
        shortcut = x
        if stride != 1:
            shortcut = batch_norm(conv(x, "shortcut", 1, out_ch, stride), "bn_shortcut")
        x = tf.nn.relu(batch_norm(conv(x, "conv_a", 3, out_ch, stride), "bn_a"))
        x = batch_norm(conv(x, "conv_b", 3, out_ch, 1), "bn_b")
        return tf.nn.relu(x + shortcut)


def resnet(x):
    x = tf.nn.relu(batch_norm(conv(x, "stem", 3, 8, 1), "bn_stem"))
    x = block(x, "block1", 8, 1)
    x = block(x, "block2", 16, 2)
    x = tf.reduce_mean(x, [1, 2])
    with tf.variable_scope("fc"):
        w = tf.get_variable("w", [16, 5], tf.float32, tf.truncated_normal_initializer(stddev=0.1))
        b = tf.get_variable("b", [5], tf.float32, tf.zeros_initializer())
    return tf.nn.xw_plus_b(x, w, b)


def average_gradients(tower_grads):
    return [(tf.reduce_mean(tf.stack([g for g, _ in pairs]), axis=0), pairs[0][1]) for pairs in zip(*tower_grads)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_gpus", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=6, help="of one GPU")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--weight_decay", type=float, default=5e-4)
    args = parser.parse_args()

    tf.set_random_seed(7)
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.piecewise_constant(global_step, [4, 7], [0.1, 0.01, 0.001])
    opt = tf.train.MomentumOptimizer(learning_rate, 0.9)
    xs, ys, losses, tower_grads = [], [], [], []
    for i in range(args.num_gpus):
        with tf.device("/gpu:%d" % i), tf.variable_scope("resnet", reuse=i > 0), tf.name_scope("tower_%d" % i):
            xs.append(tf.placeholder(tf.float32, [args.batch_size, 12, 12, 3], name="x"))
            ys.append(tf.placeholder(tf.int64, [args.batch_size], name="y"))
            xent = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=resnet(xs[i]), labels=ys[i])
            decayed = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "bn_" not in v.name]
            loss = tf.reduce_mean(xent) + args.weight_decay * tf.add_n(decayed)
            losses.append(loss)
            tower_grads.append(opt.compute_gradients(loss))
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        train_op = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)
    mean_loss = tf.reduce_mean(tf.stack(losses))

    rng = np.random.RandomState(5)
    config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(args.steps):
            feed = {}
            for x, y in zip(xs, ys):
                labels = rng.randint(0, 5, args.batch_size)
                feed[y] = labels
                feed[x] = 1.5 * rng.randn(args.batch_size, 12, 12, 3) + labels[:, None, None, None] - 2.0
            _, value = sess.run([train_op, mean_loss], feed_dict=feed)
            print("Step %03d loss %.5f" % (step, value))


if __name__ == "__main__":
    main()
