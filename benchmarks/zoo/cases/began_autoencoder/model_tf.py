"""BEGAN: the discriminator is an autoencoder, and a variable balances its two losses."""
import numpy as np
import tensorflow.compat.v1 as tf

HIDDEN_NUM = 6
Z_NUM = 8
REPEAT_NUM = 3
GAMMA = 0.5
LAMBDA_K = 0.05
K_START = 0.1  # a short training: not from 0


def norm_img(image):
    return image / 127.5 - 1.0


def denorm_img(norm):
    return tf.clip_by_value((norm + 1) * 127.5, 0, 255)


def fully_connected(x, num, scope):
    with tf.variable_scope(scope):
        w = tf.get_variable("weights", [x.shape.as_list()[1], num], x.dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("biases", [num], x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(x, w, b)


def conv2d(x, num, stride=1, activation_fn=tf.nn.elu, scope="Conv"):
    with tf.variable_scope(scope):
        w = tf.get_variable("weights", [3, 3, x.shape.as_list()[3], num], x.dtype,
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("biases", [num], x.dtype, initializer=tf.zeros_initializer())
        x = tf.nn.bias_add(tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME"), b)
        return x if activation_fn is None else activation_fn(x)


def upscale(x, scale):
    _, h, w, _ = x.shape.as_list()
    return tf.image.resize_nearest_neighbor(x, (h * scale, w * scale))


def decoder(z, start, scope_of):
    x = fully_connected(z, int(np.prod([4, 4, HIDDEN_NUM])), scope_of("fully_connected"))
    x = tf.reshape(x, [-1, 4, 4, HIDDEN_NUM])
    for idx in range(REPEAT_NUM):
        x = conv2d(x, HIDDEN_NUM, scope=scope_of("Conv_%d" % (start + 2 * idx)))
        x = conv2d(x, HIDDEN_NUM, scope=scope_of("Conv_%d" % (start + 2 * idx + 1)))
        if idx < REPEAT_NUM - 1:
            x = upscale(x, 2)
    return conv2d(x, 3, activation_fn=None, scope=scope_of("Conv_%d" % (start + 2 * REPEAT_NUM)))


def GeneratorCNN(z):
    with tf.variable_scope("G"):
        return decoder(z, 0, lambda name: name)


def DiscriminatorCNN(x):
    with tf.variable_scope("D"):
        # encoder
        x = conv2d(x, HIDDEN_NUM, scope="Conv")
        n = 1
        for idx in range(REPEAT_NUM):
            channel_num = HIDDEN_NUM * (idx + 1)
            x = conv2d(x, channel_num, scope="Conv_%d" % n)
            x = conv2d(x, channel_num, scope="Conv_%d" % (n + 1))
            n += 2
            if idx < REPEAT_NUM - 1:
                x = conv2d(x, channel_num, stride=2, scope="Conv_%d" % n)
                n += 1
        x = tf.reshape(x, [-1, int(np.prod([4, 4, channel_num]))])
        z = fully_connected(x, Z_NUM, "fully_connected")
        # decoder
        return decoder(z, n, lambda name: name if name.startswith("Conv") else name + "_1"), z


def tower(pixels, z):
    x = norm_img(pixels)
    k_t = tf.get_variable("k_t", [], x.dtype, initializer=tf.constant_initializer(K_START), trainable=False, use_resource=True)
    k = k_t.read_value()

    G = GeneratorCNN(z)
    d_out, code = DiscriminatorCNN(tf.concat([G, x], 0))
    AE_G, AE_x = tf.split(d_out, 2)

    d_loss_real = tf.reduce_mean(tf.abs(AE_x - x))
    d_loss_fake = tf.reduce_mean(tf.abs(AE_G - G))
    d_loss = d_loss_real - k * d_loss_fake
    g_loss = tf.reduce_mean(tf.abs(AE_G - G))

    balance = GAMMA * d_loss_real - g_loss
    with tf.control_dependencies([k, d_loss, g_loss]):
        k_update = tf.assign(k_t, tf.clip_by_value(k + LAMBDA_K * balance, 0, 1))
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, k_update)
    return d_loss, {"g_loss": g_loss, "G": denorm_img(G), "AE_G": AE_G, "AE_x": AE_x}
