"""StarGAN: one generator for all attributes, a discriminator with a second head that classifies, WGAN with gradient penalty."""
import tensorflow.compat.v1 as tf

C_DIM = 3
CH = 6
ADV_WEIGHT = 1.0
CLS_WEIGHT = 1.0
REC_WEIGHT = 10.0
LD = 10.0


def conv(x, channels, kernel=4, stride=2, pad=0, use_bias=True, scope="conv_0"):
    with tf.variable_scope(scope):
        x = tf.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
        return tf.layers.conv2d(inputs=x, filters=channels, kernel_size=kernel, strides=stride,
                                kernel_initializer=tf.random_normal_initializer(0.0, 0.05), use_bias=use_bias)


def deconv(x, channels, kernel=4, stride=2, use_bias=True, scope="deconv_0"):
    with tf.variable_scope(scope):
        return tf.layers.conv2d_transpose(inputs=x, filters=channels, kernel_size=kernel, strides=stride, padding="SAME",
                                          kernel_initializer=tf.random_normal_initializer(0.0, 0.05), use_bias=use_bias)


def instance_norm(x, scope="instance_norm", epsilon=1e-6):
    with tf.variable_scope(scope):
        c = x.shape.as_list()[-1]
        beta = tf.get_variable("beta", [c], x.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [c], x.dtype, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [1, 2], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def lrelu(x, alpha=0.2):
    return tf.maximum(x, alpha * x)


def resblock(x_init, channels, scope):
    with tf.variable_scope(scope):
        with tf.variable_scope("res1"):
            x = conv(x_init, channels, kernel=3, stride=1, pad=1, use_bias=False)
            x = tf.nn.relu(instance_norm(x))
        with tf.variable_scope("res2"):
            x = conv(x, channels, kernel=3, stride=1, pad=1, use_bias=False)
            x = instance_norm(x)
        return x + x_init


def generator(x_init, c):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        c = tf.reshape(c, [-1, 1, 1, C_DIM])
        c = tf.tile(c, [1, x_init.shape.as_list()[1], x_init.shape.as_list()[2], 1])
        x = tf.concat([x_init, c], axis=-1)
        x = conv(x, CH, kernel=7, stride=1, pad=3, use_bias=False, scope="conv")
        x = tf.nn.relu(instance_norm(x, scope="ins_norm"))
        x = conv(x, CH * 2, kernel=4, stride=2, pad=1, use_bias=False, scope="conv_0")
        x = tf.nn.relu(instance_norm(x, scope="down_ins_norm_0"))
        for i in range(2):
            x = resblock(x, CH * 2, scope="resblock_" + str(i))
        x = deconv(x, CH, kernel=4, stride=2, use_bias=False, scope="deconv_0")
        x = tf.nn.relu(instance_norm(x, scope="up_ins_norm0"))
        x = conv(x, 3, kernel=7, stride=1, pad=3, use_bias=False, scope="G_logit")
        return tf.tanh(x)


def discriminator(x_init):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        x = conv(x_init, 8, kernel=4, stride=2, pad=1, scope="conv_0")
        x = lrelu(x, 0.01)
        x = conv(x, 16, kernel=4, stride=2, pad=1, scope="conv_1")
        x = lrelu(x, 0.01)
        logit = conv(x, 1, kernel=3, stride=1, pad=1, use_bias=False, scope="D_logit")
        c = conv(x, C_DIM, kernel=4, stride=1, use_bias=False, scope="D_label")
        return logit, tf.reshape(c, [-1, C_DIM])


def gradient_penalty(real, fake, alpha):
    interpolated = real + alpha * (fake - real)
    logit, _ = discriminator(interpolated)
    grad = tf.gradients(logit, interpolated)[0]
    grad_norm = tf.sqrt(tf.reduce_sum(tf.square(grad), axis=[1, 2, 3]))
    return LD * tf.reduce_mean(tf.square(grad_norm - 1.0))


def classification_loss(logit, label):
    per_image = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit), axis=1)
    return tf.reduce_mean(per_image)


def tower(real, label_org, label_trg, alpha):
    fake = generator(real, label_trg)
    recon = generator(fake, label_org)
    real_logit, real_cls = discriminator(real)
    fake_logit, fake_cls = discriminator(fake)

    d_adv_loss = -tf.reduce_mean(real_logit) + tf.reduce_mean(fake_logit) + gradient_penalty(real, fake, alpha)
    d_cls_loss = classification_loss(real_cls, label_org)
    d_loss = ADV_WEIGHT * d_adv_loss + CLS_WEIGHT * d_cls_loss

    g_adv_loss = -tf.reduce_mean(fake_logit)
    g_cls_loss = classification_loss(fake_cls, label_trg)
    g_rec_loss = tf.reduce_mean(tf.abs(real - recon))
    g_loss = ADV_WEIGHT * g_adv_loss + CLS_WEIGHT * g_cls_loss + REC_WEIGHT * g_rec_loss
    return d_loss, {"g_loss": g_loss, "fake": fake, "recon": recon, "real_cls": real_cls}
