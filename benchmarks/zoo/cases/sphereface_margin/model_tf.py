"""SphereFace: a residual network with PReLU under the angular softmax with margin 4."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
WEIGHT_DECAY = 5e-4


def prelu(x, name="prelu"):
    with tf.variable_scope(name):
        alphas = tf.get_variable("alpha", x.get_shape()[-1], initializer=tf.constant_initializer(0.25), dtype=x.dtype)
        pos = tf.nn.relu(x)
        neg = alphas * (x - tf.abs(x)) * 0.5
        return pos + neg


def first_conv(x, num_output, name):
    with tf.variable_scope(name):
        net = tf.layers.conv2d(x, num_output, kernel_size=3, strides=2, padding="same",
                               kernel_initializer=tf.glorot_normal_initializer(), name="conv")
        return prelu(net)


def block(x, num_output, name):
    with tf.variable_scope(name):
        net = x
        for i in range(2):
            net = tf.layers.conv2d(net, num_output, kernel_size=3, strides=1, padding="same",
                                   kernel_initializer=tf.truncated_normal_initializer(stddev=0.1),
                                   use_bias=False, name="conv_%d" % i)
            net = prelu(net, "prelu_%d" % i)
        return x + net


def angular_softmax(x, y, l):
    """m = 4: cos(4t) by its polynomial, and signs that make it fall monotonically."""
    w = tf.get_variable("asoftmax/W", [x.get_shape().as_list()[1], NUM_CLASSES], dtype=x.dtype,
                        initializer=tf.glorot_uniform_initializer())
    logits = tf.matmul(x, tf.nn.l2_normalize(w, 0))
    ordinal = tf.range(tf.shape(x)[0])
    ordinal_y = tf.stack([ordinal, y], axis=1)
    x_norm = tf.norm(x, axis=1)
    sel_logits = tf.gather_nd(logits, ordinal_y)
    cos_th = tf.div(sel_logits, x_norm)
    cos_th2 = tf.square(cos_th)
    cos_th4 = tf.pow(cos_th, 4)
    sign0 = tf.sign(cos_th)
    sign3 = tf.multiply(tf.sign(2 * cos_th2 - 1), sign0)
    sign4 = 2 * sign0 + sign3 - 3
    result = sign3 * (8 * cos_th4 - 8 * cos_th2 + 1) + sign4
    margin_logits = tf.multiply(result, x_norm)
    f = 1.0 / (1.0 + l)
    delta = f * (margin_logits - sel_logits)
    return tf.add(logits, tf.scatter_nd(ordinal_y, delta, tf.shape(logits)))


def tower(images, identities, annealing):
    with tf.variable_scope("sphere"):
        net = first_conv(images, 8, "conv1")
        net = block(net, 8, "conv1_x")
        stage1 = net
        net = first_conv(net, 16, "conv2")
        net = block(net, 16, "conv2_x")
        stage2 = net
        net = tf.layers.flatten(net)
        features = tf.layers.dense(net, 16, kernel_initializer=tf.glorot_normal_initializer(), name="fc5")
        logits = angular_softmax(features, identities, annealing)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=identities, logits=logits)
        identity_loss = tf.reduce_mean(losses)
        kernels = [v for v in tf.trainable_variables() if "kernel" in v.name or "asoftmax" in v.name]
        loss = identity_loss + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return loss, {"stage1": stage1, "stage2": stage2, "features": features, "logits": logits,
                  "identity_loss": identity_loss}
