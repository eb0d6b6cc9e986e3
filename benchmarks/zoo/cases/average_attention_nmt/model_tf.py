"""Transformer whose decoder has average attention in place of self-attention, after the code of "Accelerating neural Transformer via an
average attention network", which is a THUMT: linear layers of raw matrices, biases of attention, smoothing that leaves its entropy out."""
import math

import tensorflow.compat.v1 as tf

SOURCE_VOCAB, TARGET_VOCAB = 28, 24
HIDDEN, FILTER, HEADS = 16, 32, 4
ENCODER_LAYERS, DECODER_LAYERS = 1, 2
SMOOTHING = 0.1


def linear(inputs, output_size, scope=None):
    with tf.variable_scope(scope, default_name="linear", values=[inputs]):
        input_size = inputs.get_shape().as_list()[-1]
        matrix = tf.get_variable("matrix", [input_size, output_size], inputs.dtype)
        bias = tf.get_variable("bias", [output_size], inputs.dtype, initializer=tf.zeros_initializer())
        shape = tf.concat([tf.shape(inputs)[:-1], [output_size]], axis=0)
        output = tf.matmul(tf.reshape(inputs, [-1, input_size]), matrix) + bias
        output = tf.reshape(output, shape)
        output.set_shape(inputs.get_shape().as_list()[:-1] + [output_size])
        return output


