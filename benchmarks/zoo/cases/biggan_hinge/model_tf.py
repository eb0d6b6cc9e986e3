"""BigGAN on small pictures: conditional batch norm on chunks of the latent, a non-local block, projection discriminator, hinge loss,
orthogonal regularisation of the generator without the diagonal."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 5
EMBED = 5
ORTHO_SCALE = 1e-2


def conv(x, channels, kernel=3, use_bias=True, ortho=None, scope="conv"):
    with tf.variable_scope(scope):
        w = tf.get_variable("kernel", [kernel, kernel, x.shape[-1], channels], x.dtype, initializer=tf.orthogonal_initializer())
        if ortho is not None:
            ortho.append(w)
        x = tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")
        if use_bias:
            x = tf.nn.bias_add(x, tf.get_variable("bias", [channels], x.dtype, initializer=tf.zeros_initializer()))
        return x


def fully_connected(x, units, use_bias=True, scope="linear"):
    with tf.variable_scope(scope):
        w = tf.get_variable("kernel", [x.shape[-1], units], x.dtype, initializer=tf.orthogonal_initializer())
        x = tf.matmul(x, w)
        if use_bias:
            x = x + tf.get_variable("bias", [units], x.dtype, initializer=tf.zeros_initializer())
        return x


def up_sample(x):
    _, h, w, _ = x.get_shape().as_list()
    return tf.image.resize_nearest_neighbor(x, [h * 2, w * 2])


def down_sample(x):
    return tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")


def normalize(x, beta, gamma, is_training):
    """Uses the batch's moments in training and keeps averages of them for sampling."""
    c = x.get_shape().as_list()[-1]
    decay, epsilon = 0.9, 1e-5
    pop_mean = tf.get_variable("pop_mean", [c], x.dtype, initializer=tf.zeros_initializer(), trainable=False)
    pop_var = tf.get_variable("pop_var", [c], x.dtype, initializer=tf.ones_initializer(), trainable=False)
    if is_training:
        mean, var = tf.nn.moments(x, [0, 1, 2])
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(pop_mean, pop_mean * decay + mean * (1 - decay)))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(pop_var, pop_var * decay + var * (1 - decay)))
    else:
        mean, var = pop_mean, pop_var
    return gamma * (x - mean) * tf.rsqrt(var + epsilon) + beta


def condition_batch_norm(x, cond, is_training, scope="cbn"):
    with tf.variable_scope(scope):
        c = x.get_shape().as_list()[-1]
        gamma = 1.0 + fully_connected(cond, c, use_bias=False, scope="gamma")
        beta = fully_connected(cond, c, use_bias=False, scope="beta")
        return normalize(x, tf.reshape(beta, [-1, 1, 1, c]), tf.reshape(gamma, [-1, 1, 1, c]), is_training)


def batch_norm(x, is_training, scope="bn"):
    with tf.variable_scope(scope):
        c = x.get_shape().as_list()[-1]
        gamma = tf.get_variable("gamma", [c], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [c], x.dtype, initializer=tf.zeros_initializer())
        return normalize(x, beta, gamma, is_training)


def resblock_up(x, cond, channels, is_training, ortho, scope):
    with tf.variable_scope(scope):
        with tf.variable_scope("res1"):
            h = tf.nn.relu(condition_batch_norm(x, cond, is_training))
            h = conv(up_sample(h), channels, use_bias=False, ortho=ortho)
        with tf.variable_scope("res2"):
            h = tf.nn.relu(condition_batch_norm(h, cond, is_training))
            h = conv(h, channels, use_bias=False, ortho=ortho)
        with tf.variable_scope("skip"):
            skip = conv(up_sample(x), channels, kernel=1, use_bias=False, ortho=ortho)
        return h + skip


def resblock_down(x, channels, scope, first=False):
    with tf.variable_scope(scope):
        with tf.variable_scope("res1"):
            h = conv(x if first else tf.nn.relu(x), channels)
        with tf.variable_scope("res2"):
            h = down_sample(conv(tf.nn.relu(h), channels))
        with tf.variable_scope("skip"):
            skip = down_sample(conv(x, channels, kernel=1))
        return h + skip


