"""Deformable convolutions: a 3x3 convolution predicts offsets, the map is sampled there, bilinearly, by gathers."""
import tensorflow.compat.v1 as tf

TAPS = 9
WEIGHT_DECAY = 1e-3


def conv(x, filters, stride, name):
    return tf.layers.conv2d(x, filters, 3, strides=stride, padding="same", use_bias=False, name=name,
                            kernel_initializer=tf.variance_scaling_initializer(2.0))


def bn_relu(x, name, training):
    x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-3, training=training, fused=False, name=name)
    return tf.nn.relu(x)


def gather_pixels(x, ys, xs):
    """x: [b, h, w, c], ys and xs: [b, h, w, taps] of integers; returns [b, h, w, taps, c]."""
    b = tf.shape(xs)[0]
    h, w, n = xs.shape.as_list()[1:]
    batch_idx = tf.tile(tf.reshape(tf.range(b), [-1, 1, 1, 1]), [1, h, w, n])
    return tf.gather_nd(x, tf.stack([batch_idx, ys, xs], axis=-1))


def deform_conv(x, filters, name):
    """3x3, stride 1: one offset (y, x) for each tap at each pixel, all taps with SAME's implicit grid."""
    h, w, c = x.shape.as_list()[1:]
    with tf.variable_scope(name):
        offsets = tf.layers.conv2d(x, 2 * TAPS, 3, padding="same", name="offset",
                                   kernel_initializer=tf.random_normal_initializer(stddev=0.05))
        offsets = tf.reshape(offsets, [-1, h, w, TAPS, 2])
        dy, dx = tf.meshgrid(tf.range(-1, 2), tf.range(-1, 2), indexing="ij")
        gy, gx = tf.meshgrid(tf.range(h), tf.range(w), indexing="ij")
        py = tf.cast(gy[:, :, None] + tf.reshape(dy, [1, 1, TAPS]), x.dtype)
        px = tf.cast(gx[:, :, None] + tf.reshape(dx, [1, 1, TAPS]), x.dtype)
        # samples that leave the image are taken at its edge
        sy = tf.clip_by_value(py[None] + offsets[..., 0], 0., h - 1.)
        sx = tf.clip_by_value(px[None] + offsets[..., 1], 0., w - 1.)
        y0, x0 = tf.floor(sy), tf.floor(sx)
        wy, wx = tf.expand_dims(sy - y0, -1), tf.expand_dims(sx - x0, -1)
        y0, x0 = tf.cast(y0, tf.int32), tf.cast(x0, tf.int32)
        y1, x1 = tf.minimum(y0 + 1, h - 1), tf.minimum(x0 + 1, w - 1)
        top = gather_pixels(x, y0, x0) * (1. - wx) + gather_pixels(x, y0, x1) * wx
        bottom = gather_pixels(x, y1, x0) * (1. - wx) + gather_pixels(x, y1, x1) * wx
        sampled = top * (1. - wy) + bottom * wy
        kernel = tf.get_variable("kernel", [3, 3, c, filters], x.dtype, tf.variance_scaling_initializer(2.0))
        out = tf.tensordot(tf.reshape(sampled, [-1, h, w, TAPS * c]), tf.reshape(kernel, [TAPS * c, filters]), 1)
    return out, offsets


def tower(images, labels, training=True):
    x = bn_relu(conv(images, 6, 1, "conv1"), "bn1", training)
    x, offsets = deform_conv(x, 8, "deform2")
    x = bn_relu(x, "bn2", training)
    stage1 = x
    x = bn_relu(conv(x, 12, 2, "conv3"), "bn3", training)
    stage2 = x
    x = tf.reduce_mean(x, [1, 2])
    logits = tf.layers.dense(x, 4, name="fc")
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    kernels = [v for v in tf.trainable_variables() if "kernel" in v.op.name and "offset" not in v.op.name]
    loss = xent + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return loss, {"offsets": tf.reshape(offsets, [-1, 12, 10, 2 * TAPS]), "stage1": stage1, "stage2": stage2,
                  "logits": logits}
