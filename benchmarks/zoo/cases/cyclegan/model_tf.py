"""CycleGAN: two ResNet generators, two patch discriminators, least-squares losses."""
import tensorflow.compat.v1 as tf

REAL_LABEL = 0.9
LAMBDA_X = 10.0
LAMBDA_Y = 8.0
LAMBDA_IDENTITY = 0.5


def _weights(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.truncated_normal_initializer(stddev=0.02))


def _biases(name, depth, dtype):
    return tf.get_variable(name, [depth], dtype, initializer=tf.zeros_initializer())


def _instance_norm(x, name="instance_norm"):
    with tf.variable_scope(name):
        depth = x.get_shape().as_list()[3]
        scale = tf.get_variable("scale", [depth], x.dtype, initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [depth], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes=[1, 2], keep_dims=True)
        normalized = (x - mean) * tf.rsqrt(variance + 1e-5)
        return scale * normalized + offset


def _leaky_relu(x, slope):
    return tf.maximum(slope * x, x)


def _reflect(x, p):
    return tf.pad(x, [[0, 0], [p, p], [p, p], [0, 0]], "REFLECT")


def c5s1(x, k, name, norm=True, activation=tf.nn.relu):
    with tf.variable_scope(name):
        w = _weights("weights", [5, 5, x.get_shape().as_list()[3], k], x.dtype)
        h = tf.nn.conv2d(_reflect(x, 2), w, strides=[1, 1, 1, 1], padding="VALID")
        h = _instance_norm(h) if norm else h + _biases("biases", k, x.dtype)
        return activation(h)


def dk(x, k, name):
    with tf.variable_scope(name):
        w = _weights("weights", [3, 3, x.get_shape().as_list()[3], k], x.dtype)
        h = tf.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding="SAME")
        return tf.nn.relu(_instance_norm(h))


def Rk(x, k, name):
    with tf.variable_scope(name):
        with tf.variable_scope("layer1"):
            w = _weights("weights", [3, 3, k, k], x.dtype)
            h = tf.nn.conv2d(_reflect(x, 1), w, strides=[1, 1, 1, 1], padding="VALID")
            h = tf.nn.relu(_instance_norm(h))
        with tf.variable_scope("layer2"):
            w = _weights("weights", [3, 3, k, k], x.dtype)
            h = tf.nn.conv2d(_reflect(h, 1), w, strides=[1, 1, 1, 1], padding="VALID")
            h = _instance_norm(h)
        return x + h


def uk(x, k, name):
    with tf.variable_scope(name):
        depth = x.get_shape().as_list()[3]
        w = _weights("weights", [3, 3, k, depth], x.dtype)
        shape = tf.shape(x)
        rows, cols = x.get_shape().as_list()[1:3]
        h = tf.nn.conv2d_transpose(x, w, tf.stack([shape[0], 2 * rows, 2 * cols, k]), strides=[1, 2, 2, 1], padding="SAME")
        h = tf.reshape(h, [-1, 2 * rows, 2 * cols, k])
        return tf.nn.relu(_instance_norm(h))


def Ck(x, k, name, norm=True):
    with tf.variable_scope(name):
        w = _weights("weights", [4, 4, x.get_shape().as_list()[3], k], x.dtype)
        h = tf.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding="SAME")
        h = _instance_norm(h) if norm else h + _biases("biases", k, x.dtype)
        return _leaky_relu(h, 0.2)


class Generator:
    def __init__(self, name, ngf=6, blocks=2):
        self.name, self.ngf, self.blocks = name, ngf, blocks

    def __call__(self, image):
        with tf.variable_scope(self.name, reuse=tf.AUTO_REUSE):
            h = c5s1(image, self.ngf, "c5s1_in")
            h = dk(h, 2 * self.ngf, "d")
            for i in range(self.blocks):
                h = Rk(h, 2 * self.ngf, "R_%d" % i)
            h = uk(h, self.ngf, "u")
            return c5s1(h, 3, "output", norm=False, activation=tf.nn.tanh)


class Discriminator:
    def __init__(self, name, ndf=5):
        self.name, self.ndf = name, ndf

    def __call__(self, image):
        with tf.variable_scope(self.name, reuse=tf.AUTO_REUSE):
            h = Ck(image, self.ndf, "C_0", norm=False)
            h = Ck(h, 2 * self.ndf, "C_1")
            with tf.variable_scope("output"):
                w = _weights("weights", [4, 4, 2 * self.ndf, 1], h.dtype)
                return tf.nn.conv2d(h, w, strides=[1, 1, 1, 1], padding="SAME") + _biases("biases", 1, h.dtype)


def tower(images_x, images_y):
    x, y = images_x, images_y
    G, F = Generator("G"), Generator("F")
    D_Y, D_X = Discriminator("D_Y"), Discriminator("D_X")

    fake_y, fake_x = G(x), F(y)
    cycled_x, cycled_y = F(fake_y), G(fake_x)
    same_y, same_x = G(y), F(x)

    cycle_loss = LAMBDA_X * tf.reduce_mean(tf.abs(cycled_x - x)) + LAMBDA_Y * tf.reduce_mean(tf.abs(cycled_y - y))
    identity_loss = LAMBDA_IDENTITY * (
        LAMBDA_Y * tf.reduce_mean(tf.abs(same_y - y)) + LAMBDA_X * tf.reduce_mean(tf.abs(same_x - x)))

    score_y, score_fake_y = D_Y(y), D_Y(fake_y)
    score_x, score_fake_x = D_X(x), D_X(fake_x)

    gan_loss = (tf.reduce_mean(tf.squared_difference(score_fake_y, REAL_LABEL))
                + tf.reduce_mean(tf.squared_difference(score_fake_x, REAL_LABEL)))
    d_y_loss = (tf.reduce_mean(tf.squared_difference(score_y, REAL_LABEL)) + tf.reduce_mean(tf.square(score_fake_y))) / 2
    d_x_loss = (tf.reduce_mean(tf.squared_difference(score_x, REAL_LABEL)) + tf.reduce_mean(tf.square(score_fake_x))) / 2

    g_loss = gan_loss + cycle_loss + identity_loss
    return g_loss, {
        "fake_y": fake_y, "fake_x": fake_x, "cycled_x": cycled_x, "cycled_y": cycled_y,
        "score_fake_y": score_fake_y, "score_fake_x": score_fake_x,
        "gan_loss": gan_loss, "cycle_loss": cycle_loss, "d_loss": d_y_loss + d_x_loss,
    }
