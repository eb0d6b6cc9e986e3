"""Autoencoder of waveforms with two vector quantisers, the second for what the first leaves over."""
import tensorflow.compat.v1 as tf

HIDDEN = 16
CODE_DIM = 8
NUM_CODES = 12
STAGES = 2
COMMITMENT = 0.25
PRE_EMPHASIS = 0.97


class VectorQuantizer(object):
    """In the manner of Sonnet's, with the codes as columns."""

    def __init__(self, embedding_dim, num_embeddings, commitment_cost, name):
        self._dim, self._num, self._cost, self._name = embedding_dim, num_embeddings, commitment_cost, name

    def __call__(self, inputs):
        with tf.variable_scope(self._name):
            w = tf.get_variable("embedding", [self._dim, self._num], inputs.dtype,
                                initializer=tf.random_normal_initializer(stddev=0.3))
        flat = tf.reshape(inputs, [-1, self._dim])
        distances = (tf.reduce_sum(flat ** 2, 1, keepdims=True) - 2 * tf.matmul(flat, w)
                     + tf.reduce_sum(w ** 2, 0, keepdims=True))
        indices = tf.argmax(-distances, 1)
        quantized = tf.nn.embedding_lookup(tf.transpose(w, [1, 0]), tf.reshape(indices, tf.shape(inputs)[:-1]))
        e_latent_loss = tf.reduce_mean((tf.stop_gradient(quantized) - inputs) ** 2)
        q_latent_loss = tf.reduce_mean((quantized - tf.stop_gradient(inputs)) ** 2)
        loss = q_latent_loss + self._cost * e_latent_loss
        quantized = inputs + tf.stop_gradient(quantized - inputs)
        return quantized, loss


def conv_transpose(x, filters, name):
    with tf.variable_scope(name):
        length, channels = x.shape.as_list()[1:]
        w = tf.get_variable("w", [4, filters, channels], x.dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [filters], x.dtype, initializer=tf.zeros_initializer())
        y = tf.nn.conv1d_transpose(x, w, tf.stack([tf.shape(x)[0], 2 * length, filters]), strides=2, padding="SAME")
        y = tf.reshape(y, [-1, 2 * length, filters])
        return y + b


def residual_unit(x, name):
    with tf.variable_scope(name):
        y = tf.layers.conv1d(tf.nn.elu(x), HIDDEN, 3, padding="same", dilation_rate=2, name="dilated")
        return x + tf.layers.conv1d(tf.nn.elu(y), HIDDEN, 1, name="mix")


def encode(waves):
    with tf.variable_scope("encoder"):
        x = tf.layers.conv1d(waves, HIDDEN, 5, strides=2, padding="same", activation=tf.nn.elu, name="down1")
        x = tf.layers.conv1d(x, HIDDEN, 5, strides=2, padding="same", name="down2")
        x = residual_unit(x, "unit")
        return tf.layers.conv1d(tf.nn.elu(x), CODE_DIM, 3, padding="same", name="to_code")


def decode(codes):
    with tf.variable_scope("decoder"):
        x = tf.layers.conv1d(codes, HIDDEN, 3, padding="same", name="from_code")
        x = residual_unit(x, "unit")
        x = tf.nn.elu(conv_transpose(tf.nn.elu(x), HIDDEN, "up1"))
        return conv_transpose(x, 1, "up2")


def emphasise(x):
    return x[:, 1:] - PRE_EMPHASIS * x[:, :-1]


def tower(waves):
    latent = encode(waves)
    residual, total, vq_loss = latent, 0.0, 0.0
    for stage in range(STAGES):
        quantized, stage_loss = VectorQuantizer(CODE_DIM, NUM_CODES, COMMITMENT, "vq_%d" % stage)(residual)
        # what is left over goes on to the next stage; what was chosen here is a constant for it
        residual -= tf.stop_gradient(quantized)
        total += quantized
        vq_loss += stage_loss
    # straight through, once, for all stages
    codes = latent + tf.stop_gradient(total - latent)
    output = decode(codes)
    recon = tf.reduce_mean(tf.squared_difference(output, waves))
    emphasis = tf.reduce_mean(tf.abs(emphasise(output) - emphasise(waves)))
    loss = recon + 0.5 * emphasis + vq_loss
    return loss, {"latent": latent, "codes": codes, "output": output, "recon": recon, "emphasis": emphasis,
                  "vq_loss": vq_loss}
