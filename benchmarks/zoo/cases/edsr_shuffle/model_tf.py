"""Super resolution by two: residual blocks without batch norm, sub-pixel output, L1 and perceptual loss."""
import tensorflow.compat.v1 as tf

SCALE = 2
FEATURES = 16
BLOCKS = 2
RESIDUAL_SCALING = 0.1
RGB_MEAN = [0.4488, 0.4371, 0.4040]
VGG_MEAN_BGR = [103.939, 116.779, 123.68]
VGG_RESCALE = 1 / 12.75
VGG_WEIGHT = 0.01


def prelu(x, name):
    with tf.variable_scope(name):
        alpha = tf.get_variable("alpha", [x.shape.as_list()[-1]], x.dtype, initializer=tf.constant_initializer(0.25))
        return tf.nn.relu(x) + alpha * (x - tf.abs(x)) * 0.5


def conv(x, filters, name):
    return tf.layers.conv2d(x, filters, 3, padding="same", name=name)


def res_block(x, name):
    with tf.variable_scope(name):
        y = conv(x, FEATURES, "conv_1")
        y = prelu(y, "prelu")
        y = conv(y, FEATURES, "conv_2")
        return x + RESIDUAL_SCALING * y


def generator(low):
    mean = tf.constant(RGB_MEAN, low.dtype)
    with tf.variable_scope("generator"):
        x = low - mean
        head = prelu(conv(x, FEATURES, "head"), "head_prelu")
        y = head
        for i in range(BLOCKS):
            y = res_block(y, "block_%d" % i)
        body = conv(y, FEATURES, "body") + head
        # every sub-pixel starts from the pixel it lies in
        anchor = tf.tile(x, [1, 1, 1, SCALE ** 2])
        y = conv(body, 3 * SCALE ** 2, "tail") + anchor
        return body, tf.depth_to_space(y, SCALE) + mean


def vgg(images):
    """Features before the activation of the last layer; the weights stay as they are."""
    with tf.variable_scope("vgg"):
        red, green, blue = tf.split(images * 255.0, 3, axis=3)
        x = tf.concat([blue, green, red], axis=3) - tf.constant(VGG_MEAN_BGR, images.dtype)
        for i, (name, filters) in enumerate([("conv1_1", 8), ("conv1_2", 8), ("conv2_1", 12)]):
            if i == 2:
                x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME")
            x = tf.layers.conv2d(x, filters, 3, padding="same", trainable=False, name=name)
            if i < 2:
                x = tf.nn.relu(x)
        return x * VGG_RESCALE


def tower(low, high):
    body, fake = generator(low)
    with tf.variable_scope("perceptual") as scope:
        fake_features = vgg(fake)
        scope.reuse_variables()
        real_features = vgg(high)
    pixel = tf.reduce_mean(tf.abs(fake - high))
    content = tf.reduce_mean(tf.reduce_sum(tf.squared_difference(fake_features, real_features), axis=3))
    loss = pixel + VGG_WEIGHT * content
    return loss, {"body": body, "fake": fake, "fake_features": fake_features, "pixel": pixel, "content": content}
