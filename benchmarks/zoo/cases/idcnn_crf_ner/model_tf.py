"""Tagger of Chinese characters by iterated dilated convolutions: one block of convolutions is run several times with the same weights,
what comes out of every run is concatenated, and a CRF with an extra tag for the start makes the loss."""
import tensorflow.compat.v1 as tf

NUM_CHARS = 45
NUM_SEGS = 4
CHAR_DIM = 14
SEG_DIM = 4
NUM_FILTER = 12
FILTER_WIDTH = 3
LAYERS = [{"dilation": 1}, {"dilation": 1}, {"dilation": 2}]
REPEAT_TIMES = 3
NUM_TAGS = 5
NUM_STEPS = 12


def xavier(dtype):
    return tf.glorot_uniform_initializer(dtype=dtype)


def embedding_layer(char_inputs, seg_inputs, dtype):
    embedding = []
    with tf.variable_scope("char_embedding"):
        char_lookup = tf.get_variable("char_embedding", [NUM_CHARS, CHAR_DIM], dtype, initializer=xavier(dtype))
        embedding.append(tf.nn.embedding_lookup(char_lookup, char_inputs))
        with tf.variable_scope("seg_embedding"):
            seg_lookup = tf.get_variable("seg_embedding", [NUM_SEGS, SEG_DIM], dtype, initializer=xavier(dtype))
            embedding.append(tf.nn.embedding_lookup(seg_lookup, seg_inputs))
    return tf.concat(embedding, axis=-1)


def idcnn_layer(model_inputs, dtype):
    model_inputs = tf.expand_dims(model_inputs, 1)
    with tf.variable_scope("idcnn"):
        filter_weights = tf.get_variable("idcnn_filter", [1, FILTER_WIDTH, CHAR_DIM + SEG_DIM, NUM_FILTER], dtype,
                                         initializer=xavier(dtype))
        layer_input = tf.nn.conv2d(model_inputs, filter_weights, strides=[1, 1, 1, 1], padding="SAME", name="init_layer")
        outputs = []
        for j in range(REPEAT_TIMES):
            for i, layer in enumerate(LAYERS):
                with tf.variable_scope("atrous-conv-layer-%d" % i, reuse=tf.AUTO_REUSE):
                    w = tf.get_variable("filterW", [1, FILTER_WIDTH, NUM_FILTER, NUM_FILTER], dtype, initializer=xavier(dtype))
                    b = tf.get_variable("filterB", [NUM_FILTER], dtype, initializer=tf.zeros_initializer())
                    conv = tf.nn.atrous_conv2d(layer_input, w, rate=layer["dilation"], padding="SAME")
                    conv = tf.nn.relu(tf.nn.bias_add(conv, b))
                    if i == len(LAYERS) - 1:
                        outputs.append(conv)
                    layer_input = conv
        return tf.squeeze(tf.concat(outputs, axis=3), [1])


def project_layer(idcnn_outputs, dtype):
    total = REPEAT_TIMES * NUM_FILTER
    with tf.variable_scope("project"), tf.variable_scope("logits"):
        W = tf.get_variable("W", [total, NUM_TAGS], dtype, initializer=xavier(dtype))
        b = tf.get_variable("b", [NUM_TAGS], dtype, initializer=tf.zeros_initializer())
        pred = tf.nn.xw_plus_b(tf.reshape(idcnn_outputs, [-1, total]), W, b)
    return tf.reshape(pred, [-1, NUM_STEPS, NUM_TAGS])


def crf_log_likelihood(inputs, tags, trans, lengths):
    """tf.contrib.crf's, unrolled: score of the tags minus the log of the sum over all of them."""
    steps = inputs.shape[1].value
    mask = tf.sequence_mask(lengths, steps, dtype=inputs.dtype)
    unary = tf.reduce_sum(inputs * tf.one_hot(tags, NUM_TAGS + 1, dtype=inputs.dtype), 2)
    pairs = tags[:, :-1] * (NUM_TAGS + 1) + tags[:, 1:]
    binary = tf.gather(tf.reshape(trans, [-1]), pairs)
    score = tf.reduce_sum(unary * mask, 1) + tf.reduce_sum(binary * mask[:, 1:], 1)
    alpha = inputs[:, 0]
    for t in range(1, steps):
        new = inputs[:, t] + tf.reduce_logsumexp(tf.expand_dims(alpha, 2) + tf.expand_dims(trans, 0), 1)
        going = tf.tile(tf.expand_dims(t < lengths, 1), [1, NUM_TAGS + 1])
        alpha = tf.where(going, new, alpha)
    return score - tf.reduce_logsumexp(alpha, 1)


def loss_layer(project_logits, targets, lengths, dtype):
    batch_size = tf.shape(project_logits)[0]
    with tf.variable_scope("crf_loss"):
        small = -1000.0
        start_logits = tf.concat([small * tf.ones([batch_size, 1, NUM_TAGS], dtype), tf.zeros([batch_size, 1, 1], dtype)], axis=-1)
        pad_logits = small * tf.ones([batch_size, NUM_STEPS, 1], dtype)
        logits = tf.concat([start_logits, tf.concat([project_logits, pad_logits], axis=-1)], axis=1)
        logits.set_shape([None, NUM_STEPS + 1, NUM_TAGS + 1])
        targets = tf.concat([NUM_TAGS * tf.ones([batch_size, 1], tf.int32), targets], axis=-1)
        trans = tf.get_variable("transitions", [NUM_TAGS + 1, NUM_TAGS + 1], dtype, initializer=xavier(dtype))
        return tf.reduce_mean(-crf_log_likelihood(logits, targets, trans, lengths + 1))


def tower(chars, segs, mask, targets):
    dtype = mask.dtype
    lengths = tf.cast(tf.reduce_sum(mask, 1), tf.int32)
    embedding = embedding_layer(chars, segs, dtype)
    features = idcnn_layer(embedding, dtype)
    logits = project_layer(features, dtype)
    loss = loss_layer(logits, targets, lengths, dtype)
    return loss, {"embedding": embedding, "features": features, "logits": logits}
