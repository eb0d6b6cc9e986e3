"""SRGAN's generator, trained on its own as an SRResNet: after the kind of code that was written with slim and tf.layers for
super-resolution GANs, with a parametric ReLU for each channel and a hand-written pixel shuffler."""
import tensorflow.compat.v1 as tf

NUM_RESBLOCK = 2
FILTERS = 12
TV_WEIGHT = 1e-3


def conv2(batch_input, kernel, output_channel, scope, use_bias=True):
    with tf.variable_scope(scope):
        return tf.layers.conv2d(batch_input, output_channel, kernel, padding="SAME", use_bias=use_bias, name="Conv",
                                kernel_initializer=tf.glorot_normal_initializer(dtype=batch_input.dtype))


def prelu_tf(inputs, name="Prelu"):
    with tf.variable_scope(name):
        alphas = tf.get_variable("alpha", [inputs.shape.as_list()[-1]], inputs.dtype, tf.constant_initializer(0.1))
        positive = tf.nn.relu(inputs)
        negative = alphas * (inputs - tf.abs(inputs)) * 0.5
        return positive + negative


def batchnorm(inputs, is_training, scope):
    return tf.layers.batch_normalization(inputs, momentum=0.75, epsilon=0.001, training=is_training, fused=False, name=scope)


def phase_shift(inputs, scale, height, width):
    x = tf.reshape(inputs, [-1, height, width, scale, scale])
    x = tf.transpose(x, [0, 1, 3, 2, 4])
    return tf.reshape(x, [-1, height * scale, width * scale, 1])


def pixel_shuffler(inputs, scale=2):
    _, height, width, channels = inputs.shape.as_list()
    pieces = tf.split(inputs, channels // (scale * scale), axis=3)
    return tf.concat([phase_shift(piece, scale, height, width) for piece in pieces], axis=3)


def residual_block(inputs, is_training, scope):
    with tf.variable_scope(scope):
        net = conv2(inputs, 3, FILTERS, "conv_1", use_bias=False)
        net = batchnorm(net, is_training, "BatchNorm_1")
        net = prelu_tf(net)
        net = conv2(net, 3, FILTERS, "conv_2", use_bias=False)
        net = batchnorm(net, is_training, "BatchNorm_2")
        return net + inputs


def upsample_stage(inputs, output_channel, scope):
    with tf.variable_scope(scope):
        net = conv2(inputs, 3, output_channel, "conv")
        net = pixel_shuffler(net, scale=2)
        return prelu_tf(net)


def tower(inputs, targets, training=True):
    end_points = {}
    with tf.variable_scope("generator_unit"):
        with tf.variable_scope("input_stage"):
            net = conv2(inputs, 9, FILTERS, "conv")
            net = prelu_tf(net)
        stage1_output = net
        end_points["input_stage"] = net
        for i in range(NUM_RESBLOCK):
            net = residual_block(net, training, "resblock_%d" % (i + 1))
        with tf.variable_scope("resblock_output"):
            net = conv2(net, 3, FILTERS, "conv", use_bias=False)
            net = batchnorm(net, training, "BatchNorm")
        net = net + stage1_output
        end_points["resblock_output"] = net
        net = upsample_stage(net, 4 * 8, "subpixelconv_stage1")
        end_points["subpixelconv_stage1"] = net
        net = upsample_stage(net, 4 * 6, "subpixelconv_stage2")
        end_points["subpixelconv_stage2"] = net
        with tf.variable_scope("output_stage"):
            generated = tf.tanh(conv2(net, 9, 3, "conv"))
    with tf.variable_scope("generator_loss"):
        content_loss = tf.reduce_mean(tf.reduce_sum(tf.square(generated - targets), axis=[3]))
        tv_loss = tf.reduce_mean(tf.image.total_variation(generated))
        gen_loss = content_loss + TV_WEIGHT * tv_loss
    end_points["generated"] = generated
    end_points["content_loss"] = content_loss
    end_points["tv_loss"] = tv_loss
    return gen_loss, end_points
