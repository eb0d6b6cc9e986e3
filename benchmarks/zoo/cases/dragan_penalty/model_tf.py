"""DRAGAN with the networks of infoGAN, after a collection of GANs in TensorFlow 1: the discriminator's gradient is held near one on a
path from real images to perturbed ones. Batch norm is the generator's only, for the penalty is of single examples."""
import tensorflow.compat.v1 as tf

LAMBDA = 0.25


def bn(x, is_training, scope):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, scale=True, fused=False, training=is_training, name=scope)


def conv2d(input_, output_dim, k_h=4, k_w=4, d_h=2, d_w=2, stddev=0.02, name="conv2d"):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [k_h, k_w, int(input_.shape[-1]), output_dim], input_.dtype,
                            initializer=tf.truncated_normal_initializer(stddev=stddev, dtype=input_.dtype))
        conv = tf.nn.conv2d(input_, w, strides=[1, d_h, d_w, 1], padding="SAME")
        biases = tf.get_variable("biases", [output_dim], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.bias_add(conv, biases)


def deconv2d(input_, output_dim, k_h=4, k_w=4, d_h=2, d_w=2, stddev=0.02, name="deconv2d"):
    with tf.variable_scope(name):
        _, height, width, channels = [d if isinstance(d, int) else d.value for d in input_.shape[:]]
        w = tf.get_variable("w", [k_h, k_w, output_dim, channels], input_.dtype,
                            initializer=tf.random_normal_initializer(stddev=stddev, dtype=input_.dtype))
        shape = tf.stack([tf.shape(input_)[0], height * d_h, width * d_w, output_dim])
        deconv = tf.nn.conv2d_transpose(input_, w, output_shape=shape, strides=[1, d_h, d_w, 1])
        deconv = tf.reshape(deconv, [-1, height * d_h, width * d_w, output_dim])
        biases = tf.get_variable("biases", [output_dim], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.bias_add(deconv, biases)


def linear(input_, output_size, scope, stddev=0.02):
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [int(input_.shape[1]), output_size], input_.dtype,
                                 initializer=tf.random_normal_initializer(stddev=stddev, dtype=input_.dtype))
        bias = tf.get_variable("bias", [output_size], input_.dtype, initializer=tf.constant_initializer(0.0))
        return tf.matmul(input_, matrix) + bias


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def discriminator(x, reuse=None):
    with tf.variable_scope("discriminator", reuse=reuse):
        net = lrelu(conv2d(x, 6, name="d_conv1"))
        net = lrelu(conv2d(net, 12, name="d_conv2"))
        net = tf.reshape(net, [-1, 3 * 3 * 12])
        net = lrelu(linear(net, 32, scope="d_fc3"))
        out_logit = linear(net, 1, scope="d_fc4")
        return tf.nn.sigmoid(out_logit), out_logit


def generator(z, is_training=True):
    with tf.variable_scope("generator"):
        net = tf.nn.relu(bn(linear(z, 32, scope="g_fc1"), is_training, "g_bn1"))
        net = tf.nn.relu(bn(linear(net, 12 * 3 * 3, scope="g_fc2"), is_training, "g_bn2"))
        net = tf.reshape(net, [-1, 3, 3, 12])
        net = tf.nn.relu(bn(deconv2d(net, 6, name="g_dc3"), is_training, "g_bn3"))
        return tf.nn.sigmoid(deconv2d(net, 1, name="g_dc4"))


def cross_entropy(logits, target):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=target(logits)))


def tower(images, z, noise, alpha):
    _, variance = tf.nn.moments(images, [0, 1, 2, 3])
    perturbed = images + 0.5 * tf.sqrt(variance) * noise

    _, d_real_logits = discriminator(images)
    fake = generator(z)
    _, d_fake_logits = discriminator(fake, reuse=True)
    d_loss = cross_entropy(d_real_logits, tf.ones_like) + cross_entropy(d_fake_logits, tf.zeros_like)
    g_loss = cross_entropy(d_fake_logits, tf.ones_like)

    interpolates = images + alpha * (perturbed - images)
    d_inter, _ = discriminator(interpolates, reuse=True)
    gradients = tf.gradients(d_inter, [interpolates])[0]
    slopes = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]))
    gradient_penalty = tf.reduce_mean((slopes - 1.0) ** 2)
    d_loss += LAMBDA * gradient_penalty
    return g_loss, {"d_loss": d_loss, "fake": fake, "d_real_logits": d_real_logits, "d_fake_logits": d_fake_logits,
                    "d_inter": d_inter, "gradient_penalty": gradient_penalty}
