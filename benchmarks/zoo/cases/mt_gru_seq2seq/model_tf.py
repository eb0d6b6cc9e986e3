"""Translation with a bidirectional GRU encoder, additive attention and a coverage penalty; inputs by scheduled sampling.

Written after the kind of code in abisee/pointer-generator (attention_decoder with a coverage vector) and the GRU translators in
TensorFlow that follow dl4mt: cells unrolled by hand, masks multiplied in, the state kept where a sentence has ended.
"""
import tensorflow.compat.v1 as tf

SOURCE_VOCAB = 41
TARGET_VOCAB = 37
EMBED = 14
ENC_HIDDEN = 20
DEC_HIDDEN = 26
ATTENTION = 18
GO = 1
COV_LOSS_WT = 1.0


def linear(x, units, scope, bias=True):
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [x.shape.as_list()[-1], units], x.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        result = tf.tensordot(x, matrix, [[x.shape.ndims - 1], [0]])
        if bias:
            result += tf.get_variable("Bias", [units], x.dtype, initializer=tf.zeros_initializer())
        return result


def gru_cell(x, h, units, scope):
    """As tf.nn.rnn_cell.GRUCell: the state is reset before the product, u keeps the old one."""
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        with tf.variable_scope("gates"):
            kernel = tf.get_variable("kernel", [x.shape.as_list()[-1] + units, 2 * units], x.dtype,
                                     initializer=tf.glorot_uniform_initializer())
            bias = tf.get_variable("bias", [2 * units], x.dtype, initializer=tf.ones_initializer())
            r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), kernel) + bias), 2, axis=1)
        with tf.variable_scope("candidate"):
            kernel = tf.get_variable("kernel", [x.shape.as_list()[-1] + units, units], x.dtype,
                                     initializer=tf.glorot_uniform_initializer())
            bias = tf.get_variable("bias", [units], x.dtype, initializer=tf.zeros_initializer())
            c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), kernel) + bias)
        return u * h + (1.0 - u) * c


def run_encoder(inputs, masks, scope):
    state = tf.zeros([tf.shape(inputs[0])[0], ENC_HIDDEN], inputs[0].dtype)
    outputs = []
    for x, m in zip(inputs, masks):
        new = gru_cell(x, state, ENC_HIDDEN, scope)
        state = m[:, None] * new + (1.0 - m[:, None]) * state
        outputs.append(state)
    return outputs


def encoder(source, mask):
    table = tf.get_variable("embedding", [SOURCE_VOCAB, EMBED], mask.dtype,
                            initializer=tf.random_normal_initializer(stddev=0.3))
    inputs = tf.unstack(tf.nn.embedding_lookup(table, source), axis=1)
    masks = tf.unstack(mask, axis=1)
    fw = run_encoder(inputs, masks, "fw")
    bw = run_encoder(inputs[::-1], masks[::-1], "bw")[::-1]
    return tf.concat([tf.stack(fw, 1), tf.stack(bw, 1)], 2)


def attention(state, keys, states, mask, coverage):
    with tf.variable_scope("attention", reuse=tf.AUTO_REUSE):
        w_c = tf.get_variable("w_c", [1, ATTENTION], keys.dtype, initializer=tf.glorot_uniform_initializer())
        v = tf.get_variable("v", [ATTENTION], keys.dtype, initializer=tf.random_normal_initializer(stddev=0.3))
        features = keys + linear(state, ATTENTION, "query")[:, None, :] + coverage[:, :, None] * w_c
        e = tf.reduce_sum(v * tf.tanh(features), 2)
        # softmax over all, then masked and renormalised
        weights = tf.nn.softmax(e) * mask
        weights /= tf.reduce_sum(weights, 1, keepdims=True)
        context = tf.reduce_sum(weights[:, :, None] * states, 1)
        return weights, context


def decoder(states, mask, decoder_inputs):
    table = tf.get_variable("embedding", [TARGET_VOCAB, EMBED], mask.dtype,
                            initializer=tf.random_normal_initializer(stddev=0.3))
    inputs = tf.unstack(tf.nn.embedding_lookup(table, decoder_inputs), axis=1)
    mean = tf.reduce_sum(states * mask[:, :, None], 1) / tf.reduce_sum(mask, 1, keepdims=True)
    state = tf.tanh(linear(mean, DEC_HIDDEN, "initial_state"))
    with tf.variable_scope("attention"):
        keys = linear(states, ATTENTION, "memory", bias=False)
    context = tf.zeros_like(states[:, 0])
    coverage = tf.zeros_like(mask)
    dists, outputs, penalties = [], [], []
    for x in inputs:
        state = gru_cell(tf.concat([x, context], 1), state, DEC_HIDDEN, "cell")
        weights, context = attention(state, keys, states, mask, coverage)
        penalties.append(tf.reduce_sum(tf.minimum(weights, coverage), 1))
        coverage += weights
        dists.append(weights)
        outputs.append(tf.concat([state, context], 1))
    hidden = tf.tanh(linear(tf.stack(outputs, 1), DEC_HIDDEN, "readout"))
    logits = linear(hidden, TARGET_VOCAB, "logits")
    return logits, tf.stack(dists, 1), tf.stack(penalties, 1)


def tower(source, source_mask, target, target_mask, sampled, use_sample):
    with tf.variable_scope("seq2seq"):
        with tf.variable_scope("encoder"):
            states = encoder(source, source_mask)
        go = tf.fill([tf.shape(target)[0], 1], GO)
        teacher = tf.concat([go, target[:, :-1]], 1)
        decoder_inputs = tf.where(use_sample > 0.5, sampled, teacher)
        with tf.variable_scope("decoder"):
            logits, dists, penalties = decoder(states, source_mask, decoder_inputs)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    nll = tf.reduce_mean(tf.reduce_sum(xent * target_mask, 1))
    coverage_loss = tf.reduce_mean(tf.reduce_sum(penalties * target_mask, 1))
    loss = nll + COV_LOSS_WT * coverage_loss
    return loss, {"encoder_states": states, "attention": dists, "logits": logits, "nll": nll,
                  "coverage_loss": coverage_loss}
