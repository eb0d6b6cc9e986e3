"""A small SegNet: max pooling keeps its indices, the decoder puts values back to where they came from."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 5  # the label 5 is void
CLASS_WEIGHTS = [0.35, 0.5, 1.2, 3.0, 2.2]
MEAN_BGR = [103.94, 116.78, 123.68]
BN_DECAY = 0.99
BN_EPSILON = 1e-3


def batch_norm_layer(x, training, scope):
    # as contrib's batch_norm: no gamma
    with tf.variable_scope(scope + "_bn"):
        shape = [x.shape.as_list()[-1]]
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                     tf.assign_sub(moving, (moving - value) * (1.0 - BN_DECAY)))
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, None, BN_EPSILON)


def conv_layer_with_bn(x, shape, training, name, activation=True):
    with tf.variable_scope(name):
        kernel = tf.get_variable("weights", shape, x.dtype, initializer=tf.orthogonal_initializer())
        biases = tf.get_variable("biases", [shape[3]], x.dtype, initializer=tf.constant_initializer(0.0))
        conv = tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="SAME"), biases)
        out = batch_norm_layer(conv, training, "conv")
        return tf.nn.relu(out) if activation else out


def max_pool_with_argmax(x):
    return tf.nn.max_pool_with_argmax(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


def unpool_with_argmax(pool, argmax, name):
    with tf.variable_scope(name):
        batch = tf.shape(pool)[0]
        _, h, w, c = pool.shape.as_list()
        flat_output = h * w * c * 4
        offset = tf.reshape(tf.range(tf.cast(batch, argmax.dtype), dtype=argmax.dtype) * flat_output, [-1, 1, 1, 1])
        indices = tf.reshape(argmax + offset, [-1, 1])
        values = tf.reshape(pool, [-1])
        out = tf.scatter_nd(indices, values, [tf.cast(batch, argmax.dtype) * flat_output])
        return tf.reshape(out, [-1, 2 * h, 2 * w, c])


def weighted_loss(logits, labels):
    dtype = logits.dtype
    logits = tf.reshape(logits, [-1, NUM_CLASSES])
    labels = tf.reshape(labels, [-1])
    keep = tf.less(labels, NUM_CLASSES)
    logits = tf.boolean_mask(logits, keep)
    labels = tf.one_hot(tf.boolean_mask(labels, keep), NUM_CLASSES, dtype=dtype)
    epsilon = tf.constant(1e-10, dtype)
    softmax = tf.nn.softmax(logits)
    cross_entropy = -tf.reduce_sum(labels * tf.log(softmax + epsilon) * np.array(CLASS_WEIGHTS), axis=[1])
    return tf.reduce_mean(cross_entropy, name="cross_entropy")


def tower(images, labels, training=True):
    red, green, blue = tf.split(images, 3, axis=3)
    bgr = tf.concat([blue - MEAN_BGR[0], green - MEAN_BGR[1], red - MEAN_BGR[2]], axis=3)
    x = bgr / 64.0

    conv1 = conv_layer_with_bn(x, [5, 5, 3, 12], training, "conv1")
    pool1, argmax1 = max_pool_with_argmax(conv1)
    conv2 = conv_layer_with_bn(pool1, [3, 3, 12, 16], training, "conv2")
    pool2, argmax2 = max_pool_with_argmax(conv2)
    conv3 = conv_layer_with_bn(pool2, [3, 3, 16, 24], training, "conv3")
    pool3, argmax3 = max_pool_with_argmax(conv3)

    up3 = unpool_with_argmax(pool3, argmax3, "unpool3")
    decode3 = conv_layer_with_bn(up3, [3, 3, 24, 16], training, "conv_decode3", activation=False)
    up2 = unpool_with_argmax(decode3, argmax2, "unpool2")
    decode2 = conv_layer_with_bn(up2, [3, 3, 16, 12], training, "conv_decode2", activation=False)
    up1 = unpool_with_argmax(decode2, argmax1, "unpool1")
    decode1 = conv_layer_with_bn(up1, [5, 5, 12, 10], training, "conv_decode1", activation=False)

    with tf.variable_scope("conv_classifier"):
        kernel = tf.get_variable("weights", [1, 1, 10, NUM_CLASSES], images.dtype,
                                 initializer=tf.variance_scaling_initializer(scale=2.0))
        biases = tf.get_variable("biases", [NUM_CLASSES], images.dtype, initializer=tf.constant_initializer(0.0))
        logits = tf.nn.bias_add(tf.nn.conv2d(decode1, kernel, [1, 1, 1, 1], padding="SAME"), biases)
    loss = weighted_loss(logits, labels)
    return loss, {"pool1": pool1, "pool2": pool2, "pool3": pool3, "decode3": decode3, "decode2": decode2,
                  "decode1": decode1, "logits": logits}
