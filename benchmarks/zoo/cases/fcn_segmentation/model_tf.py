"""A fully convolutional network: a VGG-like encoder, scores at three strides, learned upsampling."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 5
IGNORE_LABEL = 255
BGR_MEAN = [104.5, 116.75, 122.5]
CLASS_WEIGHTS = [0.5, 0.75, 1.0, 2.0, 4.0]


def conv_layer(bottom, size, filters, name, relu=True):
    with tf.variable_scope(name):
        channels = bottom.get_shape().as_list()[3]
        filt = tf.get_variable('filter', [size, size, channels, filters], bottom.dtype,
                               tf.truncated_normal_initializer(stddev=np.sqrt(2.0 / (size * size * channels)), dtype=bottom.dtype))
        biases = tf.get_variable('biases', [filters], bottom.dtype, tf.constant_initializer(0.05))
        out = tf.nn.bias_add(tf.nn.conv2d(bottom, filt, [1, 1, 1, 1], padding='SAME'), biases)
        return tf.nn.relu(out) if relu else out


def max_pool(bottom, name):
    return tf.nn.max_pool(bottom, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding='SAME', name=name)


def bilinear_filter(size, classes):
    factor = (size + 1) // 2
    centre = factor - 1.0 if size % 2 else factor - 0.5
    line = 1 - np.abs(np.arange(size) - centre) / factor
    return np.einsum('i,j,ab->ijab', line, line, np.eye(classes))


def upscore_layer(bottom, like, size, name):
    """Twice the height and width of `bottom`."""
    with tf.variable_scope(name):
        _, height, width, _ = like.get_shape().as_list()
        init = tf.constant_initializer(bilinear_filter(size, NUM_CLASSES))
        filt = tf.get_variable('up_filter', [size, size, NUM_CLASSES, NUM_CLASSES], bottom.dtype, init)
        shape = tf.stack([tf.shape(bottom)[0], height, width, NUM_CLASSES])
        out = tf.nn.conv2d_transpose(bottom, filt, shape, strides=[1, 2, 2, 1], padding='SAME')
        out.set_shape([None, height, width, NUM_CLASSES])
        return out


def fcn8(images):
    with tf.name_scope('processing'):
        red, green, blue = tf.split(images, 3, 3)
        bgr = tf.concat([(c - m) / 64.0 for c, m in zip([blue, green, red], BGR_MEAN)], 3)
    net = conv_layer(bgr, 3, 8, 'conv1_1')
    net = conv_layer(net, 3, 8, 'conv1_2')
    pool1 = max_pool(net, 'pool1')
    net = conv_layer(pool1, 3, 12, 'conv2_1')
    pool2 = max_pool(net, 'pool2')
    net = conv_layer(pool2, 3, 16, 'conv3_1')
    net = conv_layer(net, 3, 16, 'conv3_2')
    pool3 = max_pool(net, 'pool3')
    net = conv_layer(pool3, 3, 22, 'fc6')
    net = conv_layer(net, 1, 18, 'fc7')
    score_fr = conv_layer(net, 1, NUM_CLASSES, 'score_fr', relu=False)

    upscore2 = upscore_layer(score_fr, pool2, 4, 'upscore2')
    fuse_pool2 = upscore2 + conv_layer(pool2, 1, NUM_CLASSES, 'score_pool2', relu=False)
    upscore4 = upscore_layer(fuse_pool2, pool1, 3, 'upscore4')
    # trained at once: the shallow stream enters scaled down
    fuse_pool1 = upscore4 + conv_layer(0.25 * pool1, 1, NUM_CLASSES, 'score_pool1', relu=False)
    upscore8 = upscore_layer(fuse_pool1, images, 4, 'upscore8')
    return upscore8, fuse_pool2, fuse_pool1


def tower(images, labels):
    logits, fuse_pool2, fuse_pool1 = fcn8(images)
    with tf.name_scope('loss'):
        valid = tf.not_equal(labels, IGNORE_LABEL)
        safe = tf.where(valid, labels, tf.zeros_like(labels))
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=safe, logits=logits)
        weights = tf.gather(tf.constant(CLASS_WEIGHTS, dtype=images.dtype), safe)
        count = tf.reduce_sum(tf.cast(valid, images.dtype))
        loss = tf.reduce_sum(cross_entropy * weights * tf.cast(valid, images.dtype)) / count
    correct = tf.logical_and(tf.equal(tf.argmax(logits, 3, output_type=labels.dtype), labels), valid)
    accuracy = tf.reduce_sum(tf.cast(correct, images.dtype)) / count
    return loss, {'fuse_pool2': fuse_pool2, 'fuse_pool1': fuse_pool1, 'logits': logits, 'pixel_accuracy': accuracy}
