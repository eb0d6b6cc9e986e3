import tensorflow.compat.v1 as tf

CLASSES = 9
RNN_UNITS = 10
BATCH_SIZE = 16  # of all towers


def conv_layer(bottom, filters, name, training):
    with tf.variable_scope(name):
        top = tf.layers.conv2d(bottom, filters, 3, padding="same", use_bias=False, name="conv")
        top = tf.layers.batch_normalization(top, axis=3, momentum=0.9, training=training, fused=False, name="batch_norm")
        return tf.nn.relu(top)


def convnet_layers(inputs, widths, training):
    with tf.variable_scope("convnet"):
        inputs = inputs / 127.5 - 1.0                                                  # 16 x 24
        net = conv_layer(inputs, 6, "conv1", training)
        net = tf.layers.max_pooling2d(net, 2, 2, name="pool1")                         # 8 x 12
        net = conv_layer(net, 9, "conv2", training)
        net = tf.layers.max_pooling2d(net, [2, 2], [2, 1], name="pool2")               # 4 x 11
        net = conv_layer(net, 12, "conv3", training)
        net = tf.layers.max_pooling2d(net, [2, 1], [2, 1], name="pool3")               # 2 x 11
        rows, columns, channels = net.shape.as_list()[1:]
        net = tf.transpose(net, [0, 2, 1, 3])
        features = tf.reshape(net, [-1, columns, rows * channels])
        return features, widths // 2 - 1


def rnn_layer(bottom_sequence, sequence_length, scope):
    cell_fw = tf.nn.rnn_cell.BasicLSTMCell(RNN_UNITS, forget_bias=1.0)
    cell_bw = tf.nn.rnn_cell.BasicLSTMCell(RNN_UNITS, forget_bias=1.0)
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, bottom_sequence, sequence_length=sequence_length,
                                                 dtype=bottom_sequence.dtype, scope=scope)
    return tf.concat(outputs, 2)


def tower(images, widths, labels, training=True):
    features, lengths = convnet_layers(images, widths, training)
    with tf.variable_scope("rnn"):
        rnn = rnn_layer(features, lengths, "bdrnn")
        logits = tf.layers.dense(rnn, CLASSES, name="logits")
    mask = tf.sequence_mask(lengths, logits.shape[1].value, dtype=images.dtype)
    xentropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    per_line = tf.reduce_sum(xentropy * mask, axis=1) / tf.cast(lengths, images.dtype)
    loss = tf.reduce_sum(per_line) / BATCH_SIZE
    return loss, {"features": features, "rnn": rnn, "logits": logits}
