"""Holistically-nested edges: a side output behind each stage, upsampled by a fixed bilinear deconvolution, and a learnt
sum of all of them. Each is trained by a cross entropy that balances edge and other pixels."""
import numpy as np
import tensorflow.compat.v1 as tf

STAGES = [(1, 2, 8), (2, 2, 12), (3, 3, 16)]    # number, convolutions, channels
WEIGHT_DECAY = 2e-4


def Conv2D(name, l, channels, kernel_size=3, activation=tf.nn.relu, use_bias=True, kernel_initializer=None):
    with tf.variable_scope(name):
        shape = [kernel_size, kernel_size, l.get_shape().as_list()[3], channels]
        W = tf.get_variable('W', shape, l.dtype, kernel_initializer or tf.variance_scaling_initializer(2.0, dtype=l.dtype))
        l = tf.nn.conv2d(l, W, [1, 1, 1, 1], 'SAME')
        if use_bias:
            l = tf.nn.bias_add(l, tf.get_variable('b', [channels], l.dtype, tf.zeros_initializer()))
        return activation(l)


def bilinear_filler(size):
    """The kernel of Caffe's BilinearFiller."""
    factor = np.ceil(size / 2.)
    centre = (2 * factor - 1 - factor % 2) / (2. * factor)
    line = 1 - np.abs(np.arange(size) / factor - centre)
    return line[:, None] * line[None, :]


def BilinearUpSample(x, factor):
    """Only for maps of one channel."""
    height, width = x.get_shape().as_list()[1:3]
    kernel = tf.constant(bilinear_filler(2 * factor)[:, :, None, None], x.dtype)
    margin = factor - 1
    x = tf.pad(x, [[0, 0], [margin, margin], [margin, margin], [0, 0]], mode='SYMMETRIC')
    out_shape = tf.shape(x) * tf.constant([1, factor, factor, 1])
    x = tf.nn.conv2d_transpose(x, kernel, out_shape, [1, factor, factor, 1], 'SAME')
    edge = factor * (factor - 1)
    x = x[:, edge:-edge, edge:-edge, :]
    x.set_shape([None, height * factor, width * factor, 1])
    return x


def class_balanced_sigmoid_cross_entropy(logits, label):
    y = tf.cast(label, logits.dtype)
    count_neg = tf.reduce_sum(1. - y)
    count_pos = tf.reduce_sum(y)
    beta = count_neg / (count_neg + count_pos)
    pos_weight = beta / (1 - beta)
    cost = tf.nn.weighted_cross_entropy_with_logits(labels=y, logits=logits, pos_weight=pos_weight)
    return tf.reduce_mean(cost * (1 - beta))


def tower(image, edgemap):
    l = image - tf.constant([104, 116, 122], image.dtype)
    l = l / 60.
    edgemap = tf.expand_dims(edgemap, 3)
    maps = []
    for number, convolutions, channels in STAGES:
        for i in range(convolutions):
            l = Conv2D('conv%d_%d' % (number, i + 1), l, channels)
        with tf.variable_scope('branch%d' % number):
            b = Conv2D('convfc', l, 1, kernel_size=1, activation=tf.identity,
                       kernel_initializer=tf.constant_initializer(0.05))
            for _ in range(number - 1):
                b = BilinearUpSample(b, 2)
            maps.append(b)
        l = tf.nn.max_pool(l, [1, 2, 2, 1], [1, 2, 2, 1], 'VALID')
    final_map = Conv2D('convfcweight', tf.concat(maps, 3), 1, kernel_size=1, activation=tf.identity, use_bias=False,
                       kernel_initializer=tf.constant_initializer(1. / len(maps)))
    costs = [class_balanced_sigmoid_cross_entropy(b, edgemap) for b in maps + [final_map]]
    wd_cost = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith('/W')])
    outputs = {'output%d' % (i + 1): b for i, b in enumerate(maps)}
    outputs.update(fused=final_map, xentropy=costs[-1])
    return tf.add_n(costs + [wd_cost]), outputs
