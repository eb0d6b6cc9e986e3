"""A purely convolutional speech recogniser trained by CTC (Wav2Letter): one striding layer, narrow layers, a wide one, then two
layers that see one step each. Logits are [time, batch, classes], the blank is the last class."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
CHANNELS = 20


class Wav2LetterModel(object):
    def __init__(self, inputs, sequence_lengths):
        self.inputs = inputs
        # the first layer strides over two frames
        self.sequence_lengths = (sequence_lengths + 1) // 2
        self.layers = 0
        self.logits = self._create_network(NUM_CLASSES)

    def _convolution(self, value, filter_width, stride, input_channels, out_channels, apply_non_linearity=True):
        self.layers += 1
        dtype = value.dtype
        with tf.variable_scope("convolution_layer_{}".format(self.layers)):
            filters = tf.get_variable("filters", [filter_width, input_channels, out_channels], dtype,
                                      initializer=tf.glorot_normal_initializer(dtype=dtype))
            bias = tf.get_variable("bias", [out_channels], dtype, initializer=tf.zeros_initializer())
            out = tf.nn.conv1d(value, filters, stride, "SAME", use_cudnn_on_gpu=True)
            out = tf.nn.bias_add(out, bias)
            if apply_non_linearity:
                out = tf.nn.relu(out)
        return out, out_channels

    def _create_network(self, num_classes):
        outputs, channels = self._convolution(self.inputs, 8, 2, 12, CHANNELS)
        self.strided = outputs
        for _ in range(3):
            outputs, channels = self._convolution(outputs, 5, 1, channels, channels)
        outputs, channels = self._convolution(outputs, 6, 1, channels, channels * 2)
        outputs, channels = self._convolution(outputs, 1, 1, channels, channels)
        outputs, channels = self._convolution(outputs, 1, 1, channels, num_classes, apply_non_linearity=False)
        return tf.transpose(outputs, (1, 0, 2))


def to_sparse(labels, lengths):
    where = tf.where(tf.sequence_mask(lengths, tf.shape(labels)[1]))
    return tf.SparseTensor(where, tf.gather_nd(labels, where), tf.shape(labels, out_type=tf.int64))


def tower(inputs, sequence_lengths, labels, label_lengths):
    model = Wav2LetterModel(inputs, sequence_lengths)
    cost = tf.nn.ctc_loss(to_sparse(labels, label_lengths), model.logits, model.sequence_lengths)
    return tf.reduce_mean(cost), {"strided": model.strided, "logits": model.logits, "cost": cost}
