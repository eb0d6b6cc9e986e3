"""Conditional gated PixelCNN: a vertical and a horizontal stack of masked convolutions, softmax over grey levels."""
import numpy as np
import tensorflow.compat.v1 as tf

LEVELS = 5
CLASSES = 4
F_MAP = 12
LAYERS = 3


def get_weights(shape, name, dtype, stack=None, mask=None):
    W = tf.get_variable(name, shape, dtype, initializer=tf.glorot_uniform_initializer())
    if mask is None:
        return W
    mask_filter = np.ones(shape, dtype.as_numpy_dtype)
    mid_y, mid_x = shape[0] // 2, shape[1] // 2
    if stack == "vertical":
        # rows above; from the second layer on the row itself too, whose features know nothing but rows above
        mask_filter[mid_y if mask == "a" else mid_y + 1:, :, :, :] = 0.
    else:
        mask_filter[:, mid_x if mask == "a" else mid_x + 1:, :, :] = 0.
    return W * mask_filter


def get_bias(n, name, dtype):
    return tf.get_variable(name, [n], dtype, initializer=tf.zeros_initializer())


def conv_op(x, W):
    return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding="SAME")


def gated_conv(x, size, h, stack, mask, payload=None):
    W = get_weights(size + [x.get_shape().as_list()[3], 2 * F_MAP], "W", x.dtype, stack, mask)
    b = get_bias(2 * F_MAP, "b", x.dtype)
    V = get_weights([CLASSES, 2 * F_MAP], "V", x.dtype)
    out = conv_op(x, W) + b + tf.reshape(tf.matmul(h, V), [-1, 1, 1, 2 * F_MAP])
    if payload is not None:
        out += payload
    out_f, out_g = tf.split(out, 2, axis=3)
    return tf.tanh(out_f) * tf.sigmoid(out_g)


def simple_conv(x, n, activation=None):
    W = get_weights([1, 1, x.get_shape().as_list()[3], n], "W", x.dtype)
    out = conv_op(x, W) + get_bias(n, "b", x.dtype)
    return activation(out) if activation is not None else out


def tower(images, labels, valid):
    h = tf.one_hot(labels, CLASSES, dtype=images.dtype)
    x = images / (LEVELS - 1)
    v_stack_in, h_stack_in = x, x
    for i in range(LAYERS):
        mask = "b" if i > 0 else "a"
        size = 3 if i > 0 else 5
        with tf.variable_scope("v_stack_%d" % i):
            v_stack_in = gated_conv(v_stack_in, [size, size], h, "vertical", mask)
        with tf.variable_scope("v_to_h_%d" % i):
            payload = simple_conv(v_stack_in, 2 * F_MAP)
        with tf.variable_scope("h_stack_%d" % i):
            h_stack = gated_conv(h_stack_in, [1, size], h, "horizontal", mask, payload=payload)
        with tf.variable_scope("h_stack_1_%d" % i):
            h_stack_1 = simple_conv(h_stack, F_MAP)
            if i > 0:
                h_stack_1 += h_stack_in
            h_stack_in = h_stack_1
    with tf.variable_scope("fc_1"):
        fc1 = simple_conv(tf.nn.relu(h_stack_in), 16, tf.nn.relu)
    with tf.variable_scope("fc_2"):
        logits = simple_conv(fc1, LEVELS)

    targets = tf.cast(tf.squeeze(images, [3]), tf.int32)
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    loss = tf.reduce_sum(nll * valid) / tf.reduce_sum(valid)
    bits = loss / np.log(2.)
    return loss, {"v_stack": v_stack_in, "h_stack": h_stack_in, "logits": logits, "bits_per_dim": bits}
