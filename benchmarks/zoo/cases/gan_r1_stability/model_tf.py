"""A class-conditional GAN of small residual networks with the non-saturating loss and a zero-centred gradient penalty on real
pictures (R1), with tf.layers."""
import tensorflow.compat.v1 as tf

NCLASSES, EMBED = 4, 6
S0, NF = 4, 8
REG_PARAM = 10.0


def actvn(x):
    return tf.maximum(x, 0.2 * x)


def resnet_block(x, fout, name):
    fin = int(x.shape[-1])
    fhidden = min(fin, fout)
    with tf.variable_scope(name):
        dx = tf.layers.conv2d(actvn(x), fhidden, 3, padding="SAME", name="conv_0")
        dx = tf.layers.conv2d(actvn(dx), fout, 3, padding="SAME", name="conv_1")
        if fin != fout:
            x = tf.layers.conv2d(x, fout, 1, use_bias=False, name="conv_s")
        return x + 0.1 * dx


def generator(z, labels):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        table = tf.get_variable("embedding", [NCLASSES, EMBED], z.dtype, initializer=tf.random_normal_initializer(dtype=z.dtype))
        y = tf.nn.embedding_lookup(table, labels)
        y = y / tf.norm(y, axis=1, keepdims=True)
        net = tf.layers.dense(tf.concat([z, y], 1), S0 * S0 * 2 * NF, name="fc")
        net = tf.reshape(net, [-1, S0, S0, 2 * NF])
        net = resnet_block(net, 2 * NF, "block_0")
        net = tf.image.resize_nearest_neighbor(net, [2 * S0, 2 * S0])
        net = resnet_block(net, NF, "block_1")
        net = tf.image.resize_nearest_neighbor(net, [4 * S0, 4 * S0])
        net = resnet_block(net, NF, "block_2")
        return tf.tanh(tf.layers.conv2d(actvn(net), 3, 3, padding="SAME", name="conv_img"))


def discriminator(x, labels):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        net = tf.layers.conv2d(x, NF, 3, padding="SAME", name="conv_img")
        net = resnet_block(net, NF, "block_0")
        net = tf.nn.avg_pool2d(net, 2, 2, "VALID")
        net = resnet_block(net, 2 * NF, "block_1")
        net = tf.nn.avg_pool2d(net, 2, 2, "VALID")
        net = resnet_block(net, 2 * NF, "block_2")
        out = tf.layers.dense(tf.reshape(actvn(net), [-1, S0 * S0 * 2 * NF]), NCLASSES, name="fc")
        rows = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)
        return tf.gather_nd(out, rows)


def tower(z, real, labels):
    fake = generator(z, labels)
    d_real = discriminator(real, labels)
    d_fake = discriminator(fake, labels)
    grad = tf.gradients(tf.reduce_sum(d_real), real)[0]
    reg = tf.reduce_mean(tf.reduce_sum(tf.square(grad), [1, 2, 3]))
    d_loss = tf.reduce_mean(tf.nn.softplus(-d_real)) + tf.reduce_mean(tf.nn.softplus(d_fake)) + REG_PARAM / 2 * reg
    g_loss = tf.reduce_mean(tf.nn.softplus(-d_fake))
    return g_loss, {"d_loss": d_loss, "reg": reg, "fake": fake, "d_real": d_real, "d_fake": d_fake}
