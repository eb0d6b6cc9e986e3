"""Object discovery by slot attention: a convolutional encoder with position embedding, slots that compete for the inputs over some
iterations, a spatial broadcast decoder whose masks mix one picture per slot. The slots' noise is an input."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_ITERATIONS = 3
NUM_SLOTS = 4
SLOT_SIZE = 16
MLP_HIDDEN = 24
CHANNELS = 10
DECODER_INIT = 4
EPSILON = 1e-8


def layer_norm(x, name):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [x.shape[-1]], x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", [x.shape[-1]], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def build_grid(resolution):
    ranges = [np.linspace(0.0, 1.0, num=res) for res in resolution]
    grid = np.stack(np.meshgrid(*ranges, sparse=False, indexing="ij"), axis=-1)
    grid = np.expand_dims(grid, axis=0)
    return np.concatenate([grid, 1.0 - grid], axis=-1)


def soft_position_embed(x, name):
    _, height, width, channels = x.shape.as_list()
    grid = tf.constant(build_grid((height, width)), x.dtype)
    return x + tf.layers.dense(grid, channels, name=name)


def gru(inputs, state, name):
    """A GRU whose reset gate acts behind the recurrent product, its gates in the order z, r, h."""
    units = int(state.shape[-1])
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], 3 * units], state.dtype)
        recurrent = tf.get_variable("recurrent_kernel", [units, 3 * units], state.dtype)
        bias = tf.get_variable("input_bias", [3 * units], state.dtype, tf.zeros_initializer())
        recurrent_bias = tf.get_variable("recurrent_bias", [3 * units], state.dtype, tf.zeros_initializer())
    x_z, x_r, x_h = tf.split(tf.matmul(inputs, kernel) + bias, 3, axis=-1)
    s_z, s_r, s_h = tf.split(tf.matmul(state, recurrent) + recurrent_bias, 3, axis=-1)
    z = tf.sigmoid(x_z + s_z)
    r = tf.sigmoid(x_r + s_r)
    hh = tf.tanh(x_h + r * s_h)
    return z * state + (1.0 - z) * hh


def slot_attention(inputs, noise):
    with tf.variable_scope("slot_attention"):
        mu = tf.get_variable("slots_mu", [1, 1, SLOT_SIZE], inputs.dtype, tf.glorot_uniform_initializer(dtype=inputs.dtype))
        log_sigma = tf.get_variable("slots_log_sigma", [1, 1, SLOT_SIZE], inputs.dtype,
                                    tf.glorot_uniform_initializer(dtype=inputs.dtype))
        inputs = layer_norm(inputs, "norm_inputs")
        k = tf.layers.dense(inputs, SLOT_SIZE, use_bias=False, name="k")
        v = tf.layers.dense(inputs, SLOT_SIZE, use_bias=False, name="v")
        slots = mu + tf.exp(log_sigma) * noise
        with tf.variable_scope("iteration", reuse=tf.AUTO_REUSE):
            for _ in range(NUM_ITERATIONS):
                slots_prev = slots
                slots = layer_norm(slots, "norm_slots")
                q = tf.layers.dense(slots, SLOT_SIZE, use_bias=False, name="q")
                q *= SLOT_SIZE ** -0.5
                logits = tf.matmul(k, q, transpose_b=True)
                attn = tf.nn.softmax(logits, axis=-1)
                weights = attn + EPSILON
                weights /= tf.reduce_sum(weights, axis=-2, keepdims=True)
                updates = tf.matmul(weights, v, transpose_a=True)
                slots = gru(tf.reshape(updates, [-1, SLOT_SIZE]), tf.reshape(slots_prev, [-1, SLOT_SIZE]), "gru")
                slots = tf.reshape(slots, [-1, NUM_SLOTS, SLOT_SIZE])
                y = tf.layers.dense(layer_norm(slots, "norm_mlp"), MLP_HIDDEN, activation=tf.nn.relu, name="mlp_0")
                slots += tf.layers.dense(y, SLOT_SIZE, name="mlp_1")
    return slots, attn


def tower(image, slots_noise):
    image = image * 2.0 - 1.0
    with tf.variable_scope("encoder"):
        x = tf.layers.conv2d(image, CHANNELS, 5, padding="same", activation=tf.nn.relu, name="conv0")
        x = tf.layers.conv2d(x, CHANNELS, 5, strides=2, padding="same", activation=tf.nn.relu, name="conv1")
        x = soft_position_embed(x, "encoder_pos")
        x = tf.reshape(x, [-1, int(x.shape[1]) * int(x.shape[2]), CHANNELS])
        x = layer_norm(x, "layer_norm")
        x = tf.layers.dense(x, MLP_HIDDEN, activation=tf.nn.relu, name="mlp_0")
        x = tf.layers.dense(x, SLOT_SIZE, name="mlp_1")

    slots, attn = slot_attention(x, slots_noise)

    with tf.variable_scope("decoder"):
        y = tf.reshape(slots, [-1, 1, 1, SLOT_SIZE])
        y = tf.tile(y, [1, DECODER_INIT, DECODER_INIT, 1])
        y = soft_position_embed(y, "decoder_pos")
        y = tf.layers.conv2d_transpose(y, CHANNELS, 5, strides=2, padding="same", activation=tf.nn.relu, name="deconv0")
        y = tf.layers.conv2d_transpose(y, CHANNELS, 5, strides=2, padding="same", activation=tf.nn.relu, name="deconv1")
        y = tf.layers.conv2d_transpose(y, 4, 3, strides=1, padding="same", name="deconv2")
    y = tf.reshape(y, [-1, NUM_SLOTS] + y.shape.as_list()[1:])
    recons, masks = tf.split(y, [3, 1], axis=-1)
    masks = tf.nn.softmax(masks, axis=1)
    combined = tf.reduce_sum(recons * masks, axis=1)
    loss = tf.reduce_mean(tf.squared_difference(image, combined))
    return loss, {"features": x, "attn": attn, "slots": slots, "masks": masks, "recon": combined}
