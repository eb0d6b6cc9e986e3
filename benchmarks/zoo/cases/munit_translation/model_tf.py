"""Multimodal unsupervised image-to-image translation (MUNIT), after its simple TensorFlow 1 implementation: content and style encoders
per domain, decoders with adaptive instance norm, discriminators that see an image at two scales with the same weights, LSGAN."""
import tensorflow.compat.v1 as tf

CH, N_SAMPLE, N_RES, STYLE_DIM, N_DIS, N_SCALE = 4, 1, 1, 4, 2, 2
MLP_DIM = CH * 2 ** N_SAMPLE
GAN_W, RECON_X_W, RECON_S_W, RECON_C_W, RECON_X_CYC_W = 1.0, 10.0, 1.0, 1.0, 10.0


def conv(x, channels, kernel=4, stride=2, pad=0, scope="conv"):
    with tf.variable_scope(scope):
        if pad:
            x = tf.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]], mode="REFLECT")
        return tf.layers.conv2d(inputs=x, filters=channels, kernel_size=kernel, strides=stride,
                                kernel_initializer=tf.variance_scaling_initializer(dtype=x.dtype), use_bias=True)


def linear(x, units, scope="linear"):
    with tf.variable_scope(scope):
        return tf.layers.dense(tf.layers.flatten(x), units=units,
                               kernel_initializer=tf.variance_scaling_initializer(dtype=x.dtype), use_bias=True)


