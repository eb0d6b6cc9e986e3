"""Keyword spotting on cepstra by depthwise separable convolutions."""
import tensorflow.compat.v1 as tf

SPECTROGRAM_LENGTH, DCT_COEFFICIENTS, LABEL_COUNT = 25, 10, 6
# features, kernel height and width, stride height and width; the first layer is an ordinary convolution
MODEL_SIZE_INFO = [[14, 10, 4, 2, 2], [14, 3, 3, 1, 1], [20, 3, 3, 2, 2], [20, 3, 3, 1, 1]]
BN_DECAY = 0.96


def batch_norm_relu(x, is_training, scope):
    x = tf.layers.batch_normalization(x, momentum=BN_DECAY, epsilon=0.001, scale=False, fused=False,
                                      training=is_training, name=scope)
    return tf.nn.relu(x)


def conv(x, filters, kernel, stride, scope):
    in_channels = x.get_shape().as_list()[-1]
    with tf.variable_scope(scope):
        w = tf.get_variable("weights", list(kernel) + [in_channels, filters], x.dtype,
                            initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
    return tf.nn.conv2d(x, w, strides=[1, stride[0], stride[1], 1], padding="SAME")


def depthwise_separable_conv(inputs, num_pwc_filters, kernel, stride, is_training, sc):
    in_channels = inputs.get_shape().as_list()[-1]
    with tf.variable_scope(sc):
        with tf.variable_scope("dw_conv"):
            dw = tf.get_variable("depthwise_weights", list(kernel) + [in_channels, 1], inputs.dtype,
                                 initializer=tf.glorot_uniform_initializer(dtype=inputs.dtype))
        net = tf.nn.depthwise_conv2d(inputs, dw, strides=[1] + list(stride) + [1], padding="SAME")
        net = batch_norm_relu(net, is_training, "dw_conv_bn")
        net = conv(net, num_pwc_filters, [1, 1], [1, 1], "pw_conv")
        return batch_norm_relu(net, is_training, "pw_conv_bn")


def tower(fingerprint, label, training=True):
    net = tf.reshape(fingerprint, [-1, SPECTROGRAM_LENGTH, DCT_COEFFICIENTS, 1])
    with tf.variable_scope("DS-CNN"):
        for layer_no, (filters, kh, kw, sh, sw) in enumerate(MODEL_SIZE_INFO):
            if layer_no == 0:
                net = conv(net, filters, [kh, kw], [sh, sw], "conv_1")
                net = batch_norm_relu(net, training, "conv_1_bn")
            else:
                net = depthwise_separable_conv(net, filters, [kh, kw], [sh, sw], training, "conv_ds_%d" % layer_no)
        features = net
        t_dim, f_dim = net.shape.as_list()[1:3]
        net = tf.nn.avg_pool2d(net, [1, t_dim, f_dim, 1], [1, 1, 1, 1], padding="VALID", name="avg_pool")
        net = tf.squeeze(net, [1, 2])
        logits = tf.layers.dense(net, LABEL_COUNT, name="fc1")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label), logits.dtype))
    return loss, {"features": features, "logits": logits, "accuracy": accuracy}