def hw_flatten(x):
    _, h, w, c = x.get_shape().as_list()
    return tf.reshape(x, [-1, h * w, c])


def non_local(x, ortho, scope="attention"):
    _, height, width, c = x.get_shape().as_list()
    with tf.variable_scope(scope):
        f = conv(x, c // 4, kernel=1, use_bias=False, ortho=ortho, scope="f_conv")
        f = tf.nn.max_pool(f, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        g = conv(x, c // 4, kernel=1, use_bias=False, ortho=ortho, scope="g_conv")
        h = conv(x, c // 2, kernel=1, use_bias=False, ortho=ortho, scope="h_conv")
        h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        s = tf.matmul(hw_flatten(g), hw_flatten(f), transpose_b=True)
        o = tf.matmul(tf.nn.softmax(s), hw_flatten(h))
        o = conv(tf.reshape(o, [-1, height, width, c // 2]), c, kernel=1, use_bias=False, ortho=ortho, scope="attn_conv")
        gamma = tf.get_variable("gamma", [], x.dtype, initializer=tf.zeros_initializer())
        return gamma * o + x


def generator(z, labels, is_training, ortho):
    with tf.variable_scope("generator"):
        w = tf.get_variable("class_embedding", [NUM_CLASSES, EMBED], z.dtype, initializer=tf.random_normal_initializer(stddev=0.5))
        embedded = tf.matmul(tf.one_hot(labels, NUM_CLASSES, dtype=z.dtype), w)
        z_split = tf.split(z, 3, axis=1)
        conds = [tf.concat([chunk, embedded], 1) for chunk in z_split[1:]]
        x = fully_connected(z_split[0], 4 * 4 * 16, scope="dense")
        x = tf.reshape(x, [-1, 4, 4, 16])
        x = resblock_up(x, conds[0], 12, is_training, ortho, "resblock_up_1")
        x = non_local(x, ortho)
        x = resblock_up(x, conds[1], 8, is_training, ortho, "resblock_up_2")
        x = tf.nn.relu(batch_norm(x, is_training))
        return tf.tanh(conv(x, 3, ortho=ortho, scope="g_logit"))


def discriminator(x, labels, reuse):
    with tf.variable_scope("discriminator", reuse=reuse):
        x = resblock_down(x, 8, "resblock_down_1", first=True)
        x = resblock_down(x, 12, "resblock_down_2")
        x = tf.reduce_sum(tf.nn.relu(x), axis=[1, 2])
        out = tf.squeeze(fully_connected(x, 1, scope="d_logit"), 1)
        w = tf.get_variable("label_embedding", [NUM_CLASSES, 12], x.dtype, initializer=tf.random_normal_initializer(stddev=0.2))
        return out + tf.reduce_sum(tf.nn.embedding_lookup(w, labels) * x, axis=1)


def orthogonal_regularizer(weights):
    terms = []
    for w in weights:
        c = w.get_shape().as_list()[-1]
        w = tf.reshape(w, [-1, c])
        product = tf.matmul(w, w, transpose_a=True)
        terms.append(tf.nn.l2_loss(product * (1.0 - tf.eye(c, dtype=w.dtype))))
    return ORTHO_SCALE * tf.add_n(terms)


def tower(images, labels, z, training=True):
    ortho = []
    fake = generator(z, labels, training, ortho)
    real_logit = discriminator(images, labels, reuse=None)
    fake_logit = discriminator(fake, labels, reuse=True)
    d_loss = tf.reduce_mean(tf.nn.relu(1.0 - real_logit)) + tf.reduce_mean(tf.nn.relu(1.0 + fake_logit))
    g_loss = -tf.reduce_mean(fake_logit) + orthogonal_regularizer(ortho)
    return g_loss, {"fake": fake, "real_logit": real_logit, "fake_logit": fake_logit, "d_loss": d_loss}
