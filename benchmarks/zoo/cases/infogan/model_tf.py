"""InfoGAN: a deconvolutional generator, a discriminator, and a head on its hidden layer that reads the codes back."""
import numpy as np
import tensorflow.compat.v1 as tf

HEIGHT, WIDTH = 12, 16
CATEGORIES = 4
CODES = 2
G_FILTERS = 7
D_FILTERS = 6
HIDDEN = 20
LAMBDA_CATEGORICAL = 1.0
LAMBDA_CONTINUOUS = 0.3


def lrelu(x, leak=0.1):
    return tf.maximum(x, leak * x)


def batch_norm(x, training, name):
    return tf.layers.batch_normalization(x, momentum=0.9, training=training, fused=False, name=name)


def generator(z, training):
    with tf.variable_scope("generator"):
        out = tf.layers.dense(z, 24, use_bias=False, name="fc1")
        out = tf.nn.relu(batch_norm(out, training, "fc1_bn"))
        out = tf.layers.dense(out, (HEIGHT // 4) * (WIDTH // 4) * 2 * G_FILTERS, use_bias=False, name="fc2")
        out = tf.nn.relu(batch_norm(out, training, "fc2_bn"))
        out = tf.reshape(out, [-1, HEIGHT // 4, WIDTH // 4, 2 * G_FILTERS])
        out = tf.layers.conv2d_transpose(out, G_FILTERS, 4, strides=2, padding="same", use_bias=False, name="deconv1")
        out = tf.nn.relu(batch_norm(out, training, "deconv1_bn"))
        out = tf.layers.conv2d_transpose(out, 1, 4, strides=2, padding="same", name="deconv2")
        return tf.nn.sigmoid(out)


def discriminator(images, training):
    with tf.variable_scope("discriminator"):
        out = lrelu(tf.layers.conv2d(images, D_FILTERS, 4, strides=2, padding="same", name="conv1"))
        out = tf.layers.conv2d(out, 2 * D_FILTERS, 4, strides=2, padding="same", use_bias=False, name="conv2")
        out = lrelu(batch_norm(out, training, "conv2_bn"))
        out = tf.layers.dense(tf.layers.flatten(out), HIDDEN, use_bias=False, name="fc")
        hidden = lrelu(batch_norm(out, training, "fc_bn"))
        return tf.layers.dense(hidden, 1, name="logit"), hidden


def mutual_info(hidden, training):
    with tf.variable_scope("mutual_info"):
        out = tf.layers.dense(hidden, 13, use_bias=False, name="fc")
        out = lrelu(batch_norm(out, training, "fc_bn"))
        out = tf.layers.dense(out, CATEGORIES + 2 * CODES, name="codes")
        return out[:, :CATEGORIES], out[:, CATEGORIES:CATEGORIES + CODES], out[:, CATEGORIES + CODES:]


def tower(images, categories, codes, noise, training=True):
    z = tf.concat([tf.one_hot(categories, CATEGORIES, dtype=noise.dtype), codes, noise], axis=1)
    fake = generator(z, training)

    # real and generated images go through the discriminator in one batch
    logits, hidden = discriminator(tf.concat([images, fake], axis=0), training)
    logit_real, logit_fake = tf.split(logits, 2, axis=0)
    _, hidden_fake = tf.split(hidden, 2, axis=0)

    bce = tf.nn.sigmoid_cross_entropy_with_logits
    d_real = tf.reduce_mean(bce(labels=tf.ones_like(logit_real), logits=logit_real))
    d_fake = tf.reduce_mean(bce(labels=tf.zeros_like(logit_fake), logits=logit_fake))
    g_adv = tf.reduce_mean(bce(labels=tf.ones_like(logit_fake), logits=logit_fake))

    q_logits, q_mean, q_log_var = mutual_info(hidden_fake, training)
    nll_cat = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=categories, logits=q_logits))
    nll_cont = 0.5 * (np.log(2 * np.pi) + q_log_var + tf.square(codes - q_mean) * tf.exp(-q_log_var))
    nll_cont = tf.reduce_mean(tf.reduce_sum(nll_cont, axis=1))
    mi_loss = LAMBDA_CATEGORICAL * nll_cat + LAMBDA_CONTINUOUS * nll_cont

    return g_adv + mi_loss, {
        "fake": fake, "logit_real": logit_real, "logit_fake": logit_fake, "q_logits": q_logits, "q_mean": q_mean,
        "nll_cat": nll_cat, "nll_cont": nll_cont, "d_loss": d_real + d_fake + mi_loss,
    }
