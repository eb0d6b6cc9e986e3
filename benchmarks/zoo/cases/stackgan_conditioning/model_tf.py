"""The first stage of a text-to-image GAN with conditioning augmentation: the generator sees a draw from a Gaussian that
is made of the sentence's embedding, the discriminator the embedding itself, with real, wrong and generated pictures."""
import tensorflow.compat.v1 as tf

EF_DIM = 8
GF_DIM = 4
DF_DIM = 8
KL_COEFFICIENT = 2.0


def leaky_rectify(x, leakiness=0.2):
    return tf.maximum(x, leakiness * x)


def init(dtype):
    return tf.truncated_normal_initializer(stddev=0.1, dtype=dtype)


def fully_connected(x, units, name):
    with tf.variable_scope(name):
        w = tf.get_variable('Matrix', [x.get_shape().as_list()[1], units], x.dtype, init(x.dtype))
        b = tf.get_variable('bias', [units], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, w) + b


def conv2d(x, filters, k, d, name, with_bias=True):
    with tf.variable_scope(name):
        w = tf.get_variable('w', [k, k, x.get_shape().as_list()[3], filters], x.dtype, init(x.dtype))
        x = tf.nn.conv2d(x, w, [1, d, d, 1], 'SAME')
        if not with_bias:
            return x
        return tf.nn.bias_add(x, tf.get_variable('biases', [filters], x.dtype, tf.zeros_initializer()))


def conv_batch_norm(x, name, epsilon=1e-5):
    with tf.variable_scope(name):
        shape = [x.get_shape().as_list()[3]]
        gamma = tf.get_variable('gamma', shape, x.dtype, tf.ones_initializer())
        beta = tf.get_variable('beta', shape, x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def upsample(x):
    _, h, w, c = x.get_shape().as_list()
    x = tf.image.resize_nearest_neighbor(x, [2 * h, 2 * w])
    x.set_shape([None, 2 * h, 2 * w, c])
    return x


def sample_condition(embeddings, epsilon):
    conditions = leaky_rectify(fully_connected(embeddings, 2 * EF_DIM, 'condition'))
    mean = conditions[:, :EF_DIM]
    log_sigma = conditions[:, EF_DIM:]
    kl = tf.reduce_mean(-log_sigma + .5 * (-1 + tf.exp(2. * log_sigma) + tf.square(mean)))
    return mean + tf.exp(log_sigma) * epsilon, kl


def generator(code):
    x = fully_connected(code, 4 * 4 * GF_DIM * 4, 'project')
    x = tf.reshape(x, [-1, 4, 4, GF_DIM * 4])
    x = tf.nn.relu(conv_batch_norm(x, 'bn0'))
    x = conv2d(upsample(x), GF_DIM * 2, 3, 1, 'conv1', with_bias=False)
    x = tf.nn.relu(conv_batch_norm(x, 'bn1'))
    x = conv2d(upsample(x), GF_DIM * 2, 3, 1, 'conv2', with_bias=False)
    x = tf.nn.relu(conv_batch_norm(x, 'bn2'))
    return tf.nn.tanh(conv2d(x, 3, 3, 1, 'conv3'))


def discriminator(images, embeddings):
    with tf.variable_scope('d_net', reuse=tf.AUTO_REUSE):
        x = leaky_rectify(conv2d(images, DF_DIM, 4, 2, 'encode1'))
        x = leaky_rectify(conv2d(x, DF_DIM * 2, 4, 2, 'encode2'))
        c = leaky_rectify(fully_connected(embeddings, EF_DIM, 'context'))
        c = tf.expand_dims(tf.expand_dims(c, 1), 1)
        c = tf.tile(c, [1, 4, 4, 1])
        x = leaky_rectify(conv2d(tf.concat([x, c], 3), DF_DIM * 2, 1, 1, 'joint'))
        return tf.reshape(conv2d(x, 1, 4, 4, 'score'), [-1])


def tower(images, wrong_images, embeddings, z, epsilon):
    with tf.variable_scope('g_net'):
        c, kl_loss = sample_condition(embeddings, epsilon)
        fake = generator(tf.concat([c, z], 1))
    real_logit = discriminator(images, embeddings)
    wrong_logit = discriminator(wrong_images, embeddings)
    fake_logit = discriminator(fake, embeddings)

    def cross_entropy(logit, is_real):
        labels = tf.ones_like(logit) if is_real else tf.zeros_like(logit)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))

    d_loss = cross_entropy(real_logit, True) + (cross_entropy(wrong_logit, False) + cross_entropy(fake_logit, False)) / 2.
    g_loss = cross_entropy(fake_logit, True) + KL_COEFFICIENT * kl_loss
    return g_loss, {'d_loss': d_loss, 'kl_loss': kl_loss, 'fake': fake, 'real_logit': real_logit,
                    'wrong_logit': wrong_logit, 'fake_logit': fake_logit}
