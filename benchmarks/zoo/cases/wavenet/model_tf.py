"""WaveNet on one-hot mu-law audio: dilated causal convolutions, gates, residual and skip connections."""
import tensorflow.compat.v1 as tf

QUANTIZATION, RESIDUAL, DILATION, SKIP = 32, 12, 14, 16
DILATIONS = [1, 2, 4, 8, 1, 2, 4, 8]
L2 = 1e-3


def create_variable(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, tf.glorot_uniform_initializer(dtype=dtype))


def create_bias_variable(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(0.0))


def causal_conv(value, filter_, dilation, name='causal_conv'):
    with tf.name_scope(name):
        filter_width = int(filter_.shape[0])
        padded = tf.pad(value, [[0, 0], [(filter_width - 1) * dilation, 0], [0, 0]])
        return tf.nn.convolution(padded, filter_, padding="VALID", dilation_rate=[dilation])


def dilation_layer(input_batch, dilation, is_last):
    dtype = input_batch.dtype
    weights_filter = create_variable("filter", [2, RESIDUAL, DILATION], dtype)
    weights_gate = create_variable("gate", [2, RESIDUAL, DILATION], dtype)
    conv_filter = causal_conv(input_batch, weights_filter, dilation)
    conv_gate = causal_conv(input_batch, weights_gate, dilation)
    conv_filter = tf.add(conv_filter, create_bias_variable("filter_bias", [DILATION], dtype))
    conv_gate = tf.add(conv_gate, create_bias_variable("gate_bias", [DILATION], dtype))
    out = tf.tanh(conv_filter) * tf.sigmoid(conv_gate)
    skip = tf.nn.conv1d(out, create_variable("skip", [1, DILATION, SKIP], dtype), stride=1, padding="SAME")
    skip = skip + create_bias_variable("skip_bias", [SKIP], dtype)
    if is_last:
        return skip, None
    transformed = tf.nn.conv1d(out, create_variable("dense", [1, DILATION, RESIDUAL], dtype), stride=1, padding="SAME")
    transformed = transformed + create_bias_variable("dense_bias", [RESIDUAL], dtype)
    return skip, input_batch + transformed


def tower(audio):
    inputs, targets = audio[:, :-1, :], audio[:, 1:, :]
    dtype = audio.dtype
    with tf.variable_scope('wavenet'):
        with tf.variable_scope('causal_layer'):
            current = causal_conv(inputs, create_variable("filter", [2, QUANTIZATION, RESIDUAL], dtype), 1)
        causal = current
        outputs = []
        with tf.variable_scope('dilated_stack'):
            for i, dilation in enumerate(DILATIONS):
                with tf.variable_scope('layer{}'.format(i)):
                    output, current = dilation_layer(current, dilation, i == len(DILATIONS) - 1)
                    outputs.append(output)
        with tf.variable_scope('postprocessing'):
            w1 = create_variable("postprocess1", [1, SKIP, SKIP], dtype)
            w2 = create_variable("postprocess2", [1, SKIP, QUANTIZATION], dtype)
            b1 = create_bias_variable("postprocess1_bias", [SKIP], dtype)
            b2 = create_bias_variable("postprocess2_bias", [QUANTIZATION], dtype)
            total = sum(outputs)
            transformed1 = tf.nn.relu(total)
            conv1 = tf.add(tf.nn.conv1d(transformed1, w1, stride=1, padding="SAME"), b1)
            transformed2 = tf.nn.relu(conv1)
            raw_output = tf.add(tf.nn.conv1d(transformed2, w2, stride=1, padding="SAME"), b2)
    with tf.name_scope('loss'):
        prediction = tf.reshape(raw_output, [-1, QUANTIZATION])
        target = tf.reshape(targets, [-1, QUANTIZATION])
        loss = tf.nn.softmax_cross_entropy_with_logits(logits=prediction, labels=target)
        reduced_loss = tf.reduce_mean(loss)
        l2_loss = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if not ('bias' in v.name)])
        total_loss = reduced_loss + L2 * l2_loss
    return total_loss, {"causal": causal, "first_skip": outputs[0], "skips": total, "raw_output": raw_output,
                        "reduced_loss": reduced_loss}
