"""Sentence VAE: a bidirectional GRU encoder, a Gaussian code, a GRU decoder that sees the code at every step."""
import tensorflow.compat.v1 as tf

VOCAB = 23
EMBED = 8
ENC_UNITS = 9
DEC_UNITS = 11
LATENT = 5
ANNEAL_BIAS = 30.0
ANNEAL_WIDTH = 12.0


def dense(x, units, name):
    return tf.layers.dense(x, units, name=name, kernel_initializer=tf.glorot_uniform_initializer())


def encode(embedded, lengths):
    with tf.variable_scope("encoder"):
        fw = tf.nn.rnn_cell.GRUCell(ENC_UNITS)
        bw = tf.nn.rnn_cell.GRUCell(ENC_UNITS)
        _, (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
            fw, bw, embedded, sequence_length=lengths, dtype=embedded.dtype)
        return tf.concat([state_fw, state_bw], axis=1)


def decode(embedded, z):
    with tf.variable_scope("decoder"):
        steps = embedded.get_shape().as_list()[1]
        code = tf.tile(tf.expand_dims(z, 1), [1, steps, 1])
        state = tf.tanh(dense(z, DEC_UNITS, "initial_state"))
        cell = tf.nn.rnn_cell.GRUCell(DEC_UNITS)
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.concat([embedded, code], axis=2), initial_state=state)
        return dense(outputs, VOCAB, "output")


def tower(enc_inputs, dec_inputs, targets, lengths, noise, train_step):
    dtype = noise.dtype
    embedding = tf.get_variable("embedding", [VOCAB, EMBED], dtype, initializer=tf.random_uniform_initializer(-0.1, 0.1))

    state = encode(tf.nn.embedding_lookup(embedding, enc_inputs), lengths)
    with tf.variable_scope("latent"):
        mu = dense(state, LATENT, "mu")
        logvar = dense(state, LATENT, "logvar")
        z = mu + tf.exp(0.5 * logvar) * noise
    logits = decode(tf.nn.embedding_lookup(embedding, dec_inputs), z)

    mask = tf.sequence_mask(lengths, maxlen=targets.get_shape().as_list()[1], dtype=dtype)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    nll_loss = tf.reduce_mean(tf.reduce_sum(cross_entropy * mask, axis=1))

    kl = 0.5 * tf.reduce_sum(tf.exp(logvar) + tf.square(mu) - 1. - logvar, axis=1)
    kl_w = 0.5 * (tf.tanh((train_step - ANNEAL_BIAS) / ANNEAL_WIDTH) + 1.)
    loss = nll_loss + tf.reduce_mean(kl_w * kl)
    return loss, {"mu": mu, "logvar": logvar, "logits": logits, "nll_loss": nll_loss, "kl_loss": tf.reduce_mean(kl)}
