"""Acoustic model of gated convolutions with the CTC loss; the last class is the blank."""
import tensorflow.compat.v1 as tf

NUM_LABELS = 10
RELU_CLIP = 20.0


def gated_conv(x, channels, width, stride, scope):
    with tf.variable_scope(scope):
        filters = tf.get_variable("filters", [width, int(x.shape[-1]), 2 * channels], x.dtype,
                                  tf.variance_scaling_initializer(dtype=x.dtype))
        bias = tf.get_variable("bias", [2 * channels], x.dtype, tf.zeros_initializer())
        y = tf.nn.bias_add(tf.nn.conv1d(x, filters, stride=stride, padding="SAME"), bias)
        value, gate = tf.split(y, 2, axis=2)
        return value * tf.sigmoid(gate)


def fully_connected(x, units, scope, activation=None):
    with tf.variable_scope(scope):
        n_in = int(x.shape[-1])
        w = tf.get_variable("weights", [n_in, units], x.dtype, tf.glorot_uniform_initializer())
        b = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        y = tf.matmul(tf.reshape(x, [-1, n_in]), w) + b
        if activation:
            y = activation(y)
        return tf.reshape(y, [-1, int(x.shape[1]), units])


def clipped_relu(x):
    return tf.minimum(tf.nn.relu(x), RELU_CLIP)


def tower(features, frames, labels):
    # every coefficient is centred over the frames that were spoken
    spoken = tf.expand_dims(tf.sequence_mask(frames, int(features.shape[1]), dtype=features.dtype), 2)
    mean = tf.reduce_sum(features * spoken, 1, keepdims=True) / tf.reduce_sum(spoken, 1, keepdims=True)
    x = (features - mean) * spoken
    with tf.variable_scope("acoustic"):
        conv1 = gated_conv(x, 16, 5, 2, "conv_1")
        conv2 = gated_conv(conv1, 24, 3, 1, "conv_2")
        hidden = fully_connected(conv2, 32, "fc_3", clipped_relu)
        logits = fully_connected(hidden, NUM_LABELS + 1, "fc_4")
    seq_len = (frames + 1) // 2
    indices = tf.where(tf.not_equal(labels, -1))
    sparse = tf.SparseTensor(indices, tf.gather_nd(labels, indices), tf.shape(labels, out_type=tf.int64))
    total_loss = tf.nn.ctc_loss(labels=sparse, inputs=tf.transpose(logits, [1, 0, 2]), sequence_length=seq_len)
    return tf.reduce_mean(total_loss), {"conv1": conv1, "conv2": conv2, "logits": logits, "total_loss": total_loss}
