"""AlexNet made small: grouped convolutions, response normalisation, overlapping pooling."""
import tensorflow.compat.v1 as tf


def conv(x, filter_height, filter_width, num_filters, stride_y, stride_x, name, padding='SAME', groups=1):
    input_channels = int(x.get_shape()[-1])

    def convolve(i, k):
        return tf.nn.conv2d(i, k, strides=[1, stride_y, stride_x, 1], padding=padding)

    with tf.variable_scope(name):
        weights = tf.get_variable('weights', dtype=x.dtype,
                                  shape=[filter_height, filter_width, input_channels // groups, num_filters])
        biases = tf.get_variable('biases', shape=[num_filters], dtype=x.dtype, initializer=tf.constant_initializer(0.1))
    if groups == 1:
        out = convolve(x, weights)
    else:
        input_groups = tf.split(axis=3, num_or_size_splits=groups, value=x)
        weight_groups = tf.split(axis=3, num_or_size_splits=groups, value=weights)
        out = tf.concat(axis=3, values=[convolve(i, k) for i, k in zip(input_groups, weight_groups)])
    return tf.nn.relu(tf.nn.bias_add(out, biases), name=name)


def fc(x, num_in, num_out, name, relu=True):
    with tf.variable_scope(name):
        weights = tf.get_variable('weights', shape=[num_in, num_out], dtype=x.dtype)
        biases = tf.get_variable('biases', [num_out], x.dtype, tf.zeros_initializer())
    act = tf.nn.xw_plus_b(x, weights, biases, name=name)
    return tf.nn.relu(act) if relu else act


def max_pool(x, filter_height, filter_width, stride_y, stride_x, name, padding='SAME'):
    return tf.nn.max_pool(x, ksize=[1, filter_height, filter_width, 1], strides=[1, stride_y, stride_x, 1],
                          padding=padding, name=name)


def lrn(x, radius, alpha, beta, name, bias=1.0):
    """tf.nn.local_response_normalization by its formula: the op itself has no float64."""
    with tf.name_scope(name):
        channels = int(x.get_shape()[-1])
        squares = tf.pad(tf.square(x), [[0, 0], [0, 0], [0, 0], [radius, radius]])
        sqr_sum = tf.add_n([squares[:, :, :, i:i + channels] for i in range(2 * radius + 1)])
        return x / tf.pow(bias + alpha * sqr_sum, beta)


def tower(x, y):
    # 1st Layer: Conv (w ReLu) -> Lrn -> Pool
    conv1 = conv(x, 5, 5, 8, 2, 2, padding='VALID', name='conv1')
    norm1 = lrn(conv1, 2, 2e-05, 0.75, name='norm1')
    pool1 = max_pool(norm1, 3, 3, 2, 2, padding='VALID', name='pool1')
    # 2nd Layer: Conv (w ReLu) -> Lrn -> Pool with 2 groups
    conv2 = conv(pool1, 3, 3, 16, 1, 1, groups=2, name='conv2')
    norm2 = lrn(conv2, 2, 2e-05, 0.75, name='norm2')
    pool2 = max_pool(norm2, 3, 3, 2, 2, padding='SAME', name='pool2')
    # 3rd Layer: Conv (w ReLu), splitted into two groups
    conv3 = conv(pool2, 3, 3, 16, 1, 1, groups=2, name='conv3')
    flattened = tf.reshape(conv3, [-1, 3 * 3 * 16])
    fc6 = fc(flattened, 3 * 3 * 16, 32, name='fc6')
    fc7 = fc(fc6, 32, 32, name='fc7')
    score = fc(fc7, 32, 10, relu=False, name='fc8')
    with tf.name_scope("cross_ent"):
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=score, labels=y))
    return loss, {"norm1": norm1, "pool1": pool1, "norm2": norm2, "pool2": pool2, "fc6": fc6, "score": score}
