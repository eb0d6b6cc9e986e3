"""tf.split, a shared variable scope, summed gradients, weight decay in every tower, Momentum with a decaying rate."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

FLAGS = tf.flags.FLAGS
tf.flags.DEFINE_integer("max_steps", 4, "Number of updates.")
tf.flags.DEFINE_integer("num_gpus", 2, "Number of towers.")
tf.flags.DEFINE_string("save", "", "Where the last weights go.")


def combine_gradients(tower_grads):
    """Sums the gradients of the towers."""
    final = []
    for grads in zip(*tower_grads):
        final.append((tf.add_n([g for g, _ in grads]), grads[0][1]))
    return final


def tower_loss(images, labels):
    kernel = tf.get_variable(
        "conv/kernel", [3, 3, 2, 4], initializer=tf.truncated_normal_initializer(stddev=0.2, seed=3)
    )
    bias = tf.get_variable("conv/bias", [4], initializer=tf.constant_initializer(0.1))
    net = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, [1, 2, 2, 1], "SAME"), bias))
    net = tf.reshape(net, [-1, 3 * 3 * 4])
    weights = tf.get_variable("fc/weights", [36, 3], initializer=tf.truncated_normal_initializer(stddev=0.1, seed=4))
    logits = tf.matmul(net, weights)
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    decay = 0.01 * (tf.nn.l2_loss(kernel) + tf.nn.l2_loss(weights))
    return xent + decay


def main(argv):
    del argv
    images = tf.placeholder(tf.float32, [8, 6, 6, 2], name="images")
    labels = tf.placeholder(tf.int64, [8], name="labels")
    global_step = tf.train.get_or_create_global_step()
    lr = tf.train.exponential_decay(0.05, global_step, 2, 0.5, staircase=True)
    opt = tf.train.MomentumOptimizer(lr, 0.9)
    tower_inputs = tf.split(images, FLAGS.num_gpus, 0)
    tower_labels = tf.split(labels, FLAGS.num_gpus, 0)
    tower_grads, losses = [], []
    for i in range(FLAGS.num_gpus):
        with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
            with tf.variable_scope("model", reuse=i > 0):
                loss = tower_loss(tower_inputs[i], tower_labels[i])
                losses.append(loss)
                tower_grads.append(opt.compute_gradients(loss))
    train_op = opt.apply_gradients(combine_gradients(tower_grads), global_step=global_step)
    random = np.random.RandomState(1)
    config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.max_steps):
            feed = {images: random.randn(8, 6, 6, 2), labels: random.randint(3, size=8)}
            _, loss_value, step = sess.run([train_op, loss, global_step], feed)
            print("loss %.5f" % loss_value)
        if FLAGS.save:
            np.savez(FLAGS.save, **{v.op.name.replace("/", "|"): sess.run(v) for v in tf.global_variables()})
    sys.exit(3 if FLAGS.num_gpus > 3 else 0)


if __name__ == "__main__":
    tf.app.run()
