"""BiSeNet for small pictures: a spatial path, a context path with attention refinement, feature fusion, auxiliary heads."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 5
IGNORE_LABEL = 255
AUX_WEIGHT = 0.4
BN_DECAY = 0.9
BN_EPSILON = 1e-3


def conv(x, filters, size, stride=1, scope="conv"):
    with tf.variable_scope(scope):
        w = tf.get_variable("weights", [size, size, x.shape.as_list()[-1], filters], x.dtype,
                            initializer=tf.glorot_uniform_initializer())
        return tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding="SAME")


def bn(x, training, scope="BatchNorm"):
    with tf.variable_scope(scope):
        c = [x.shape.as_list()[-1]]
        beta = tf.get_variable("beta", c, x.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", c, x.dtype, initializer=tf.ones_initializer())
        mm = tf.get_variable("moving_mean", c, x.dtype, initializer=tf.zeros_initializer(), trainable=False)
        mv = tf.get_variable("moving_variance", c, x.dtype, initializer=tf.ones_initializer(), trainable=False)
        if not training:
            return tf.nn.batch_normalization(x, mm, mv, beta, gamma, BN_EPSILON)
        mean, var = tf.nn.moments(x, [0, 1, 2])
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(mm, mm * BN_DECAY + mean * (1 - BN_DECAY)))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(mv, mv * BN_DECAY + var * (1 - BN_DECAY)))
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, BN_EPSILON)


def conv_block(x, filters, size, stride, training, scope):
    with tf.variable_scope(scope):
        return tf.nn.relu(bn(conv(x, filters, size, stride), training))


def _bilinear_matrix(n, m, dtype):
    """[m, n]: n samples to m, corners aligned."""
    at = np.linspace(0, n - 1, m)
    low = np.minimum(np.floor(at).astype(int), n - 2)
    a = np.zeros([m, n])
    a[np.arange(m), low] += 1 - (at - low)
    a[np.arange(m), low + 1] += at - low
    return tf.constant(a, dtype)


def upsample(x, size):
    # resize_bilinear(align_corners=True) as matrix products: keeps the dtype of x
    rows = _bilinear_matrix(x.shape.as_list()[1], size, x.dtype)
    cols = _bilinear_matrix(x.shape.as_list()[2], size, x.dtype)
    x = tf.einsum("ah,nhwc->nawc", rows, x)
    return tf.einsum("bw,nawc->nabc", cols, x)


def attention_refinement(x, filters, training, scope):
    with tf.variable_scope(scope):
        x = conv_block(x, filters, 3, 1, training, "conv_block")
        net = tf.reduce_mean(x, [1, 2], keepdims=True)
        net = conv(net, filters, 1, scope="conv_atten")
        net = tf.sigmoid(bn(net, training, "bn_atten"))
        return tf.multiply(x, net)


def feature_fusion(spatial, context, filters, training, scope):
    with tf.variable_scope(scope):
        x = tf.concat([spatial, context], axis=-1)
        x = conv_block(x, filters, 1, 1, training, "conv_block")
        net = tf.reduce_mean(x, [1, 2], keepdims=True)
        net = tf.nn.relu(conv(net, filters // 4, 1, scope="conv_1"))
        net = tf.sigmoid(conv(net, filters, 1, scope="conv_2"))
        return tf.add(tf.multiply(x, net), x)


def head(x, filters, size, training, scope):
    with tf.variable_scope(scope):
        x = conv_block(x, filters, 3, 1, training, "conv_block")
        x = conv(x, NUM_CLASSES, 1, scope="classifier")
        b = tf.get_variable("biases", [NUM_CLASSES], x.dtype, initializer=tf.zeros_initializer())
        return upsample(tf.nn.bias_add(x, b), size)


def nearest(x, factor):
    h, w = x.shape.as_list()[1:3]
    return tf.image.resize_nearest_neighbor(x, [h * factor, w * factor])


def masked_cross_entropy(logits, label):
    counts = tf.cast(tf.not_equal(label, IGNORE_LABEL), logits.dtype)
    safe = tf.where(tf.equal(label, IGNORE_LABEL), tf.zeros_like(label), label)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=safe, logits=logits)
    return tf.reduce_sum(xent * counts) / tf.reduce_sum(counts)


def tower(image, label, training=True):
    size = image.shape.as_list()[1]
    with tf.variable_scope("spatial_path"):
        spatial = conv_block(image, 8, 3, 2, training, "conv1")
        spatial = conv_block(spatial, 16, 3, 2, training, "conv2")

    with tf.variable_scope("context_path"):
        x = conv_block(image, 8, 3, 2, training, "stem")
        x = conv_block(x, 12, 3, 2, training, "down1")
        feat8 = conv_block(x, 16, 3, 2, training, "down2")
        feat16 = conv_block(feat8, 20, 3, 2, training, "down3")
        tail = tf.reduce_mean(feat16, [1, 2], keepdims=True)
        tail = conv_block(tail, 12, 1, 1, training, "tail")
        deep = attention_refinement(feat16, 12, training, "arm_deep") + tail
        deep = conv_block(nearest(deep, 2), 12, 3, 1, training, "refine_deep")
        shallow = attention_refinement(feat8, 12, training, "arm_shallow") + deep
        shallow = conv_block(nearest(shallow, 2), 12, 3, 1, training, "refine_shallow")

    fused = feature_fusion(spatial, shallow, 16, training, "ffm")
    logits = head(fused, 12, size, training, "main_head")
    aux_shallow = head(shallow, 8, size, training, "aux_head_1")
    aux_deep = head(deep, 8, size, training, "aux_head_2")

    main = masked_cross_entropy(logits, label)
    aux1 = masked_cross_entropy(aux_shallow, label)
    aux2 = masked_cross_entropy(aux_deep, label)
    total = main + AUX_WEIGHT * (aux1 + aux2)
    return total, {"spatial": spatial, "context": shallow, "fused": fused, "logits": logits}
