"""Handwriting recognition by convolutions and a bidirectional GRU, after the kind of small text recognisers that
TensorFlow 1 users trained on lines and words of the IAM database. An alignment of letters to frames is given, so that
the loss is a cross entropy in every frame up to the length of the line, blank being class 0."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 9
NUM_HIDDEN = 16
KERNELS = [5, 3, 3]
FEATURES = [1, 6, 10, 14]
POOLS = [(2, 2), (1, 2), (1, 3)]


def setup_cnn(images):
    pool = tf.expand_dims(images, axis=3)
    for i, (size, window) in enumerate(zip(KERNELS, POOLS)):
        with tf.variable_scope("cnn%d" % i):
            kernel = tf.get_variable("kernel", [size, size, FEATURES[i], FEATURES[i + 1]], images.dtype,
                                     initializer=tf.truncated_normal_initializer(stddev=0.1))
            bias = tf.get_variable("bias", [FEATURES[i + 1]], images.dtype, initializer=tf.zeros_initializer())
            conv = tf.nn.conv2d(pool, kernel, padding="SAME", strides=(1, 1, 1, 1))
            relu = tf.nn.relu(tf.nn.bias_add(conv, bias))
            pool = tf.nn.max_pool(relu, (1,) + window + (1,), (1,) + window + (1,), "VALID")
    return pool


def setup_rnn(cnn_out, lengths):
    rnn_in = tf.squeeze(cnn_out, axis=[2])
    cells = [tf.nn.rnn_cell.GRUCell(NUM_HIDDEN, dtype=rnn_in.dtype) for _ in range(2)]
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(cell_fw=cells[0], cell_bw=cells[1], inputs=rnn_in,
                                                  sequence_length=lengths, dtype=rnn_in.dtype)
    concat = tf.concat([fw, bw], 2)
    with tf.variable_scope("project"):
        kernel = tf.get_variable("kernel", [1, 1, NUM_HIDDEN * 2, NUM_CLASSES], rnn_in.dtype,
                                 initializer=tf.truncated_normal_initializer(stddev=0.1))
        bias = tf.get_variable("bias", [NUM_CLASSES], rnn_in.dtype, initializer=tf.zeros_initializer())
        projected = tf.nn.conv2d(tf.expand_dims(concat, 2), kernel, padding="SAME", strides=(1, 1, 1, 1))
        return concat, tf.squeeze(tf.nn.bias_add(projected, bias), axis=[2])


def tower(images, labels, lengths):
    cnn_out = setup_cnn(images)
    rnn_out, logits = setup_rnn(cnn_out, lengths)
    max_frames = logits.shape.as_list()[1]
    mask = tf.sequence_mask(lengths, max_frames, dtype=logits.dtype)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    return loss, {"cnn_out": cnn_out, "rnn_out": rnn_out, "logits": logits}
