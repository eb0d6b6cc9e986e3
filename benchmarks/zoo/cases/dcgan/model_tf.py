"""DCGAN with one-sided label smoothing. The discriminator minimises the loss, the generator `g_loss`, both at once."""
import tensorflow.compat.v1 as tf

GF_DIM, DF_DIM = 8, 8


def batch_norm(x, train, name, epsilon=1e-5, momentum=0.9):
    with tf.variable_scope(name):
        shape, axes = [int(x.shape[-1])], list(range(len(x.shape) - 1))
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.random_normal_initializer(1.0, 0.02))
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_var = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if not train:
            return tf.nn.batch_normalization(x, moving_mean, moving_var, beta, gamma, epsilon)
        mean, var = tf.nn.moments(x, axes)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                             tf.assign(moving_mean, moving_mean * momentum + mean * (1 - momentum)))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                             tf.assign(moving_var, moving_var * momentum + var * (1 - momentum)))
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


def conv2d(input_, output_dim, name, k=5, d=2, stddev=0.02):
    with tf.variable_scope(name):
        w = tf.get_variable('w', [k, k, int(input_.get_shape()[-1]), output_dim], input_.dtype,
                            initializer=tf.truncated_normal_initializer(stddev=stddev))
        biases = tf.get_variable('biases', [output_dim], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.bias_add(tf.nn.conv2d(input_, w, strides=[1, d, d, 1], padding='SAME'), biases)


def deconv2d(input_, size, output_dim, name, k=5, d=2, stddev=0.02):
    with tf.variable_scope(name):
        # filter : [height, width, output_channels, in_channels]
        w = tf.get_variable('w', [k, k, output_dim, int(input_.get_shape()[-1])], input_.dtype,
                            initializer=tf.random_normal_initializer(stddev=stddev))
        output_shape = tf.stack([tf.shape(input_)[0], size, size, output_dim])
        deconv = tf.nn.conv2d_transpose(input_, w, output_shape=output_shape, strides=[1, d, d, 1])
        deconv = tf.reshape(deconv, [-1, size, size, output_dim])
        biases = tf.get_variable('biases', [output_dim], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.bias_add(deconv, biases)


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def linear(input_, output_size, scope, stddev=0.02):
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [int(input_.get_shape()[1]), output_size], input_.dtype,
                                 tf.random_normal_initializer(stddev=stddev))
        bias = tf.get_variable("bias", [output_size], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.matmul(input_, matrix) + bias


def generator(z, train):
    with tf.variable_scope("generator"):
        h0 = tf.reshape(linear(z, GF_DIM * 2 * 4 * 4, 'g_h0_lin'), [-1, 4, 4, GF_DIM * 2])
        h0 = tf.nn.relu(batch_norm(h0, train, 'g_bn0'))
        h1 = tf.nn.relu(batch_norm(deconv2d(h0, 8, GF_DIM, 'g_h1'), train, 'g_bn1'))
        return tf.nn.tanh(deconv2d(h1, 16, 1, 'g_h2')), h0


def discriminator(image, reuse=None):
    with tf.variable_scope("discriminator", reuse=reuse):
        h0 = lrelu(conv2d(image, DF_DIM, 'd_h0_conv'))
        h1 = lrelu(conv2d(h0, DF_DIM * 2, 'd_h1_conv'))
        return linear(tf.reshape(h1, [-1, 4 * 4 * DF_DIM * 2]), 1, 'd_h2_lin'), h1


def cross_entropy(logits, target):
    labels = target * tf.ones_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))


def tower(images, z, training=True):
    G, h0 = generator(z, training)
    D_logits, features = discriminator(images)
    D_logits_, _ = discriminator(G, reuse=True)
    d_loss_real = cross_entropy(D_logits, 0.9)
    d_loss_fake = cross_entropy(D_logits_, 0.0)
    g_loss = cross_entropy(D_logits_, 1.0)
    d_loss = d_loss_real + d_loss_fake
    return d_loss, {"h0": h0, "G": G, "features": features, "D_logits": D_logits, "D_logits_": D_logits_,
                    "d_loss_real": d_loss_real, "d_loss_fake": d_loss_fake, "g_loss": g_loss}
