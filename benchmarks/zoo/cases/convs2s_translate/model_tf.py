"""Convolutional sequence to sequence learning: gated convolutions with weight norm, attention in each decoder layer."""
import tensorflow.compat.v1 as tf

SRC_VOCAB = 40
TGT_VOCAB = 36
MAX_POSITIONS = 12
EMBED = 16
NHIDS = 20
LAYERS = 2
KWIDTH = 3
SQRT_HALF = 0.5 ** 0.5


def linear_mapping_weightnorm(inputs, out_dim, scope):
    with tf.variable_scope(scope):
        in_dim = inputs.shape.as_list()[-1]
        V = tf.get_variable("V", [in_dim, out_dim], inputs.dtype,
                            initializer=tf.random_normal_initializer(0, (1.0 / in_dim) ** 0.5))
        g = tf.get_variable("g", [out_dim], inputs.dtype, initializer=tf.ones_initializer())
        b = tf.get_variable("b", [out_dim], inputs.dtype, initializer=tf.zeros_initializer())
        outputs = tf.tensordot(inputs, V, [[2], [0]])
        scaler = g / tf.sqrt(tf.reduce_sum(tf.square(V), [0]))
        return outputs * tf.reshape(scaler, [1, 1, out_dim]) + tf.reshape(b, [1, 1, out_dim])


def conv1d_weightnorm(inputs, out_dim, kernel_size, padding, scope):
    with tf.variable_scope(scope):
        in_dim = inputs.shape.as_list()[-1]
        V = tf.get_variable("V", [kernel_size, in_dim, out_dim], inputs.dtype,
                            initializer=tf.random_normal_initializer(0, (4.0 / (kernel_size * in_dim)) ** 0.5))
        g = tf.get_variable("g", [out_dim], inputs.dtype, initializer=tf.ones_initializer())
        b = tf.get_variable("b", [out_dim], inputs.dtype, initializer=tf.zeros_initializer())
        W = tf.reshape(g, [1, 1, out_dim]) * tf.nn.l2_normalize(V, [0, 1])
        return tf.nn.bias_add(tf.nn.conv1d(inputs, W, stride=1, padding=padding), b)


def gated_linear_units(inputs):
    a, gate = tf.split(inputs, 2, axis=2)
    return a * tf.sigmoid(gate)


def embed(ids, vocab, dtype, scope):
    with tf.variable_scope(scope):
        words = tf.get_variable("W", [vocab, EMBED], dtype, initializer=tf.random_normal_initializer(0, 0.1))
        positions = tf.get_variable("W_pos", [MAX_POSITIONS, EMBED], dtype,
                                    initializer=tf.random_normal_initializer(0, 0.1))
        return tf.nn.embedding_lookup(words, ids) + positions[:ids.shape.as_list()[1]]


def scale_gradient(x, scale):
    return tf.stop_gradient((1.0 - scale) * x) + scale * x


def encoder(source, mask):
    embedded = embed(source, SRC_VOCAB, mask.dtype, "encoder_embedding")
    keep = tf.expand_dims(mask, 2)
    x = linear_mapping_weightnorm(embedded, NHIDS, "linear_mapping_before_cnn") * keep
    for i in range(LAYERS):
        y = gated_linear_units(conv1d_weightnorm(x, NHIDS * 2, KWIDTH, "SAME", "conv_layer_%d" % i))
        x = (y + x) * SQRT_HALF * keep
    outputs = linear_mapping_weightnorm(x, EMBED, "linear_mapping_after_cnn")
    # each decoder layer sends gradients back, twice
    outputs = scale_gradient(outputs, 1.0 / (2 * LAYERS))
    return outputs, (outputs + embedded) * SQRT_HALF


def make_attention(target_embed, keys, values, mask, h, layer):
    with tf.variable_scope("attention_layer_%d" % layer):
        d = (linear_mapping_weightnorm(h, EMBED, "linear_mapping_att_query") + target_embed) * SQRT_HALF
        scores = tf.matmul(d, keys, transpose_b=True)
        scores += tf.expand_dims((1.0 - mask) * -1e9, 1)
        weights = tf.nn.softmax(scores)
        length = tf.reshape(tf.reduce_sum(mask, 1), [-1, 1, 1])
        context = tf.matmul(weights, values) * (length * tf.sqrt(1.0 / length))
        return linear_mapping_weightnorm(context, NHIDS, "linear_mapping_att_out")


def decoder(target, keys, values, mask):
    target_embed = embed(target, TGT_VOCAB, mask.dtype, "decoder_embedding")
    x = linear_mapping_weightnorm(target_embed, NHIDS, "linear_mapping_before_cnn")
    for i in range(LAYERS):
        padded = tf.pad(x, [[0, 0], [KWIDTH - 1, 0], [0, 0]])
        h = gated_linear_units(conv1d_weightnorm(padded, NHIDS * 2, KWIDTH, "VALID", "conv_layer_%d" % i))
        h = (h + make_attention(target_embed, keys, values, mask, h, i)) * SQRT_HALF
        x = (h + x) * SQRT_HALF
    x = linear_mapping_weightnorm(x, EMBED, "linear_mapping_after_cnn")
    return linear_mapping_weightnorm(x, TGT_VOCAB, "logits_before_softmax")


def tower(source, source_mask, target_in, target_out, target_weights):
    with tf.variable_scope("encoder"):
        keys, values = encoder(source, source_mask)
    with tf.variable_scope("decoder"):
        logits = decoder(target_in, keys, values, source_mask)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target_out, logits=logits)
    loss = tf.reduce_sum(losses * target_weights) / tf.reduce_sum(target_weights)
    return loss, {"encoder_outputs": keys, "logits": logits}
