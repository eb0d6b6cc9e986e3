"""End-to-end coreference: spans are their first and last states of a bidirectional LSTM, a width and an attended head; every span picks
an antecedent in front of it, or none, and the loss is the marginal likelihood of the right ones."""
import math

import tensorflow.compat.v1 as tf

VOCAB_SIZE = 50
EMB_SIZE = 14
LSTM_SIZE = 12
FEATURE_SIZE = 6
FFNN_SIZE = 18
MAX_SPAN_WIDTH = 4


def shape(x, dim):
    return x.get_shape().as_list()[dim] or tf.shape(x)[dim]


def projection(inputs, output_size, initializer=None):
    return ffnn(inputs, 0, -1, output_size, initializer)


def ffnn(inputs, num_hidden_layers, hidden_size, output_size, output_weights_initializer=None):
    lead = [shape(inputs, i) for i in range(len(inputs.get_shape()) - 1)]
    current = tf.reshape(inputs, [-1, shape(inputs, -1)])
    glorot = tf.glorot_uniform_initializer(dtype=inputs.dtype)
    for i in range(num_hidden_layers):
        weights = tf.get_variable("hidden_weights_{}".format(i), [shape(current, 1), hidden_size], inputs.dtype, initializer=glorot)
        bias = tf.get_variable("hidden_bias_{}".format(i), [hidden_size], inputs.dtype, initializer=tf.zeros_initializer())
        current = tf.nn.relu(tf.nn.xw_plus_b(current, weights, bias))
    weights = tf.get_variable("output_weights", [shape(current, 1), output_size], inputs.dtype,
                              initializer=output_weights_initializer or glorot)
    bias = tf.get_variable("output_bias", [output_size], inputs.dtype, initializer=tf.zeros_initializer())
    return tf.reshape(tf.nn.xw_plus_b(current, weights, bias), lead + [output_size])


class CustomLSTMCell(tf.nn.rnn_cell.RNNCell):
    """Input and forget gate are one; the initial state is trained."""

    def __init__(self, num_units, batch_size, dtype):
        super(CustomLSTMCell, self).__init__()
        self._num_units = num_units
        c = tf.get_variable("lstm_initial_cell_state", [1, num_units], dtype)
        h = tf.get_variable("lstm_initial_hidden_state", [1, num_units], dtype)
        self.start = tf.nn.rnn_cell.LSTMStateTuple(tf.tile(c, [batch_size, 1]), tf.tile(h, [batch_size, 1]))

    @property
    def state_size(self):
        return tf.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, scope=None):
        with tf.variable_scope(scope or "custom_lstm_cell"):
            c, h = state
            concat = projection(tf.concat([inputs, h], 1), 3 * self._num_units, tf.orthogonal_initializer(dtype=inputs.dtype))
            i, j, o = tf.split(concat, num_or_size_splits=3, axis=1)
            i = tf.sigmoid(i)
            new_c = (1 - i) * c + i * tf.tanh(j)
            new_h = tf.tanh(new_c) * tf.sigmoid(o)
            return new_h, tf.nn.rnn_cell.LSTMStateTuple(new_c, new_h)


def lstm_contextualize(text_emb, text_len):
    batch_size = tf.shape(text_emb)[0]
    outputs = []
    for direction in ("fw_cell", "bw_cell"):
        with tf.variable_scope(direction):
            inputs = text_emb if direction == "fw_cell" else tf.reverse_sequence(text_emb, text_len, seq_axis=1, batch_axis=0)
            cell = CustomLSTMCell(LSTM_SIZE, batch_size, text_emb.dtype)
            states, _ = tf.nn.dynamic_rnn(cell, inputs, sequence_length=text_len, initial_state=cell.start)
            if direction == "bw_cell":
                states = tf.reverse_sequence(states, text_len, seq_axis=1, batch_axis=0)
            outputs.append(states)
    return tf.concat(outputs, 2)


