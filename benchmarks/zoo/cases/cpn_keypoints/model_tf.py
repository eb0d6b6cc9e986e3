"""Cascaded pyramid network for keypoints: a residual backbone in slim's manner, GlobalNet as a feature pyramid that is supervised at
every level, RefineNet with bottlenecks, and online mining of the hardest joints."""
import numpy as np
import tensorflow.compat.v1 as tf

NR_SKELETON = 6
OUTPUT_SHAPE = (16, 12)
DIM = 24
TOP_K = 3
WEIGHT_DECAY = 1e-3
BN_DECAY = 0.9
BN_EPSILON = 1e-5


class Slim(object):
    """What the network needs of slim: conv2d with or without a normaliser, under an argument scope."""

    def __init__(self, is_training):
        self.is_training = is_training

    def batch_norm(self, x):
        return tf.layers.batch_normalization(x, momentum=BN_DECAY, epsilon=BN_EPSILON, training=self.is_training, name="BatchNorm",
                                             fused=False)

    def conv2d(self, inputs, num_outputs, kernel_size, stride=1, activation_fn=tf.nn.relu, normalize=True, padding="SAME", scope=None):
        with tf.variable_scope(scope):
            shape = [kernel_size, kernel_size, int(inputs.get_shape()[-1]), num_outputs]
            weights = tf.get_variable("weights", shape, inputs.dtype, initializer=tf.glorot_uniform_initializer())
            net = tf.nn.conv2d(inputs, weights, [1, stride, stride, 1], padding)
            if normalize:
                net = self.batch_norm(net)
            else:
                net = tf.nn.bias_add(net, tf.get_variable("biases", [num_outputs], inputs.dtype, initializer=tf.zeros_initializer()))
            return net if activation_fn is None else activation_fn(net)

    def conv2d_same(self, inputs, num_outputs, kernel_size, stride, scope=None):
        if stride == 1:
            return self.conv2d(inputs, num_outputs, kernel_size, scope=scope)
        pad_beg = (kernel_size - 1) // 2
        pad_end = kernel_size - 1 - pad_beg
        inputs = tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])
        return self.conv2d(inputs, num_outputs, kernel_size, stride, padding="VALID", scope=scope)

    def bottleneck(self, inputs, depth, depth_bottleneck, stride, scope=None):
        with tf.variable_scope(scope):
            if depth == int(inputs.get_shape()[-1]):
                shortcut = inputs if stride == 1 else inputs[:, ::stride, ::stride]
            else:
                shortcut = self.conv2d(inputs, depth, 1, stride, activation_fn=None, scope="shortcut")
            residual = self.conv2d(inputs, depth_bottleneck, 1, scope="conv1")
            residual = self.conv2d_same(residual, depth_bottleneck, 3, stride, scope="conv2")
            residual = self.conv2d(residual, depth, 1, activation_fn=None, scope="conv3")
            return tf.nn.relu(shortcut + residual)


def resize_bilinear(x, size):
    """tf.image.resize_bilinear with neither aligned corners nor half pixels, which itself gives float32 whatever it is given."""
    def weights(have, wanted):
        source = np.arange(wanted) * (have / wanted)
        low = np.floor(source).astype(int)
        rows = np.eye(have)
        part = (source - low)[:, None]
        return tf.constant((1 - part) * rows[low] + part * rows[np.minimum(low + 1, have - 1)], x.dtype)

    height, width = x.get_shape().as_list()[1:3]
    if (height, width) == tuple(size):
        return x
    return tf.einsum("bhwc,ph,qw->bpqc", x, weights(height, size[0]), weights(width, size[1]))


def resnet(slim, image):
    with tf.variable_scope("resnet"):
        net = slim.conv2d_same(image, 8, 3, stride=2, scope="conv1")
        blocks = []
        for i, (depth, stride) in enumerate([(16, 1), (24, 2), (32, 2)]):
            with tf.variable_scope("block{}".format(i + 1)):
                net = slim.bottleneck(net, depth, depth // 4, stride, scope="unit_1")
            blocks.append(net)
    return blocks


def create_global_net(slim, blocks):
    global_fms, global_outs = [], []
    last_fm = None
    for i, block in enumerate(reversed(blocks)):
        lateral = slim.conv2d(block, DIM, 1, scope="lateral/res{}".format(4 - i))
        if last_fm is not None:
            sz = lateral.get_shape().as_list()
            upsample = resize_bilinear(last_fm, (sz[1], sz[2]))
            upsample = slim.conv2d(upsample, DIM, 1, activation_fn=None, normalize=False, scope="merge/res{}".format(4 - i))
            last_fm = upsample + lateral
        else:
            last_fm = lateral
        tmp = slim.conv2d(last_fm, DIM, 1, scope="tmp/res{}".format(4 - i))
        out = slim.conv2d(tmp, NR_SKELETON, 3, activation_fn=None, scope="pyramid/res{}".format(4 - i))
        global_fms.append(last_fm)
        global_outs.append(resize_bilinear(out, OUTPUT_SHAPE))
    global_fms.reverse()
    global_outs.reverse()
    return global_fms, global_outs


def create_refine_net(slim, blocks):
    refine_fms = []
    for i, block in enumerate(blocks):
        mid_fm = block
        for j in range(i):
            mid_fm = slim.bottleneck(mid_fm, DIM, DIM // 2, 1, scope="res{}/refine_conv{}".format(2 + i, j))
        refine_fms.append(resize_bilinear(mid_fm, OUTPUT_SHAPE))
    refine_fm = tf.concat(refine_fms, axis=3)
    refine_fm = slim.bottleneck(refine_fm, DIM, DIM // 2, 1, scope="final_bottleneck")
    return slim.conv2d(refine_fm, NR_SKELETON, 3, activation_fn=None, scope="refine_out")


def ohkm(loss, top_k):
    topk_val, _ = tf.nn.top_k(loss, k=top_k, sorted=False, name="ohkm")
    return tf.reduce_mean(tf.reduce_sum(topk_val, axis=1) / top_k)


def tower(image, label11, label9, label7, valids, training=True):
    slim = Slim(training)
    labels = [label11, label9, label7]
    blocks = resnet(slim, image)
    global_fms, global_outs = create_global_net(slim, blocks)
    refine_out = create_refine_net(slim, global_fms)

    global_loss = 0.0
    visible = tf.cast(tf.greater(tf.reshape(valids, (-1, 1, 1, NR_SKELETON)), 1.1), image.dtype)
    for global_out, label in zip(global_outs, labels):
        global_loss += tf.reduce_mean(tf.square(global_out - label * visible)) / len(labels)
    global_loss /= 2.0
    refine_loss = tf.reduce_mean(tf.square(refine_out - label7), (1, 2)) * tf.cast(tf.greater(valids, 0.1), image.dtype)
    refine_loss = ohkm(refine_loss, TOP_K)
    l2 = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("weights")])
    end_points = {"block3": blocks[-1], "fine": global_fms[0], "coarse_out": global_outs[-1], "refine_out": refine_out,
                  "global_loss": global_loss, "refine_loss": refine_loss}
    return refine_loss + global_loss + l2, end_points
