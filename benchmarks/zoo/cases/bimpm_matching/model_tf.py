"""Bilateral multi-perspective matching of two sentences."""
import tensorflow.compat.v1 as tf

VOCAB = 30
EMB = 10
CONTEXT_LSTM_DIM = 6
AGGREGATION_LSTM_DIM = 5
MP_DIM = 3
NUM_CLASSES = 2
LAMBDA_L2 = 0.001
EPS = 1e-6
VERY_NEG = -10.0


def my_lstm_layer(inputs, lstm_dim, lengths, scope_name, reuse=False):
    with tf.variable_scope(scope_name, reuse=reuse):
        cell_fw = tf.nn.rnn_cell.BasicLSTMCell(lstm_dim)
        cell_bw = tf.nn.rnn_cell.BasicLSTMCell(lstm_dim)
        (f_rep, b_rep), _ = tf.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, inputs, sequence_length=lengths, dtype=inputs.dtype)
    return f_rep, b_rep


def collect_final_step_of_lstm(lstm_rep, lengths):
    batch = tf.range(tf.shape(lengths)[0])
    return tf.gather_nd(lstm_rep, tf.stack([batch, tf.maximum(lengths, 0)], axis=1))


def cosine_distance(y1, y2):
    cosine_numerator = tf.reduce_sum(tf.multiply(y1, y2), axis=-1)
    y1_norm = tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(y1), axis=-1), EPS))
    y2_norm = tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(y2), axis=-1), EPS))
    return cosine_numerator / y1_norm / y2_norm


def multi_perspective(rep, params):
    """[..., dim] to [..., MP_DIM, dim]."""
    return tf.expand_dims(rep, -2) * params


def mp_params(name, dtype):
    return tf.get_variable(name, [MP_DIM, CONTEXT_LSTM_DIM], dtype, initializer=tf.random_uniform_initializer(0.3, 1.5))


def cal_relevancy_matrix(passage_rep, question_rep):
    return cosine_distance(tf.expand_dims(passage_rep, 2), tf.expand_dims(question_rep, 1))


def match_direction(passage_rep, question_rep, question_full, question_mask, name):
    """Matching vectors of every passage position, [batch, passage_len, 3 * MP_DIM]."""
    dtype = passage_rep.dtype
    relevancy = cal_relevancy_matrix(passage_rep, question_rep)
    vectors = []
    with tf.variable_scope(name):
        params = mp_params("full_match", dtype)
        vectors.append(cosine_distance(
            multi_perspective(passage_rep, params), tf.expand_dims(multi_perspective(question_full, params), 1)))

        params = mp_params("maxpool_match", dtype)
        all_pairs = cosine_distance(
            tf.expand_dims(multi_perspective(passage_rep, params), 2), tf.expand_dims(multi_perspective(question_rep, params), 1))
        all_pairs = all_pairs + (1.0 - question_mask[:, None, :, None]) * VERY_NEG
        vectors.append(tf.reduce_max(all_pairs, axis=2))

        params = mp_params("att_match", dtype)
        weights = tf.nn.softmax(relevancy + (1.0 - question_mask[:, None, :]) * VERY_NEG * 1e3)
        att_question = tf.matmul(weights, question_rep)
        vectors.append(cosine_distance(multi_perspective(passage_rep, params), multi_perspective(att_question, params)))
    return tf.concat(vectors, 2)


def match_passage_with_question(p_fw, p_bw, q_fw, q_bw, q_lengths, p_mask, q_mask):
    question_full_fw = collect_final_step_of_lstm(q_fw, q_lengths - 1)
    question_full_bw = q_bw[:, 0, :]
    fw = match_direction(p_fw, q_fw, question_full_fw, q_mask, "fw")
    bw = match_direction(p_bw, q_bw, question_full_bw, q_mask, "bw")
    return tf.concat([fw, bw], 2) * tf.expand_dims(p_mask, -1)


def tower(question, question_mask, passage, passage_mask, truth):
    dtype = question_mask.dtype
    question_lengths = tf.cast(tf.reduce_sum(question_mask, 1), tf.int32)
    passage_lengths = tf.cast(tf.reduce_sum(passage_mask, 1), tf.int32)
    embedding = tf.get_variable("word_embedding", [VOCAB, EMB], dtype, initializer=tf.random_normal_initializer(stddev=0.5))
    in_question = tf.nn.embedding_lookup(embedding, question)
    in_passage = tf.nn.embedding_lookup(embedding, passage)
    q_fw, q_bw = my_lstm_layer(in_question, CONTEXT_LSTM_DIM, question_lengths, "context_represent")
    p_fw, p_bw = my_lstm_layer(in_passage, CONTEXT_LSTM_DIM, passage_lengths, "context_represent", reuse=True)

    with tf.variable_scope("MP_matching"):
        p_match = match_passage_with_question(p_fw, p_bw, q_fw, q_bw, question_lengths, passage_mask, question_mask)
    with tf.variable_scope("MP_matching", reuse=True):
        q_match = match_passage_with_question(q_fw, q_bw, p_fw, p_bw, passage_lengths, question_mask, passage_mask)

    pa_fw, pa_bw = my_lstm_layer(p_match, AGGREGATION_LSTM_DIM, passage_lengths, "aggregation_layer")
    qa_fw, qa_bw = my_lstm_layer(q_match, AGGREGATION_LSTM_DIM, question_lengths, "aggregation_layer", reuse=True)
    match_representation = tf.concat([
        collect_final_step_of_lstm(pa_fw, passage_lengths - 1), pa_bw[:, 0, :],
        collect_final_step_of_lstm(qa_fw, question_lengths - 1), qa_bw[:, 0, :]], 1)

    match_dim = 4 * AGGREGATION_LSTM_DIM
    w_0 = tf.get_variable("w_0", [match_dim, match_dim // 2], dtype)
    b_0 = tf.get_variable("b_0", [match_dim // 2], dtype, initializer=tf.zeros_initializer())
    w_1 = tf.get_variable("w_1", [match_dim // 2, NUM_CLASSES], dtype)
    b_1 = tf.get_variable("b_1", [NUM_CLASSES], dtype, initializer=tf.zeros_initializer())
    logits = tf.tanh(tf.matmul(match_representation, w_0) + b_0)
    logits = tf.matmul(logits, w_1) + b_1

    gold_matrix = tf.one_hot(truth, NUM_CLASSES, dtype=dtype)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=gold_matrix))
    tvars = tf.trainable_variables()
    l2_loss = tf.add_n([tf.nn.l2_loss(v) for v in tvars if v.get_shape().ndims > 1])
    return loss + LAMBDA_L2 * l2_loss, {
        "passage_match": p_match, "question_match": q_match, "representation": match_representation, "logits": logits}
