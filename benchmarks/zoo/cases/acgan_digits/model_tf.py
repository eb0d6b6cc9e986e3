"""Auxiliary classifier GAN: the discriminator also names the digit, the generator is asked for one."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
Z_DIM = 16


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def bn(x, training, name):
    return tf.layers.batch_normalization(x, momentum=0.8, epsilon=1e-5, fused=False, training=training, name=name)


def generator(z, classes, training):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        table = tf.get_variable("embedding", [NUM_CLASSES, Z_DIM], z.dtype, tf.glorot_normal_initializer())
        hidden = tf.multiply(z, tf.nn.embedding_lookup(table, classes))
        net = tf.layers.dense(hidden, 4 * 4 * 16, use_bias=False, name="project")
        net = tf.reshape(net, [-1, 4, 4, 16])
        net = tf.nn.relu(bn(net, training, "bn0"))
        net = tf.layers.conv2d_transpose(net, 8, 4, strides=2, padding="same", use_bias=False, name="deconv1")
        net = tf.nn.relu(bn(net, training, "bn1"))
        net = tf.layers.conv2d_transpose(net, 1, 4, strides=2, padding="same", name="deconv2")
        return hidden, tf.nn.tanh(net)


def discriminator(images):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        net = lrelu(tf.layers.conv2d(images, 8, 4, strides=2, padding="same", name="conv1"))
        net = lrelu(tf.layers.conv2d(net, 16, 4, strides=2, padding="same", name="conv2"))
        net = lrelu(tf.layers.conv2d(net, 20, 3, strides=1, padding="same", name="conv3"))
        net = tf.reduce_mean(net, [1, 2])
        source = tf.layers.dense(net, 1, name="source")
        auxiliary = tf.layers.dense(net, NUM_CLASSES, name="auxiliary")
        return source, auxiliary


def source_loss(logits, value):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=tf.ones_like(logits) * value))


def class_loss(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))


def tower(images, labels, noise, sampled_labels, training=True):
    real = images / 127.5 - 1.0
    hidden, fake = generator(noise, sampled_labels, training)
    real_source, real_aux = discriminator(real)
    fake_source, fake_aux = discriminator(fake)

    d_source = source_loss(real_source, 0.9) + source_loss(fake_source, 0.0)
    d_aux = class_loss(real_aux, labels) + class_loss(fake_aux, sampled_labels)
    d_loss = d_source + d_aux
    g_loss = source_loss(fake_source, 1.0) + class_loss(fake_aux, sampled_labels)
    return d_loss, {"g_loss": g_loss, "d_source": d_source, "d_aux": d_aux, "hidden": hidden, "fake": fake,
                    "real_aux": real_aux, "fake_aux": fake_aux}