def layer_norm(inputs, epsilon=1e-6):
    with tf.variable_scope("layer_norm"):
        channel_size = inputs.get_shape().as_list()[-1]
        scale = tf.get_variable("scale", [channel_size], inputs.dtype, initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [channel_size], inputs.dtype, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(inputs, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(inputs - mean), axis=-1, keepdims=True)
        return (inputs - mean) * tf.rsqrt(variance + epsilon) * scale + offset


def add_timing_signal(x, min_timescale=1.0, max_timescale=1.0e4):
    length, channels = x.get_shape().as_list()[1:]
    position = tf.cast(tf.range(length), x.dtype)
    num_timescales = channels // 2
    increment = math.log(max_timescale / min_timescale) / (num_timescales - 1)
    inv_timescales = min_timescale * tf.exp(tf.cast(tf.range(num_timescales), x.dtype) * -increment)
    scaled_time = tf.expand_dims(position, 1) * tf.expand_dims(inv_timescales, 0)
    signal = tf.concat([tf.sin(scaled_time), tf.cos(scaled_time)], axis=1)
    return x + tf.reshape(signal, [1, length, channels])


def split_heads(inputs):
    n = inputs.get_shape().as_list()[-1]
    ret = tf.reshape(inputs, tf.concat([tf.shape(inputs)[:-1], [HEADS, n // HEADS]], 0))
    return tf.transpose(ret, [0, 2, 1, 3])


def multihead_attention(queries, memories, bias, scope=None):
    with tf.variable_scope(scope, default_name="multihead_attention"):
        if memories is None:
            combined = linear(queries, HIDDEN * 3, scope="qkv_transform")
            q, k, v = tf.split(combined, [HIDDEN, HIDDEN, HIDDEN], axis=-1)
        else:
            q = linear(queries, HIDDEN, scope="q_transform")
            k, v = tf.split(linear(memories, HIDDEN * 2, scope="kv_transform"), [HIDDEN, HIDDEN], axis=-1)
        q, k, v = split_heads(q), split_heads(k), split_heads(v)
        q *= (HIDDEN // HEADS) ** -0.5
        logits = tf.matmul(q, k, transpose_b=True) + bias
        x = tf.matmul(tf.nn.softmax(logits), v)
        x = tf.transpose(x, [0, 2, 1, 3])
        x = tf.reshape(x, tf.concat([tf.shape(x)[:2], [HIDDEN]], 0))
        x.set_shape(queries.get_shape().as_list()[:2] + [HIDDEN])
        return linear(x, HIDDEN, scope="output_transform")


def ffn_layer(inputs, scope=None):
    with tf.variable_scope(scope, default_name="ffn_layer"):
        with tf.variable_scope("input_layer"):
            hidden = tf.nn.relu(linear(inputs, FILTER))
        with tf.variable_scope("output_layer"):
            return linear(hidden, HIDDEN)


def transformer_encoder(x, bias):
    with tf.variable_scope("encoder"):
        for layer in range(ENCODER_LAYERS):
            with tf.variable_scope("layer_%d" % layer):
                with tf.variable_scope("self_attention"):
                    x = layer_norm(x + multihead_attention(x, None, bias))
                with tf.variable_scope("feed_forward"):
                    x = layer_norm(x + ffn_layer(x))
        return x


def transformer_decoder(x, memory, mem_bias, positions, ends):
    with tf.variable_scope("decoder"):
        for layer in range(DECODER_LAYERS):
            with tf.variable_scope("layer_%d" % layer):
                with tf.variable_scope("position_forward"):
                    x_fwd = tf.cumsum(x, axis=1) / positions
                    y = ffn_layer(x_fwd)
                    z = linear(tf.concat([x, y], axis=-1), HIDDEN * 2, scope="z_project")
                    i, f = tf.split(z, [HIDDEN, HIDDEN], axis=-1)
                    y = tf.sigmoid(i) * x + tf.sigmoid(f) * y
                    x = layer_norm(x + y)
                    ends["average_%d" % layer] = x
                with tf.variable_scope("encdec_attention"):
                    x = layer_norm(x + multihead_attention(x, memory, mem_bias))
                with tf.variable_scope("feed_forward"):
                    x = layer_norm(x + ffn_layer(x))
        return x


def smoothed_softmax_cross_entropy(logits, labels, smoothing):
    """Zero where the prediction is as good as smoothing allows."""
    if not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    n = float(TARGET_VOCAB - 1)
    p = 1.0 - smoothing
    q = smoothing / n
    soft_targets = tf.one_hot(labels, depth=TARGET_VOCAB, on_value=tf.constant(p, logits.dtype),
                              off_value=tf.constant(q, logits.dtype))
    xentropy = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient(soft_targets))
    normalizing = -(p * math.log(p) + n * q * math.log(q + 1e-20))
    return xentropy - normalizing


def tower(source, source_mask, target, target_mask, training=True):
    dtype = source_mask.dtype
    ends = {}
    initializer = tf.variance_scaling_initializer(1.0, mode="fan_avg", distribution="uniform")
    with tf.variable_scope("transformer", initializer=initializer):
        table = tf.random_normal_initializer(0.0, HIDDEN ** -0.5)
        src_embedding = tf.get_variable("source_embedding", [SOURCE_VOCAB, HIDDEN], dtype, initializer=table)
        tgt_embedding = tf.get_variable("target_embedding", [TARGET_VOCAB, HIDDEN], dtype, initializer=table)
        bias = tf.get_variable("bias", [HIDDEN], dtype, initializer=tf.zeros_initializer())

        inputs = tf.gather(src_embedding, source) * (HIDDEN ** 0.5)
        targets = tf.gather(tgt_embedding, target) * (HIDDEN ** 0.5)
        inputs = inputs * tf.expand_dims(source_mask, -1)
        targets = targets * tf.expand_dims(target_mask, -1)

        encoder_input = add_timing_signal(tf.nn.bias_add(inputs, bias))
        enc_attn_bias = tf.reshape((1.0 - source_mask) * -1e9, [-1, 1, 1, source_mask.get_shape().as_list()[1]])
        positions = tf.cumsum(target_mask, axis=1)
        positions = tf.where(tf.less_equal(positions, 0.), tf.ones_like(positions), positions)
        positions = tf.expand_dims(positions, 2)
        decoder_input = add_timing_signal(tf.pad(targets, [[0, 0], [1, 0], [0, 0]])[:, :-1, :])

        encoder_output = transformer_encoder(encoder_input, enc_attn_bias)
        ends["memory"] = encoder_output
        decoder_output = transformer_decoder(decoder_input, encoder_output, enc_attn_bias, positions, ends)
        ends["decoded"] = decoder_output
        logits = tf.matmul(tf.reshape(decoder_output, [-1, HIDDEN]), tgt_embedding, False, True)

        ce = smoothed_softmax_cross_entropy(logits, tf.reshape(target, [-1]), SMOOTHING if training else 0.0)
        ce = tf.reshape(ce, tf.shape(target))
        loss = tf.reduce_sum(ce * target_mask) / tf.reduce_sum(target_mask)
    ends["logits"] = logits
    return loss, ends
