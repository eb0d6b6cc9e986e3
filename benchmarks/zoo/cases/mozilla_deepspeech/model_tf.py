"""The acoustic model of Mozilla's DeepSpeech: windows of neighbouring frames, three dense layers with a clipped ReLU, a bidirectional LSTM
within the utterances' lengths, two more dense layers, CTC. Everything is time-major from the first dense layer on."""
import numpy as np
import tensorflow.compat.v1 as tf

N_INPUT = 8
N_CONTEXT = 2
N_HIDDEN = 20
N_CELL_DIM = 12
N_CHARACTER = 9  # the blank is the last
RELU_CLIP = 1.5


def variable_on_cpu(name, shape, initializer, dtype):
    with tf.device("/cpu:0"):
        return tf.get_variable(name=name, shape=shape, initializer=initializer, dtype=dtype)


def create_overlapping_windows(batch_x):
    window_width = 2 * N_CONTEXT + 1
    # a convolution with a kernel of ones and zeros lays the frames of a window side by side
    eye_filter = tf.constant(np.eye(window_width * N_INPUT).reshape(window_width, N_INPUT, window_width * N_INPUT), batch_x.dtype)
    return tf.nn.conv1d(batch_x, eye_filter, stride=1, padding="SAME")


def dense(name, x, units, relu=True):
    with tf.variable_scope(name):
        bias = variable_on_cpu("bias", [units], tf.zeros_initializer(), x.dtype)
        weights = variable_on_cpu("weights", [x.shape[-1].value, units],
                                  tf.variance_scaling_initializer(scale=1.0, mode="fan_avg", distribution="uniform"), x.dtype)
    output = tf.nn.bias_add(tf.matmul(x, weights), bias)
    if relu:
        output = tf.minimum(tf.nn.relu(output), RELU_CLIP)
    return output


def create_model(batch_x, seq_length):
    layers = {}
    batch_size = tf.shape(batch_x)[0]
    batch_x = create_overlapping_windows(batch_x)
    batch_x = tf.transpose(batch_x, [1, 0, 2])
    batch_x = tf.reshape(batch_x, [-1, N_INPUT * (2 * N_CONTEXT + 1)])

    layers["layer_1"] = layer_1 = dense("layer_1", batch_x, N_HIDDEN)
    layer_2 = dense("layer_2", layer_1, N_HIDDEN)
    layer_3 = dense("layer_3", layer_2, 2 * N_CELL_DIM)
    layer_3 = tf.reshape(layer_3, [-1, batch_size, 2 * N_CELL_DIM])

    cell_fw = tf.nn.rnn_cell.BasicLSTMCell(N_CELL_DIM, forget_bias=1.0, state_is_tuple=True)
    cell_bw = tf.nn.rnn_cell.BasicLSTMCell(N_CELL_DIM, forget_bias=1.0, state_is_tuple=True)
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, layer_3, sequence_length=seq_length, time_major=True,
                                                 dtype=layer_3.dtype)
    layers["rnn_output"] = output = tf.concat(outputs, 2)
    output = tf.reshape(output, [-1, 2 * N_CELL_DIM])

    layer_5 = dense("layer_5", output, N_HIDDEN)
    layer_6 = dense("layer_6", layer_5, N_CHARACTER, relu=False)
    layers["raw_logits"] = layer_6 = tf.reshape(layer_6, [-1, batch_size, N_CHARACTER])
    layers["layer_1"] = tf.reshape(layers["layer_1"], [-1, batch_size, N_HIDDEN])
    return layer_6, layers


def tower(features, seq_length, labels, label_length):
    logits, layers = create_model(features, seq_length)
    where = tf.where(tf.sequence_mask(label_length, tf.shape(labels)[1]))
    batch_y = tf.SparseTensor(where, tf.gather_nd(labels, where), tf.shape(labels, out_type=tf.int64))
    total_loss = tf.nn.ctc_loss(labels=batch_y, inputs=logits, sequence_length=seq_length)
    return tf.reduce_mean(total_loss), layers
