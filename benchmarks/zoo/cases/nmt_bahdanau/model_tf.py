"""Neural machine translation with GRUs, additive attention and input feeding, trained by teacher forcing."""
import tensorflow.compat.v1 as tf

SRC_VOCAB = 40
TGT_VOCAB = 40
EMBED = 16
UNITS = 24


def encoder(source, source_length, dtype):
    with tf.variable_scope("encoder"):
        embedding = tf.get_variable("embedding", [SRC_VOCAB, EMBED], dtype)
        inputs = tf.nn.embedding_lookup(embedding, source)
        cell = tf.nn.rnn_cell.GRUCell(UNITS)
        return tf.nn.dynamic_rnn(cell, inputs, sequence_length=source_length, dtype=dtype)


def attention(query, keys, memory, score_mask, reuse):
    """Bahdanau's: v . tanh(W q + U m)."""
    with tf.variable_scope("bahdanau_attention", reuse=reuse):
        processed = tf.layers.dense(query, UNITS, use_bias=False, name="query_layer")
        v = tf.get_variable("attention_v", [UNITS], query.dtype)
        score = tf.reduce_sum(v * tf.tanh(keys + tf.expand_dims(processed, 1)), [2])
        score = tf.where(score_mask, score, tf.fill(tf.shape(score), tf.constant(-float("inf"), score.dtype)))
        alignments = tf.nn.softmax(score)
        context = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), memory), [1])
    return context, alignments


def decoder(memory, state, source_length, target_input):
    with tf.variable_scope("decoder"):
        embedding = tf.get_variable("embedding", [TGT_VOCAB, EMBED], memory.dtype)
        inputs = tf.nn.embedding_lookup(embedding, target_input)
        score_mask = tf.sequence_mask(source_length, memory.shape.as_list()[1])
        keys = tf.layers.dense(memory, UNITS, use_bias=False, name="memory_layer")
        cell = tf.nn.rnn_cell.GRUCell(UNITS)
        attended = tf.zeros_like(state)
        outputs, weights = [], []
        for t, x in enumerate(tf.unstack(inputs, axis=1)):
            again = True if t > 0 else None
            output, state = cell(tf.concat([x, attended], 1), state)
            context, alignments = attention(output, keys, memory, score_mask, again)
            attended = tf.layers.dense(
                tf.concat([output, context], 1), UNITS, tf.tanh, use_bias=False, name="attention_layer", reuse=again)
            outputs.append(attended)
            weights.append(alignments)
        logits = tf.layers.dense(tf.stack(outputs, 1), TGT_VOCAB, use_bias=False, name="output_projection")
        return logits, tf.stack(weights, 1)


def tower(source, source_length, target_input, target_output, target_weights):
    with tf.variable_scope("dynamic_seq2seq"):
        memory, state = encoder(source, source_length, target_weights.dtype)
        logits, alignments = decoder(memory, state, source_length, target_input)
    crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target_output, logits=logits)
    batch_size = tf.cast(tf.shape(source)[0], target_weights.dtype)
    loss = tf.reduce_sum(crossent * target_weights) / batch_size
    return loss, {"encoder_outputs": memory, "encoder_state": state, "alignments": alignments, "logits": logits}
