"""Sequence to coverage (Basenji): convolutions with pooling, dilated ones that are concatenated, a softplus head, Poisson loss; in
training a stretch is read from either strand, in evaluation both predictions are averaged."""
import tensorflow.compat.v1 as tf

TARGETS = 3
CNN_FILTERS = [12, 18]
CNN_SIZES = [7, 5]
CNN_POOL = [4, 2]
DILATIONS = [1, 2, 4]
DENSE_FILTERS = 6
BUFFER = 1
FINAL_L1 = 1e-3


def cnn_block(seqs_repr, filters, size, dilation, pool, dense, training):
    after = tf.layers.conv1d(seqs_repr, filters=filters, kernel_size=[size], strides=1, padding="same",
                             dilation_rate=[dilation], use_bias=False, kernel_initializer=tf.glorot_uniform_initializer())
    after = tf.layers.batch_normalization(after, momentum=0.9, training=training)
    after = tf.nn.relu(after)
    if pool > 1:
        after = tf.layers.max_pooling1d(after, pool_size=pool, strides=pool, padding="same")
    return tf.concat([seqs_repr, after], axis=2) if dense else after


def reverse_complement(seq):
    return tf.reverse(tf.gather(seq, [3, 2, 1, 0], axis=-1), axis=[1])


def build_predict(seqs_repr, training):
    ends = {}
    with tf.variable_scope("seqnn"):
        for layer, filters in enumerate(CNN_FILTERS):
            seqs_repr = cnn_block(seqs_repr, filters, CNN_SIZES[layer], 1, CNN_POOL[layer], False, training)
            ends["tower%d" % layer] = seqs_repr
        for layer, dilation in enumerate(DILATIONS):
            seqs_repr = cnn_block(seqs_repr, DENSE_FILTERS, 3, dilation, 1, True, training)
        ends["trunk"] = seqs_repr
        seqs_repr = seqs_repr[:, BUFFER:-BUFFER, :]
        final = tf.layers.conv1d(seqs_repr, filters=TARGETS, kernel_size=[1], padding="same", name="final")
    ends["preds"] = tf.nn.softplus(final)
    return ends


def tower(seq, counts, flip, training=True):
    flipped = tf.reshape(flip, [-1, 1, 1])
    if training:
        ends = build_predict(flipped * reverse_complement(seq) + (1 - flipped) * seq, training)
        preds = flipped * tf.reverse(ends["preds"], [1]) + (1 - flipped) * ends["preds"]
    else:
        ends = build_predict(tf.concat([seq, reverse_complement(seq)], axis=0), training)
        one, other = tf.split(ends["preds"], 2, axis=0)
        preds = (one + tf.reverse(other, [1])) / 2
    ends["preds"] = preds
    poisson = tf.nn.log_poisson_loss(counts, tf.log(preds), compute_full_loss=False)
    target_losses = tf.reduce_mean(poisson, axis=[0, 1])
    final = [v for v in tf.trainable_variables() if v.op.name.endswith("final/kernel")][0]
    penalty = FINAL_L1 * tf.reduce_sum(tf.abs(final))
    ends["poisson"] = tf.reduce_mean(target_losses)
    ends["penalty"] = penalty
    return tf.reduce_mean(target_losses) + penalty, ends
