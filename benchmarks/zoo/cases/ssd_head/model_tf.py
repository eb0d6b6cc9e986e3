"""SSD on two feature maps: heads, hard negative mining and the multibox loss."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 4
NUM_ANCHORS = 3
NEGATIVE_RATIO = 3.0


def conv2d(x, filters, size, stride, scope, rate=1, activation=tf.nn.relu):
    with tf.variable_scope(scope):
        weights = tf.get_variable("weights", [size, size, int(x.shape[-1]), filters], x.dtype, tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [filters], x.dtype, tf.zeros_initializer())
        if rate > 1:
            net = tf.nn.atrous_conv2d(x, weights, rate, padding="SAME")
        else:
            net = tf.nn.conv2d(x, weights, [1, stride, stride, 1], padding="SAME")
        net = tf.nn.bias_add(net, biases)
        return activation(net) if activation else net


def l2_normalization(x, scope):
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", [int(x.shape[-1])], x.dtype, tf.constant_initializer(2.0))
        return gamma * tf.nn.l2_normalize(x, 3, epsilon=1e-12)


def multibox_layer(x, normalised, scope):
    with tf.variable_scope(scope + "_box"):
        if normalised:
            x = l2_normalization(x, "L2Normalization")
        loc = conv2d(x, NUM_ANCHORS * 4, 3, 1, "conv_loc", activation=None)
        cls = conv2d(x, NUM_ANCHORS * NUM_CLASSES, 3, 1, "conv_cls", activation=None)
        cells = int(x.shape[1]) * int(x.shape[2]) * NUM_ANCHORS
        return tf.reshape(cls, [-1, cells, NUM_CLASSES]), tf.reshape(loc, [-1, cells, 4])


def ssd_net(images):
    with tf.variable_scope("ssd_net"):
        net = conv2d(images, 16, 3, 1, "conv1")
        net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME")
        block4 = conv2d(net, 24, 3, 1, "conv4")
        net = conv2d(block4, 24, 3, 1, "conv6", rate=2)
        block7 = conv2d(net, 24, 3, 2, "conv7")
        cls4, loc4 = multibox_layer(block4, True, "block4")
        cls7, loc7 = multibox_layer(block7, False, "block7")
    return tf.concat([cls4, cls7], 1), tf.concat([loc4, loc7], 1), {"block4": block4, "block7": block7}


def abs_smooth(x):
    absx = tf.abs(x)
    minx = tf.minimum(absx, 1)
    return 0.5 * ((absx - 1) * minx + absx)


def ssd_losses(logits, localisations, gclasses, glocalisations):
    dtype = logits.dtype
    batch_size = tf.cast(tf.shape(logits)[0], dtype)
    logits = tf.reshape(logits, [-1, NUM_CLASSES])
    localisations = tf.reshape(localisations, [-1, 4])
    gclasses = tf.reshape(gclasses, [-1])
    glocalisations = tf.reshape(glocalisations, [-1, 4])
    pmask = gclasses > 0
    fpmask = tf.cast(pmask, dtype)
    n_positives = tf.reduce_sum(fpmask)
    # hard negative mining: those that look least like background
    nmask = tf.equal(gclasses, 0)
    background = tf.nn.softmax(logits)[:, 0]
    nvalues = tf.where(nmask, background, tf.ones_like(background))
    n_neg = tf.cast(tf.minimum(NEGATIVE_RATIO * n_positives, tf.reduce_sum(tf.cast(nmask, dtype))), tf.int32)
    val, _ = tf.nn.top_k(-nvalues, k=n_neg)
    nmask = tf.logical_and(nmask, nvalues <= -val[-1])
    fnmask = tf.stop_gradient(tf.cast(nmask, dtype))
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.maximum(gclasses, 0))
    l_cross_pos = tf.div(tf.reduce_sum(xent * fpmask), batch_size)
    l_cross_neg = tf.div(tf.reduce_sum(xent * fnmask), batch_size)
    l_loc = tf.div(tf.reduce_sum(abs_smooth(localisations - glocalisations) * tf.expand_dims(fpmask, -1)), batch_size)
    return l_cross_pos, l_cross_neg, l_loc


def tower(images, gclasses, glocalisations):
    logits, localisations, end_points = ssd_net(images)
    pos, neg, loc = ssd_losses(logits, localisations, gclasses, glocalisations)
    end_points.update(logits=logits, localisations=localisations, cross_entropy_pos=pos, cross_entropy_neg=neg,
                      localization=loc)
    return pos + neg + loc, end_points
