"""Inpainting with a partial convolution, gated convolutions, contextual attention and a patch discriminator with hinge losses,
after the family of public TF1 code for generative inpainting with contextual attention and free-form masks."""
import tensorflow.compat.v1 as tf

ADVERSARIAL_WEIGHT = 0.3
VALID_WEIGHT = 0.2
SOFTMAX_SCALE = 10.0


def gen_conv(x, cnum, ksize, stride=1, rate=1, name="conv", activation=tf.nn.elu):
    """A convolution; with an activation half of its channels gate the other half."""
    x = tf.layers.conv2d(x, cnum, ksize, stride, dilation_rate=rate, padding="SAME", name=name)
    if activation is None:
        return x
    x, y = tf.split(x, 2, 3)
    return activation(x) * tf.nn.sigmoid(y)


def gen_deconv(x, cnum, name="upsample"):
    with tf.variable_scope(name):
        shape = x.shape.as_list()
        x = tf.image.resize_nearest_neighbor(x, [2 * shape[1], 2 * shape[2]])
        return gen_conv(x, cnum, 3, 1, name=name + "_conv")


def partial_conv(x, valid, cnum, ksize, name):
    """Convolves what is valid, scaled by how much of each window that is; 0 where nothing is."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [ksize, ksize, x.shape.as_list()[-1], cnum], x.dtype,
                                 tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable("bias", [cnum], x.dtype, tf.zeros_initializer())
        count = tf.nn.conv2d(valid, tf.ones([ksize, ksize, 1, 1], x.dtype), [1, 1, 1, 1], "SAME")
        updated = tf.clip_by_value(count, 0.0, 1.0)
        ratio = ksize * ksize / (count + 1e-8) * updated
        y = tf.nn.conv2d(x * valid, kernel, [1, 1, 1, 1], "SAME") * ratio
        return (y + bias) * updated


def contextual_attention(x, hole):
    """Each place takes a softmax mixture of the places outside of the hole, by cosine to them."""
    _, height, width, channels = x.shape.as_list()
    flat = tf.reshape(x, [-1, height * width, channels])
    background = tf.reshape(1.0 - hole, [-1, 1, height * width])
    norm = tf.sqrt(tf.reduce_sum(tf.square(flat), axis=2, keepdims=True))
    scores = tf.matmul(flat, flat / tf.maximum(norm, 1e-4), transpose_b=True)
    scores = scores * background
    attention = tf.nn.softmax(scores * SOFTMAX_SCALE, axis=2) * background
    return tf.reshape(tf.matmul(attention, flat), [-1, height, width, channels])


def build_inpaint_net(images, masks):
    with tf.variable_scope("generator"):
        x = tf.nn.elu(partial_conv(images, 1.0 - masks, 8, 5, "pconv1"))
        x = gen_conv(tf.concat([x, masks], 3), 28, 3, 2, name="conv2_downsample")
        x = gen_conv(x, 28, 3, rate=2, name="conv3_atrous")
        shape = x.shape.as_list()
        hole = tf.image.resize_nearest_neighbor(masks, shape[1:3])
        attended = contextual_attention(x, hole)
        x = gen_conv(tf.concat([x, attended], 3), 20, 3, name="conv4")
        x = gen_deconv(x, 12, name="conv5_upsample")
        x = gen_conv(x, 3, 3, name="conv6", activation=None)
        return attended, tf.nn.tanh(x)


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def build_discriminator(x):
    with tf.variable_scope("discriminator"):
        x = lrelu(tf.layers.conv2d(x, 10, 5, 2, "SAME", name="conv1"))
        x = lrelu(tf.layers.conv2d(x, 18, 5, 2, "SAME", name="conv2"))
        return tf.layers.conv2d(x, 1, 3, 1, "SAME", name="conv3")


def tower(images, masks):
    attended, predicted = build_inpaint_net(images, masks)
    complete = predicted * masks + images * (1.0 - masks)
    pairs = tf.concat([tf.concat([images, masks], 3), tf.concat([complete, masks], 3)], 0)
    pos, neg = tf.split(build_discriminator(pairs), 2, 0)
    d_loss = 0.5 * (tf.reduce_mean(tf.nn.relu(1.0 - pos)) + tf.reduce_mean(tf.nn.relu(1.0 + neg)))
    weights = masks + VALID_WEIGHT * (1.0 - masks)
    l1_loss = tf.reduce_mean(tf.abs(images - predicted) * weights)
    adversarial = -tf.reduce_mean(neg)
    g_loss = l1_loss + ADVERSARIAL_WEIGHT * adversarial
    return g_loss, {"d_loss": d_loss, "l1_loss": l1_loss, "attended": attended, "predicted": predicted, "fake_patches": neg}
