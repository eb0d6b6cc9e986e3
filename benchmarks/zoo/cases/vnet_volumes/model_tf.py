"""V-Net in three levels: residual blocks of 3d convolutions with PReLU and batch norm, strided convolutions down, transposed ones
up, trained by a soft dice loss with squared denominator."""
import tensorflow.compat.v1 as tf

CLASSES = 3
N_CHANNELS = 4
BN_MOMENTUM = 0.95
SMOOTH = 1e-5


def xavier_normal_dist_conv3d(shape):
    fan = shape[0] * shape[1] * shape[2] * (shape[3] + shape[4])
    return tf.truncated_normal_initializer(mean=0, stddev=(2.0 / fan) ** 0.5)


def get_weights(shape, dtype):
    return tf.get_variable("weights", shape, dtype, initializer=xavier_normal_dist_conv3d(shape))


def get_biases(channels, dtype):
    return tf.get_variable("biases", [channels], dtype, initializer=tf.zeros_initializer())


def convolution_layer_3d(x, filter_shape, strides):
    w = get_weights(filter_shape, x.dtype)
    b = get_biases(filter_shape[-1], x.dtype)
    return tf.nn.conv3d(x, w, strides, "SAME") + b


def deconvolution_layer_3d(x, filter_shape, output_shape, strides):
    w = get_weights(filter_shape, x.dtype)
    b = get_biases(filter_shape[-2], x.dtype)
    return tf.nn.conv3d_transpose(x, w, output_shape, strides, "SAME") + b


def prelu(x):
    alpha = tf.get_variable("alpha", [x.get_shape()[-1]], x.dtype, initializer=tf.constant_initializer(0.1))
    return tf.maximum(x, 0.0) + alpha * tf.minimum(x, 0.0)


class VNet(object):
    def __init__(self, training):
        self.training = training

    def batch_norm(self, x):
        return tf.layers.batch_normalization(x, momentum=BN_MOMENTUM, epsilon=0.001, center=True, scale=True, training=self.training,
                                             fused=False)

    def convolution_block(self, layer_input, n_channels, num_convolutions, fine_grained_features=None):
        x = layer_input
        if fine_grained_features is not None:
            x = tf.concat((layer_input, fine_grained_features), axis=-1)
        for i in range(num_convolutions):
            with tf.variable_scope("conv_" + str(i + 1)):
                x = convolution_layer_3d(x, [3, 3, 3, int(x.get_shape()[-1]), n_channels], [1, 1, 1, 1, 1])
                x = self.batch_norm(x)
                if i == num_convolutions - 1:
                    # the block's input comes in before the last of its activations
                    x = x + layer_input
                x = prelu(x)
        return x

    def down_convolution(self, layer_input, in_channels):
        with tf.variable_scope("down_convolution"):
            x = convolution_layer_3d(layer_input, [2, 2, 2, in_channels, in_channels * 2], [1, 2, 2, 2, 1])
            return prelu(self.batch_norm(x))

    def up_convolution(self, layer_input, output_shape, in_channels):
        with tf.variable_scope("up_convolution"):
            x = deconvolution_layer_3d(layer_input, [2, 2, 2, in_channels // 2, in_channels], output_shape, [1, 2, 2, 2, 1])
            x = tf.reshape(x, output_shape[:4] + [in_channels // 2])
            return prelu(self.batch_norm(x))

    def network_fn(self, x):
        n = N_CHANNELS

        def size(like, channels):
            return [tf.shape(like)[0]] + like.get_shape().as_list()[1:4] + [channels]

        with tf.variable_scope("vnet/input_layer"):
            x = prelu(self.batch_norm(convolution_layer_3d(x, [3, 3, 3, 1, n], [1, 1, 1, 1, 1])))
        with tf.variable_scope("vnet/encoder/level_1"):
            c1 = self.convolution_block(x, n, 1)
            x = self.down_convolution(c1, n)
        with tf.variable_scope("vnet/encoder/level_2"):
            c2 = self.convolution_block(x, n * 2, 1)
            x = self.down_convolution(c2, n * 2)
        with tf.variable_scope("vnet/bottom_level"):
            bottom = self.convolution_block(x, n * 4, 2)
        with tf.variable_scope("vnet/decoder/level_2"):
            x = self.up_convolution(bottom, size(c2, n * 2), n * 4)
            d2 = self.convolution_block(x, n * 2, 1, c2)
        with tf.variable_scope("vnet/decoder/level_1"):
            x = self.up_convolution(d2, size(c1, n), n * 2)
            d1 = self.convolution_block(x, n, 1, c1)
        with tf.variable_scope("vnet/output_layer"):
            logits = convolution_layer_3d(d1, [1, 1, 1, n, CLASSES], [1, 1, 1, 1, 1])
        return logits, {"level_1": c1, "level_2": c2, "bottom": bottom, "decoder_2": d2, "decoder_1": d1, "logits": logits}


def dice_coe(output, target):
    """Soft dice of every volume and class, with squares in the denominator."""
    inse = tf.reduce_sum(output * target, axis=(1, 2, 3))
    left = tf.reduce_sum(output * output, axis=(1, 2, 3))
    right = tf.reduce_sum(target * target, axis=(1, 2, 3))
    return (2.0 * inse + SMOOTH) / (left + right + SMOOTH)


def tower(volume, label, training=True):
    logits, end_points = VNet(training).network_fn(volume)
    onehot = tf.one_hot(label, CLASSES, dtype=logits.dtype)
    dice = dice_coe(tf.nn.softmax(logits), onehot)
    dice_loss = 1.0 - tf.reduce_mean(dice)
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))
    end_points["dice_loss"] = dice_loss
    end_points["cross_entropy"] = cross_entropy
    return dice_loss + 0.5 * cross_entropy, end_points
