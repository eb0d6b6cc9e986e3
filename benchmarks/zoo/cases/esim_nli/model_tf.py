"""ESIM for natural language inference, after the kind of code that people wrote for SNLI: one BiLSTM for both sentences, soft alignment
both ways under masks, m_a = [a, a~, a - a~, a * a~], projection, a second BiLSTM, average and max pooling, two dense layers."""
import tensorflow.compat.v1 as tf

N_VOCAB = 40
EMBEDDING_SIZE = 18
HIDDEN_SIZE = 10
PROJECTION_SIZE = 16
COMPOSITION_SIZE = 12
N_CLASSES = 3


def biLSTM(inputs, hidden_size, seq_len, scope):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        fw = tf.nn.rnn_cell.LSTMCell(hidden_size, forget_bias=1.0)
        bw = tf.nn.rnn_cell.LSTMCell(hidden_size, forget_bias=1.0)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(fw, bw, inputs, sequence_length=seq_len, dtype=inputs.dtype)
        return tf.concat(outputs, axis=2)


def feedForward(inputs, num_units, scope, activation=None):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [inputs.shape.as_list()[-1], num_units], inputs.dtype, tf.glorot_normal_initializer())
        b = tf.get_variable("b", [num_units], inputs.dtype, tf.zeros_initializer())
        outputs = tf.tensordot(inputs, w, [[-1], [0]]) + b
        return outputs if activation is None else activation(outputs)


def masked_softmax(scores, mask, axis):
    """mask is 1 where there is a word."""
    return tf.nn.softmax(scores + (1.0 - mask) * -1e9, axis=axis)


def pool(v, mask, length):
    mask = tf.expand_dims(mask, -1)
    average = tf.reduce_sum(v * mask, axis=1) / tf.expand_dims(tf.cast(length, v.dtype), -1)
    maximum = tf.reduce_max(v + (1.0 - mask) * -1e9, axis=1)
    return tf.concat([average, maximum], axis=1)


def tower(premise, premise_length, hypothesis, hypothesis_length, y):
    dtype = y.dtype
    with tf.variable_scope("Embeddings"):
        embedding = tf.get_variable("embedding", [N_VOCAB, EMBEDDING_SIZE], dtype, tf.random_normal_initializer(stddev=0.3))
    premise_mask = tf.sequence_mask(premise_length, premise.shape.as_list()[1], dtype=dtype)
    hypothesis_mask = tf.sequence_mask(hypothesis_length, hypothesis.shape.as_list()[1], dtype=dtype)

    # input encoding
    a = biLSTM(tf.nn.embedding_lookup(embedding, premise), HIDDEN_SIZE, premise_length, "Bi-LSTM_encoder")
    b = biLSTM(tf.nn.embedding_lookup(embedding, hypothesis), HIDDEN_SIZE, hypothesis_length, "Bi-LSTM_encoder")

    # local inference
    e = tf.matmul(a, tf.transpose(b, [0, 2, 1]))
    attention_a = masked_softmax(e, tf.expand_dims(hypothesis_mask, 1), axis=2)
    attention_b = masked_softmax(e, tf.expand_dims(premise_mask, 2), axis=1)
    a_hat = tf.matmul(attention_a, b)
    b_hat = tf.matmul(tf.transpose(attention_b, [0, 2, 1]), a)
    m_a = tf.concat([a, a_hat, a - a_hat, a * a_hat], axis=2)
    m_b = tf.concat([b, b_hat, b - b_hat, b * b_hat], axis=2)

    # inference composition
    m_a = feedForward(m_a, PROJECTION_SIZE, "projection", tf.nn.relu)
    m_b = feedForward(m_b, PROJECTION_SIZE, "projection", tf.nn.relu)
    v_a = biLSTM(m_a, COMPOSITION_SIZE, premise_length, "Bi-LSTM_composition")
    v_b = biLSTM(m_b, COMPOSITION_SIZE, hypothesis_length, "Bi-LSTM_composition")
    v = tf.concat([pool(v_a, premise_mask, premise_length), pool(v_b, hypothesis_mask, hypothesis_length)], axis=1)

    hidden = feedForward(v, 20, "feed_forward", tf.nn.tanh)
    logits = feedForward(hidden, N_CLASSES, "logits")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
    return loss, {"encoded_premise": a, "encoded_hypothesis": b, "attended_premise": a_hat, "attended_hypothesis": b_hat,
                  "pooled": v, "logits": logits}
