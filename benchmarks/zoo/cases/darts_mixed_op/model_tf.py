"""DARTS, first order: a search network of cells whose edges mix all operations by a softmax over alphas; the weights learn from the
training images, the alphas from the validation images."""
import tensorflow.compat.v1 as tf

PRIMITIVES = ["none", "max_pool_3x3", "avg_pool_3x3", "skip_connect", "sep_conv_3x3", "dil_conv_3x3"]
CHANNELS = 6
STEPS = 2
MULTIPLIER = 2
STEM_MULTIPLIER = 2
CELLS = [True, False]          # which of them reduce
NUM_CLASSES = 4
WEIGHT_DECAY = 3e-3
ARCH_WEIGHT_DECAY = 1e-2


def batch_norm(x):
    """without gamma and beta, as in the search; always by the batch"""
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-5)


def conv(x, filters, k, stride=1, name="conv"):
    return tf.layers.conv2d(x, filters, k, strides=stride, padding="same", use_bias=False, name=name)


def depthwise(x, k, stride=1, rate=1, name="depthwise"):
    with tf.variable_scope(name):
        w = tf.get_variable("weights", [k, k, x.shape.as_list()[-1], 1], dtype=x.dtype)
        y = tf.nn.depthwise_conv2d(x, w, [1, 1 if rate > 1 else stride, 1 if rate > 1 else stride, 1], "SAME", dilations=[rate, rate])
        # strides do not go together with dilations
        return y[:, ::stride, ::stride] if rate > 1 and stride > 1 else y


def relu_conv_bn(x, filters, name):
    with tf.variable_scope(name):
        return batch_norm(conv(tf.nn.relu(x), filters, 1))


def factorized_reduce(x, filters, name):
    with tf.variable_scope(name):
        x = tf.nn.relu(x)
        a = conv(x, filters // 2, 1, 2, "conv_1")
        b = conv(x[:, 1:, 1:, :], filters // 2, 1, 2, "conv_2")
        return batch_norm(tf.concat([a, b], axis=3))


def sep_conv(x, filters, stride, name):
    with tf.variable_scope(name):
        c = x.shape.as_list()[-1]
        x = depthwise(tf.nn.relu(x), 3, stride, name="depthwise_1")
        x = batch_norm(conv(x, c, 1, name="pointwise_1"))
        x = depthwise(tf.nn.relu(x), 3, name="depthwise_2")
        return batch_norm(conv(x, filters, 1, name="pointwise_2"))


def dil_conv(x, filters, stride, name):
    with tf.variable_scope(name):
        x = depthwise(tf.nn.relu(x), 3, stride, rate=2)
        return batch_norm(conv(x, filters, 1, name="pointwise"))


def operation(primitive, x, filters, stride):
    if primitive == "none":
        return tf.zeros_like(x[:, ::stride, ::stride, :])
    if primitive == "max_pool_3x3":
        return batch_norm(tf.layers.max_pooling2d(x, 3, stride, padding="same"))
    if primitive == "avg_pool_3x3":
        return batch_norm(tf.layers.average_pooling2d(x, 3, stride, padding="same"))
    if primitive == "skip_connect":
        return x if stride == 1 else factorized_reduce(x, filters, primitive)
    if primitive == "sep_conv_3x3":
        return sep_conv(x, filters, stride, primitive)
    return dil_conv(x, filters, stride, primitive)


def mixed_op(x, filters, stride, weights, name):
    with tf.variable_scope(name):
        return tf.add_n([weights[k] * operation(p, x, filters, stride) for k, p in enumerate(PRIMITIVES)])


def cell(s0, s1, filters, reduction, reduction_prev, weights, name):
    with tf.variable_scope(name):
        if reduction_prev:
            s0 = factorized_reduce(s0, filters, "preprocess0")
        else:
            s0 = relu_conv_bn(s0, filters, "preprocess0")
        s1 = relu_conv_bn(s1, filters, "preprocess1")
        states, offset = [s0, s1], 0
        for i in range(STEPS):
            total = []
            for j, h in enumerate(states):
                stride = 2 if reduction and j < 2 else 1
                total.append(mixed_op(h, filters, stride, weights[offset + j], "node%d_edge%d" % (i, j)))
            offset += len(states)
            states.append(tf.add_n(total))
        return tf.concat(states[-MULTIPLIER:], axis=3)


def network(images, reuse=None):
    with tf.variable_scope("network", reuse=reuse):
        edges = sum(2 + i for i in range(STEPS))
        init = tf.random_normal_initializer(stddev=1e-3, dtype=images.dtype)
        alphas_normal = tf.get_variable("alphas_normal", [edges, len(PRIMITIVES)], dtype=images.dtype, initializer=init)
        alphas_reduce = tf.get_variable("alphas_reduce", [edges, len(PRIMITIVES)], dtype=images.dtype, initializer=init)
        with tf.variable_scope("stem"):
            s0 = s1 = batch_norm(conv(images, CHANNELS * STEM_MULTIPLIER, 3))
        filters, reduction_prev = CHANNELS, False
        for i, reduction in enumerate(CELLS):
            if reduction:
                filters *= 2
            weights = tf.nn.softmax(alphas_reduce if reduction else alphas_normal)
            s0, s1 = s1, cell(s0, s1, filters, reduction, reduction_prev, weights, "cell_%d" % i)
            reduction_prev = reduction
        out = tf.reduce_mean(s1, [1, 2])
        logits = tf.layers.dense(out, NUM_CLASSES, name="classifier")
    return logits, (alphas_normal, alphas_reduce)


def cross_entropy(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def tower(images, labels, val_images, val_labels):
    logits, alphas = network(images)
    val_logits, _ = network(val_images, reuse=True)
    weights = [v for v in tf.trainable_variables() if "alphas" not in v.name]
    loss = cross_entropy(logits, labels) + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in weights])
    arch_loss = cross_entropy(val_logits, val_labels) + ARCH_WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(a) for a in alphas])
    hits = tf.equal(tf.argmax(val_logits, 1, output_type=tf.int32), val_labels)
    return loss, {"logits": logits, "val_logits": val_logits, "arch_loss": arch_loss,
                  "val_accuracy": tf.reduce_mean(tf.cast(hits, images.dtype))}
