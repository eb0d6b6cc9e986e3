"""Acoustic model after Deep Speech 2: strided convolutions, bidirectional clipped-ReLU recurrences with sequence-wise batch norm, framewise labels."""
import tensorflow.compat.v1 as tf

RELU_CLIP = 3.0
NUM_CLASSES = 11  # ten letters, and silence at the end
SILENCE_WEIGHT = 0.3
RNN_SIZE = 24
CONV_FILTERS = (6, 8)


def clipped_relu(x):
    return tf.minimum(tf.nn.relu(x), RELU_CLIP)


def conv_layer(x, filters, strides, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("weights", [5, 5, x.shape.as_list()[-1], filters], x.dtype,
                                 initializer=tf.truncated_normal_initializer(stddev=0.1))
        bias = tf.get_variable("biases", [filters], x.dtype, initializer=tf.constant_initializer(0.05))
        return clipped_relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1] + strides + [1], padding="SAME"), bias))


def rnn_layer(x, seq_len, name, batch_norm, training):
    with tf.variable_scope(name):
        if batch_norm:
            x = tf.layers.batch_normalization(x, momentum=0.97, epsilon=1e-5, training=training, name="seq_bn")
        fw = tf.nn.rnn_cell.BasicRNNCell(RNN_SIZE, activation=clipped_relu)
        bw = tf.nn.rnn_cell.BasicRNNCell(RNN_SIZE, activation=clipped_relu)
        (out_fw, out_bw), _ = tf.nn.bidirectional_dynamic_rnn(fw, bw, x, sequence_length=seq_len, dtype=x.dtype)
        return out_fw + out_bw


def tower(features, frames, targets, training=True):
    with tf.variable_scope("acoustic"):
        x = tf.expand_dims(features, 3)
        for i, filters in enumerate(CONV_FILTERS):
            # the first halves time and frequency, the second frequency only
            x = conv_layer(x, filters, [2, 2] if i == 0 else [1, 2], "conv%d" % (i + 1))
        conv = x
        _, steps, bands, channels = x.shape.as_list()
        x = tf.reshape(x, [-1, steps, bands * channels])
        seq_len = (frames + 1) // 2
        rnn1 = rnn_layer(x, seq_len, "rnn1", False, training)
        rnn2 = rnn_layer(rnn1, seq_len, "rnn2", True, training)
        logits = tf.layers.dense(rnn2, NUM_CLASSES, name="output")
    with tf.name_scope("cost"):
        mask = tf.sequence_mask(seq_len, steps, dtype=x.dtype)
        silent = tf.cast(tf.equal(targets, NUM_CLASSES - 1), x.dtype)
        weights = mask * (1.0 - (1.0 - SILENCE_WEIGHT) * silent)
        xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        # silence counts less, but it does count as a frame
        total = tf.reduce_sum(xent * weights) / tf.reduce_sum(mask)
    return total, {"conv": conv, "rnn1": rnn1, "rnn2": rnn2, "logits": logits}
