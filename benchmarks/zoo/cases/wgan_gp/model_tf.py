"""Wasserstein GAN with gradient penalty on toy data; the old script has one Adam for each player."""
import tensorflow.compat.v1 as tf

DIM = 32
LAMBDA = 10.0


def Linear(name, n_in, n_out, x):
    with tf.variable_scope(name):
        w = tf.get_variable("W", [n_in, n_out], x.dtype, tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [n_out], x.dtype, tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, w), b)


def LeakyReLU(x, alpha=0.2):
    return tf.maximum(alpha * x, x)


def Generator(noise):
    output = tf.nn.relu(Linear("Generator.1", 4, DIM, noise))
    output = tf.nn.relu(Linear("Generator.2", DIM, DIM, output))
    return Linear("Generator.3", DIM, 2, output)


def Discriminator(inputs, reuse=None):
    with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
        output = tf.tanh(Linear("Discriminator.1", 2, DIM, inputs))
        output = LeakyReLU(Linear("Discriminator.2", DIM, DIM, output))
        output = LeakyReLU(Linear("Discriminator.3", DIM, DIM, output))
        output = Linear("Discriminator.4", DIM, 1, output)
    return tf.reshape(output, [-1])


def tower(real_data, noise, alpha):
    fake_data = Generator(noise)
    disc_real = Discriminator(real_data)
    disc_fake = Discriminator(fake_data, reuse=True)
    gen_cost = -tf.reduce_mean(disc_fake)
    wasserstein = tf.reduce_mean(disc_fake) - tf.reduce_mean(disc_real)
    interpolates = alpha * real_data + (1.0 - alpha) * fake_data
    gradients = tf.gradients(Discriminator(interpolates, reuse=True), [interpolates])[0]
    slopes = tf.sqrt(tf.reduce_sum(tf.square(gradients), reduction_indices=[1]))
    gradient_penalty = tf.reduce_mean((slopes - 1) ** 2)
    disc_cost = wasserstein + LAMBDA * gradient_penalty
    return disc_cost, {"gen_cost": gen_cost, "fake_data": fake_data, "disc_fake": disc_fake, "disc_real": disc_real,
                       "slopes": slopes}
