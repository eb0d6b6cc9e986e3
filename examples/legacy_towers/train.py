"""A legacy script as they are found: a conv net on the GPUs of one machine, one tower each, in TensorFlow 1.15.

Nobody has to edit it: `parity record` runs it as it stands, `parity port` writes its PyTorch program and proves it.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--num_gpus", type=int, default=2)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--steps", type=int, default=20)
FLAGS = parser.parse_args()
SIDE, CLASSES, DECAY = 12, 3, 0.004


def conv_layer(scope, x, channels):
    with tf.variable_scope(scope):
        kernel = tf.get_variable(
            "weights", [5, 5, int(x.shape[3]), channels], initializer=tf.truncated_normal_initializer(stddev=0.1)
        )
        biases = tf.get_variable("biases", [channels], initializer=tf.zeros_initializer())
        conv = tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME")
        return tf.nn.relu(tf.nn.bias_add(conv, biases))


def inference(images):
    net = conv_layer("conv1", images, 8)
    net = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
    net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    net = conv_layer("conv2", net, 8)
    net = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
    flat = tf.reshape(net, [-1, int(np.prod(net.shape[1:]))])
    with tf.variable_scope("softmax_linear"):
        weights = tf.get_variable(
            "weights", [int(flat.shape[1]), CLASSES], initializer=tf.truncated_normal_initializer(stddev=0.04)
        )
        biases = tf.get_variable("biases", [CLASSES], initializer=tf.zeros_initializer())
        return tf.matmul(flat, weights) + biases, weights


def tower_loss(images, labels):
    logits, weights = inference(images)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(cross_entropy) + DECAY * tf.nn.l2_loss(weights)


def combine_gradients(tower_grads):
    averaged = []
    for pairs in zip(*tower_grads):
        averaged.append((tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1]))
    return averaged


def synthetic_batch(random, size):
    """Bars that lie, stand or cross, with noise: something to learn without a download."""
    labels = random.randint(CLASSES, size=size)
    images = 0.3 * random.randn(size, SIDE, SIDE, 1)
    for image, label in zip(images, labels):
        place = random.randint(2, SIDE - 2)
        if label != 1:
            image[place] += 1.0
        if label != 0:
            image[:, place] += 1.0
    return images.astype(np.float32), labels.astype(np.int32)


def main():
    tf.set_random_seed(1)
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.exponential_decay(0.05, global_step, 10, 0.5, staircase=True)
    optimizer = tf.train.MomentumOptimizer(learning_rate, 0.9)
    with tf.device("/cpu:0"):
        images = tf.placeholder(tf.float32, [FLAGS.batch_size, SIDE, SIDE, 1], "images")
        labels = tf.placeholder(tf.int32, [FLAGS.batch_size], "labels")
    tower_grads = []
    pieces = zip(tf.split(images, FLAGS.num_gpus), tf.split(labels, FLAGS.num_gpus))
    for i, (image_piece, label_piece) in enumerate(pieces):
        with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
            with tf.variable_scope(tf.get_variable_scope(), reuse=i > 0):
                loss = tower_loss(image_piece, label_piece)
                tower_grads.append(optimizer.compute_gradients(loss))
    train_op = optimizer.apply_gradients(combine_gradients(tower_grads), global_step=global_step)
    random = np.random.RandomState(0)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps):
            image_batch, label_batch = synthetic_batch(random, FLAGS.batch_size)
            _, value = session.run([train_op, loss], {images: image_batch, labels: label_batch})
            if step % 5 == 0:
                print("step %d, loss %.3f" % (step, value))


if __name__ == "__main__":
    main()
