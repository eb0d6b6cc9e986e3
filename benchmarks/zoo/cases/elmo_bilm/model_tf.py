"""Bidirectional language model, after the kind of training code that came with ELMo: word ids instead of characters, one stack of
projected LSTM cells for each direction with a skip connection around the second, and one softmax that both directions share."""
import tensorflow.compat.v1 as tf

N_TOKENS_VOCAB = 40
LSTM_DIM = 20
PROJECTION_DIM = 12
N_LSTM_LAYERS = 2
UNROLL_STEPS = 9


def _build_word_embeddings(token_ids, dtype, reuse):
    with tf.variable_scope("embeddings", reuse=reuse):
        weights = tf.get_variable("embedding", [N_TOKENS_VOCAB, PROJECTION_DIM], dtype,
                                  initializer=tf.random_uniform_initializer(-1.0, 1.0))
    return tf.nn.embedding_lookup(weights, token_ids)


def _lstm_stack(dtype):
    cells = []
    for i in range(N_LSTM_LAYERS):
        cell = tf.nn.rnn_cell.LSTMCell(LSTM_DIM, num_proj=PROJECTION_DIM, dtype=dtype)
        if i > 0:
            cell = tf.nn.rnn_cell.ResidualWrapper(cell)
        cells.append(cell)
    return tf.nn.rnn_cell.MultiRNNCell(cells)


def _run_direction(number, inputs):
    cell = _lstm_stack(inputs.dtype)
    state = cell.zero_state(tf.shape(inputs)[0], inputs.dtype)
    with tf.variable_scope("RNN_%d" % number):
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(inputs, UNROLL_STEPS, axis=1), initial_state=state)
    return tf.stack(outputs, axis=1)


def tower(tokens, next_tokens, tokens_reverse, next_tokens_reverse, weights):
    dtype = weights.dtype
    with tf.variable_scope("lm"):
        # the reversed sentence goes through the same table
        embedded = _build_word_embeddings(tokens, dtype, None)
        embedded_reverse = _build_word_embeddings(tokens_reverse, dtype, True)
        lstm_outputs = [_run_direction(0, embedded), _run_direction(1, embedded_reverse)]

        with tf.variable_scope("softmax"):
            softmax_w = tf.get_variable("W", [N_TOKENS_VOCAB, PROJECTION_DIM], dtype,
                                        initializer=tf.random_normal_initializer(0.0, PROJECTION_DIM ** -0.5))
            softmax_b = tf.get_variable("b", [N_TOKENS_VOCAB], dtype, initializer=tf.constant_initializer(0.0))

        individual_losses = []
        for output, targets in zip(lstm_outputs, [next_tokens, next_tokens_reverse]):
            flat = tf.reshape(output, [-1, PROJECTION_DIM])
            scores = tf.matmul(flat, tf.transpose(softmax_w)) + softmax_b
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=scores, labels=tf.reshape(targets, [-1]))
            individual_losses.append(tf.reduce_mean(losses * tf.reshape(weights, [-1])))
        total_loss = 0.5 * (individual_losses[0] + individual_losses[1])

    return total_loss, {"token_embedding": embedded, "lstm_forward": lstm_outputs[0], "lstm_backward": lstm_outputs[1]}