def affine(x, axes, epsilon, scope):
    with tf.variable_scope(scope):
        channels = [int(x.shape[-1])]
        beta = tf.get_variable("beta", channels, x.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", channels, x.dtype, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, axes, keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def instance_norm(x, scope="instance_norm"):
    return affine(x, [1, 2], 1e-5, scope)


def layer_norm(x, scope="layer_norm"):
    return affine(x, [1, 2, 3], 1e-12, scope)


def adain(content, gamma, beta, epsilon=1e-5):
    c_mean, c_var = tf.nn.moments(content, axes=[1, 2], keep_dims=True)
    c_std = tf.sqrt(c_var + epsilon)
    return gamma * ((content - c_mean) / c_std) + beta


def lrelu(x, alpha):
    return tf.maximum(x, alpha * x)


def down_sample(x):
    return tf.layers.average_pooling2d(x, pool_size=3, strides=2, padding="SAME")


def up_sample(x, scale_factor=2):
    h, w = int(x.shape[1]), int(x.shape[2])
    return tf.image.resize_nearest_neighbor(x, size=[h * scale_factor, w * scale_factor])


def resblock(x_init, channels, scope):
    with tf.variable_scope(scope):
        with tf.variable_scope("res1"):
            x = tf.nn.relu(instance_norm(conv(x_init, channels, kernel=3, stride=1, pad=1)))
        with tf.variable_scope("res2"):
            x = instance_norm(conv(x, channels, kernel=3, stride=1, pad=1))
        return x + x_init


def adaptive_resblock(x_init, channels, mu, sigma, scope):
    with tf.variable_scope(scope):
        with tf.variable_scope("res1"):
            x = tf.nn.relu(adain(conv(x_init, channels, kernel=3, stride=1, pad=1), mu, sigma))
        with tf.variable_scope("res2"):
            x = adain(conv(x, channels, kernel=3, stride=1, pad=1), mu, sigma)
        return x + x_init


def style_encoder(x, scope):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        x = tf.nn.relu(conv(x, CH, kernel=7, stride=1, pad=3, scope="conv_0"))
        x = tf.nn.relu(conv(x, CH * 2, pad=1, scope="conv_1"))
        x = tf.nn.relu(conv(x, CH * 2, pad=1, scope="down_conv_0"))
        x = tf.reduce_mean(x, axis=[1, 2], keepdims=True)
        return conv(x, STYLE_DIM, kernel=1, stride=1, scope="SE_logit")


def content_encoder(x, scope):
    channel = CH
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        x = tf.nn.relu(instance_norm(conv(x, channel, kernel=7, stride=1, pad=3, scope="conv_0"), scope="ins_0"))
        for i in range(N_SAMPLE):
            channel *= 2
            x = conv(x, channel, pad=1, scope="conv_%d" % (i + 1))
            x = tf.nn.relu(instance_norm(x, scope="ins_%d" % (i + 1)))
        for i in range(N_RES):
            x = resblock(x, channel, scope="resblock_%d" % i)
        return x


def mlp(style, channel=MLP_DIM):
    with tf.variable_scope("MLP"):
        x = tf.nn.relu(linear(style, channel, scope="linear_0"))
        x = tf.nn.relu(linear(x, channel, scope="linear_1"))
        mu = tf.reshape(linear(x, channel, scope="mu"), [-1, 1, 1, channel])
        sigma = tf.reshape(linear(x, channel, scope="sigma"), [-1, 1, 1, channel])
        return mu, sigma


def decoder(contents, style, scope):
    channel = MLP_DIM
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        mu, sigma = mlp(style)
        x = contents
        for i in range(N_RES):
            x = adaptive_resblock(x, channel, mu, sigma, scope="adaptive_resblock%d" % i)
        for i in range(N_SAMPLE):
            channel //= 2
            x = conv(up_sample(x), channel, kernel=5, stride=1, pad=2, scope="conv_%d" % i)
            x = tf.nn.relu(layer_norm(x, scope="layer_norm_%d" % i))
        return tf.tanh(conv(x, 3, kernel=7, stride=1, pad=3, scope="G_logit"))


def discriminator(x_init, scope):
    d_logit = []
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        for _ in range(N_SCALE):
            channel = CH
            x = lrelu(conv(x_init, channel, pad=1, scope="conv_0"), 0.2)
            for i in range(1, N_DIS):
                channel *= 2
                x = lrelu(conv(x, channel, pad=1, scope="conv_%d" % i), 0.2)
            d_logit.append(conv(x, 1, kernel=1, stride=1, scope="D_logit"))
            x_init = down_sample(x_init)
    return d_logit


def L1_loss(x, y):
    return tf.reduce_mean(tf.abs(x - y))


def discriminator_loss(real, fake):
    return sum(tf.reduce_mean(tf.squared_difference(r, 1.0)) + tf.reduce_mean(tf.square(f)) for r, f in zip(real, fake))


def generator_loss(fake):
    return sum(tf.reduce_mean(tf.squared_difference(f, 1.0)) for f in fake)


def tower(domain_a, domain_b, style_a, style_b):
    content_a, style_a_prime = content_encoder(domain_a, "content_encoder_A"), style_encoder(domain_a, "style_encoder_A")
    content_b, style_b_prime = content_encoder(domain_b, "content_encoder_B"), style_encoder(domain_b, "style_encoder_B")
    # within a domain, and across
    x_aa = decoder(content_a, style_a_prime, "decoder_A")
    x_bb = decoder(content_b, style_b_prime, "decoder_B")
    x_ba = decoder(content_b, style_a, "decoder_A")
    x_ab = decoder(content_a, style_b, "decoder_B")
    # encode again, decode again
    content_b_, style_a_ = content_encoder(x_ba, "content_encoder_A"), style_encoder(x_ba, "style_encoder_A")
    content_a_, style_b_ = content_encoder(x_ab, "content_encoder_B"), style_encoder(x_ab, "style_encoder_B")
    x_aba = decoder(content_a_, style_a_prime, "decoder_A")
    x_bab = decoder(content_b_, style_b_prime, "decoder_B")

    real_a, real_b = discriminator(domain_a, "discriminator_A"), discriminator(domain_b, "discriminator_B")
    fake_a, fake_b = discriminator(x_ba, "discriminator_A"), discriminator(x_ab, "discriminator_B")

    recon_x = L1_loss(x_aa, domain_a) + L1_loss(x_bb, domain_b)
    recon_style = L1_loss(style_a_, style_a) + L1_loss(style_b_, style_b)
    recon_content = L1_loss(content_a_, content_a) + L1_loss(content_b_, content_b)
    cyc_recon = L1_loss(x_aba, domain_a) + L1_loss(x_bab, domain_b)
    g_loss = GAN_W * (generator_loss(fake_a) + generator_loss(fake_b)) + RECON_X_W * recon_x + RECON_S_W * recon_style \
        + RECON_C_W * recon_content + RECON_X_CYC_W * cyc_recon
    d_loss = GAN_W * (discriminator_loss(real_a, fake_a) + discriminator_loss(real_b, fake_b))
    return g_loss, {"discriminator_loss": d_loss, "content_a": content_a, "style_a_prime": style_a_prime, "x_aa": x_aa, "x_ba": x_ba,
                    "x_ab": x_ab, "real_a_0": real_a[0], "real_a_1": real_a[1], "recon_content": recon_content, "cyc_recon": cyc_recon}