def get_span_emb(text_emb, context, starts, ends):
    dtype = text_emb.dtype
    width = 1 + ends - starts
    span_emb = [tf.batch_gather(context, starts), tf.batch_gather(context, ends)]
    table = tf.get_variable("span_width_embeddings", [MAX_SPAN_WIDTH, FEATURE_SIZE], dtype)
    span_emb.append(tf.gather(table, width - 1))
    with tf.variable_scope("head_scores"):
        head_scores = tf.squeeze(projection(context, 1), 2)
    indices = tf.expand_dims(tf.range(MAX_SPAN_WIDTH), 0) + tf.expand_dims(starts, 2)
    indices = tf.minimum(shape(text_emb, 1) - 1, indices)
    flat = tf.reshape(indices, [-1, shape(starts, 1) * MAX_SPAN_WIDTH])
    words = tf.reshape(tf.batch_gather(text_emb, flat), [-1, shape(starts, 1), MAX_SPAN_WIDTH, EMB_SIZE])
    scores = tf.reshape(tf.batch_gather(head_scores, flat), [-1, shape(starts, 1), MAX_SPAN_WIDTH])
    inside = tf.sequence_mask(width, MAX_SPAN_WIDTH, dtype=dtype)
    attention = tf.nn.softmax(scores + tf.log(inside), axis=2)
    span_emb.append(tf.reduce_sum(tf.expand_dims(attention, 3) * words, 2))
    return tf.concat(span_emb, 2)


def bucket_distance(distances):
    """0, 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64+"""
    logspace_idx = tf.cast(tf.floor(tf.log(tf.cast(distances, tf.float32)) / math.log(2)), tf.int32) + 3
    use_identity = tf.cast(distances <= 4, tf.int32)
    combined = use_identity * distances + (1 - use_identity) * logspace_idx
    return tf.clip_by_value(combined, 0, 9)


def get_antecedent_scores(span_emb, mention_scores):
    k = shape(span_emb, 1)
    dtype = span_emb.dtype
    offsets = tf.expand_dims(tf.range(k), 1) - tf.expand_dims(tf.range(k), 0)
    earlier = tf.cast(offsets >= 1, dtype)
    scores = tf.expand_dims(mention_scores, 2) + tf.expand_dims(mention_scores, 1)
    with tf.variable_scope("src_projection"):
        source = projection(span_emb, shape(span_emb, -1))
    scores += tf.matmul(source, span_emb, transpose_b=True)
    with tf.variable_scope("slow_antecedent_scores"):
        table = tf.get_variable("antecedent_distance_emb", [10, FEATURE_SIZE], dtype)
        feature = tf.gather(table, bucket_distance(tf.maximum(offsets, 1)))
        batch = tf.shape(span_emb)[0]
        target = tf.tile(tf.expand_dims(span_emb, 2), [1, 1, k, 1])
        antecedent = tf.tile(tf.expand_dims(span_emb, 1), [1, k, 1, 1])
        feature = tf.tile(tf.expand_dims(feature, 0), [batch, 1, 1, 1])
        pair = tf.concat([target, antecedent, target * antecedent, feature], 3)
        scores += tf.squeeze(ffnn(pair, 1, FFNN_SIZE, 1), 3)
    return scores, earlier


def tower(words, text_mask, starts, ends, cluster_ids):
    dtype = text_mask.dtype
    table = tf.get_variable("word_embeddings", [VOCAB_SIZE, EMB_SIZE], dtype)
    text_emb = tf.gather(table, words)
    text_len = tf.cast(tf.reduce_sum(text_mask, 1), tf.int32)
    context = lstm_contextualize(text_emb, text_len)
    span_emb = get_span_emb(text_emb, context, starts, ends)
    with tf.variable_scope("mention_scores"):
        mention_scores = tf.squeeze(ffnn(span_emb, 1, FFNN_SIZE, 1), 2)
    scores, earlier = get_antecedent_scores(span_emb, mention_scores)
    dummy = tf.zeros_like(mention_scores)[:, :, tf.newaxis]
    masked = tf.concat([dummy, scores + tf.log(earlier)], 2)
    same = tf.equal(tf.expand_dims(cluster_ids, 2), tf.expand_dims(cluster_ids, 1))
    same = tf.logical_and(same, tf.expand_dims(cluster_ids > 0, 2))
    pairwise = tf.cast(same, dtype) * earlier
    labels = tf.concat([1 - tf.reduce_max(pairwise, 2, keepdims=True), pairwise], 2)
    marginalized_gold_scores = tf.reduce_logsumexp(masked + tf.log(labels), [2])
    log_norm = tf.reduce_logsumexp(masked, [2])
    loss = tf.reduce_mean(tf.reduce_sum(log_norm - marginalized_gold_scores, 1))
    return loss, {"context": context, "spans": span_emb, "mention_scores": mention_scores,
                  "antecedent_scores": scores * earlier}
