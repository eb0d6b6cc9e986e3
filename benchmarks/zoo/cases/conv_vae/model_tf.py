"""Convolutional variational autoencoder."""
import tensorflow.compat.v1 as tf

N_LATENT = 6


def lrelu(x, alpha=0.3):
    return tf.maximum(x, tf.multiply(x, alpha))


def encoder(X):
    with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
        x = tf.layers.conv2d(X, filters=8, kernel_size=4, strides=2, padding="same", activation=lrelu)
        x = tf.layers.conv2d(x, filters=16, kernel_size=4, strides=2, padding="same", activation=lrelu)
        x = tf.reshape(x, [-1, 3 * 3 * 16])
        x = tf.layers.dense(x, units=32, activation=lrelu)
        mn = tf.layers.dense(x, units=N_LATENT)
        log_var = tf.layers.dense(x, units=N_LATENT)
        return mn, log_var


def decoder(sampled_z):
    with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
        x = tf.layers.dense(sampled_z, units=32, activation=lrelu)
        x = tf.layers.dense(x, units=3 * 3 * 16, activation=lrelu)
        x = tf.reshape(x, [-1, 3, 3, 16])
        x = tf.layers.conv2d_transpose(x, filters=8, kernel_size=4, strides=2, padding="same", activation=tf.nn.relu)
        x = tf.layers.conv2d_transpose(x, filters=1, kernel_size=4, strides=2, padding="same")
        return x


def tower(images, noise):
    mn, log_var = encoder(images)
    z = mn + tf.exp(0.5 * log_var) * noise
    logits = decoder(z)
    img_loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits), [1, 2, 3])
    latent_loss = -0.5 * tf.reduce_sum(1.0 + log_var - tf.square(mn) - tf.exp(log_var), 1)
    loss = tf.reduce_mean(img_loss + latent_loss)
    return loss, {"mean": mn, "log_var": log_var, "z": z, "logits": logits,
                  "reconstruction": tf.reduce_mean(img_loss), "kl": tf.reduce_mean(latent_loss)}
