"""A convolutional net with channels first, as scripts for GPUs have it, and the same with channels last."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

tf.disable_v2_behavior()


def net(images, order):
    """The net in one layout: `order` is "NCHW" or "NHWC"."""

    def of(batch, rows, columns):
        return [batch, 1, rows, columns] if order == "NCHW" else [batch, rows, columns, 1]

    def weight(name, shape):
        return tf.get_variable(name, shape, initializer=tf.random_normal_initializer(stddev=0.5, seed=len(shape)))

    y = tf.nn.conv2d(images, weight("first", [3, 3, 2, 3]), of(1, 2, 1), "SAME", data_format=order)
    y = tf.nn.bias_add(y, weight("bias", [3]), data_format=order)
    y = tf.nn.max_pool(tf.tanh(y), of(1, 2, 3), of(1, 1, 2), "SAME", data_format=order)
    y = tf.nn.depthwise_conv2d(y, weight("depthwise", [2, 2, 3, 2]), of(1, 1, 1), "VALID", data_format=order)
    scale, offset = weight("gamma", [6]), weight("beta", [6])
    y, _, _ = tf.nn.fused_batch_norm(y, scale, offset, epsilon=1.0, data_format=order)
    y = tf.nn.avg_pool(tf.tanh(y), of(1, 2, 1), of(1, 1, 1), "VALID", data_format=order)
    y = tf.nn.conv2d(y, weight("last", [2, 1, 6, 2]), of(1, 1, 1), "VALID", data_format=order)
    return tf.reduce_mean(tf.square(y)) + tf.reduce_mean(tf.reduce_sum(y, axis=[1, 2, 3]))


x = tf.placeholder(tf.float32, [2, 2, 9, 8], "x")
with tf.variable_scope("net"):
    first = net(x, "NCHW")
with tf.variable_scope("net", reuse=True):
    last = net(tf.transpose(x, [0, 2, 3, 1]), "NHWC")


def main():
    opt = tf.train.GradientDescentOptimizer(0.1)
    train = opt.apply_gradients(opt.compute_gradients(first if "NCHW" in sys.argv else last))
    config = tf.ConfigProto()
    if "NCHW" in sys.argv and hasattr(rewriter_config_pb2.RewriterConfig, "NCHW_TO_NHWC"):
        config.graph_options.rewrite_options.cpu_layout_conversion = rewriter_config_pb2.RewriterConfig.NCHW_TO_NHWC
        config.graph_options.rewrite_options.min_graph_nodes = -1
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for k in range(2):
            sess.run(train, {x: np.random.RandomState(k).randn(2, 2, 9, 8)})


if __name__ == "__main__":
    main()
