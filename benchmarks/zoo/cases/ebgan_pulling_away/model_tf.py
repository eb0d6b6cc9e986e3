"""An energy-based GAN: the discriminator is an autoencoder, its error the energy. The generator lowers it, and a term that pulls
the codes of its pictures away from each other keeps them different."""
import numpy as np
import tensorflow.compat.v1 as tf

GEN_DIM = 12
DISC_DIM = 8
CODE_DIM = 24
MARGIN = 4.0
PT_LOSS_WEIGHT = 0.1


def weight_variable(shape, name, dtype, stddev=0.08):
    return tf.get_variable(name, shape, dtype, tf.truncated_normal_initializer(stddev=stddev, dtype=dtype))


def bias_variable(shape, name, dtype):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(0.0))


def conv2d_strided(x, size, filters, name):
    channels = x.get_shape().as_list()[3]
    w = weight_variable([size, size, channels, filters], name + '_W', x.dtype)
    b = bias_variable([filters], name + '_b', x.dtype)
    return tf.nn.bias_add(tf.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding='SAME'), b)


def conv2d_transpose_strided(x, size, filters, name):
    _, height, width, channels = x.get_shape().as_list()
    w = weight_variable([size, size, filters, channels], name + '_W', x.dtype)
    b = bias_variable([filters], name + '_b', x.dtype)
    shape = tf.stack([tf.shape(x)[0], 2 * height, 2 * width, filters])
    x = tf.nn.conv2d_transpose(x, w, shape, strides=[1, 2, 2, 1], padding='SAME')
    x.set_shape([None, 2 * height, 2 * width, filters])
    return tf.nn.bias_add(x, b)


def dense(x, size, name):
    width = x.get_shape().as_list()[1]
    return tf.matmul(x, weight_variable([width, size], name + '_W', x.dtype)) + bias_variable([size], name + '_b', x.dtype)


def leaky_relu(x, alpha=0.2):
    return tf.maximum(x, alpha * x)


def generator(z):
    with tf.variable_scope('generator'):
        h = tf.nn.relu(dense(z, 4 * 4 * 2 * GEN_DIM, 'gen_1'))
        h = tf.reshape(h, [-1, 4, 4, 2 * GEN_DIM])
        h = tf.nn.relu(conv2d_transpose_strided(h, 5, GEN_DIM, 'gen_2'))
        return tf.nn.tanh(conv2d_transpose_strided(h, 5, 1, 'gen_3'))


def encoder(images):
    h = leaky_relu(conv2d_strided(images, 4, DISC_DIM, 'enc_1'))
    h = leaky_relu(conv2d_strided(h, 4, 2 * DISC_DIM, 'enc_2'))
    h = tf.reshape(h, [-1, 4 * 4 * 2 * DISC_DIM])
    return dense(h, CODE_DIM, 'enc_3')


def decoder(code):
    h = leaky_relu(dense(code, 4 * 4 * 2 * DISC_DIM, 'dec_1'))
    h = tf.reshape(h, [-1, 4, 4, 2 * DISC_DIM])
    h = leaky_relu(conv2d_transpose_strided(h, 4, DISC_DIM, 'dec_2'))
    return tf.nn.tanh(conv2d_transpose_strided(h, 4, 1, 'dec_3'))


def discriminator(images):
    code = encoder(images)
    decoded = decoder(code)
    batch_size = tf.cast(tf.shape(images)[0], images.dtype)
    energy = tf.sqrt(2 * tf.nn.l2_loss(decoded - images)) / batch_size
    return energy, code, decoded


def pullaway_loss(embeddings):
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    normalized = embeddings / norm
    similarity = tf.matmul(normalized, normalized, transpose_b=True)
    batch_size = tf.cast(tf.shape(embeddings)[0], embeddings.dtype)
    return (tf.reduce_sum(similarity) - batch_size) / (batch_size * (batch_size - 1))


def tower(images, z):
    real = images / 127.5 - 1
    fake = generator(z)
    with tf.variable_scope('discriminator') as scope:
        energy_real, _, decoded_real = discriminator(real)
        scope.reuse_variables()
        energy_fake, code_fake, decoded_fake = discriminator(fake)
    d_loss = energy_real + tf.maximum(MARGIN - energy_fake, 0.0)
    pt_loss = pullaway_loss(code_fake)
    g_loss = energy_fake + PT_LOSS_WEIGHT * pt_loss
    return g_loss, {'d_loss': d_loss, 'pt_loss': pt_loss, 'fake': fake, 'decoded_real': decoded_real, 'decoded_fake': decoded_fake}
