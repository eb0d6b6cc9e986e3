"""Dynamic memory network plus: fusion layer of two GRUs, attention GRU, and a memory that is rewritten in every hop."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCAB = 24
EMBED = 8
HIDDEN = 8
NUM_HOPS = 3
L2 = 1e-3


def position_encoding(sentence_size, embedding_size):
    encoding = np.ones((embedding_size, sentence_size), dtype=np.float64)
    ls = sentence_size + 1
    le = embedding_size + 1
    for i in range(1, le):
        for j in range(1, ls):
            encoding[i - 1, j - 1] = (i - (le - 1) / 2.0) * (j - (ls - 1) / 2.0)
    encoding = 1 + 4 * encoding / embedding_size / sentence_size
    return np.transpose(encoding)


def linear(args, output_size, scope, bias=True, bias_start=0.0):
    x = tf.concat(args, 1) if isinstance(args, (list, tuple)) else args
    with tf.variable_scope(scope):
        weights = tf.get_variable("weights", [x.shape.as_list()[1], output_size], x.dtype,
                                  initializer=tf.glorot_uniform_initializer())
        y = tf.matmul(x, weights)
        if bias:
            y += tf.get_variable("biases", [output_size], x.dtype, initializer=tf.constant_initializer(bias_start))
        return y


def gru_step(x, h):
    ru = tf.sigmoid(linear([x, h], 2 * HIDDEN, "gates", bias_start=1.0))
    r, u = tf.split(ru, 2, axis=1)
    c = tf.tanh(linear([x, r * h], HIDDEN, "candidate"))
    return u * h + (1 - u) * c


def attention_gru_step(x, g, h):
    r = tf.sigmoid(linear([x, h], HIDDEN, "gates", bias_start=1.0))
    h_hat = tf.tanh(r * linear(h, HIDDEN, "candidate", bias=False) + linear(x, HIDDEN, "input"))
    return (1 - g) * h + g * h_hat


def run(step, inputs, lengths, scope, reuse=None):
    """Like dynamic_rnn with sequence_length: behind the end states are copied through and outputs are zero."""
    steps = inputs[0].shape.as_list()[1]
    outputs = []
    with tf.variable_scope(scope, reuse=reuse):
        h = tf.zeros([tf.shape(inputs[0])[0], HIDDEN], inputs[0].dtype)
        for t in range(steps):
            if t > 0:
                tf.get_variable_scope().reuse_variables()
            running = tf.tile(tf.expand_dims(tf.less(t, lengths), 1), [1, HIDDEN])
            new = step(*[x[:, t] for x in inputs], h)
            outputs.append(tf.where(running, new, tf.zeros_like(new)))
            h = tf.where(running, new, h)
    return tf.stack(outputs, axis=1), h


def tower(facts, fact_counts, question, question_lengths, answers, fact_keep, training=True):
    dtype = fact_keep.dtype
    embeddings = tf.get_variable("embeddings", [VOCAB, EMBED], dtype,
                                 initializer=tf.random_uniform_initializer(-np.sqrt(3), np.sqrt(3)))

    # input module
    encoding = tf.constant(position_encoding(facts.shape.as_list()[2], EMBED), dtype)
    inputs = tf.reduce_sum(tf.nn.embedding_lookup(embeddings, facts) * encoding, 2)
    with tf.variable_scope("input"):
        forward, _ = run(gru_step, [inputs], fact_counts, "fw")
        backward, _ = run(gru_step, [tf.reverse_sequence(inputs, fact_counts, seq_axis=1, batch_axis=0)], fact_counts, "bw")
        fact_vecs = forward + tf.reverse_sequence(backward, fact_counts, seq_axis=1, batch_axis=0)
        if training:
            fact_vecs = fact_vecs * fact_keep

    with tf.variable_scope("question"):
        _, q_vec = run(gru_step, [tf.nn.embedding_lookup(embeddings, question)], question_lengths, "gru")

    # episodic memory
    unstacked = tf.unstack(fact_vecs, axis=1)
    valid = tf.sequence_mask(fact_counts, len(unstacked))
    prev_memory = q_vec
    end_points = {"facts": fact_vecs, "question": q_vec}
    with tf.variable_scope("memory"):
        for hop in range(NUM_HOPS):
            attentions = []
            for i, fact in enumerate(unstacked):
                with tf.variable_scope("attention", reuse=bool(hop or i)):
                    features = tf.concat([fact * q_vec, fact * prev_memory, tf.abs(fact - q_vec), tf.abs(fact - prev_memory)], 1)
                    hidden = tf.tanh(linear(features, EMBED, "fc1"))
                    attentions.append(tf.squeeze(linear(hidden, 1, "fc2", bias=False), 1))
            scores = tf.stack(attentions, axis=1)
            scores = tf.where(valid, scores, tf.fill(tf.shape(scores), tf.constant(-1e9, dtype)))
            gates = tf.nn.softmax(scores)
            _, episode = run(attention_gru_step, [fact_vecs, tf.expand_dims(gates, -1)], fact_counts, "attention_gru",
                             reuse=hop > 0)
            prev_memory = tf.nn.relu(linear([prev_memory, episode, q_vec], HIDDEN, "hop_%d" % hop))
            end_points["gates_%d" % hop] = gates

    logits = linear([prev_memory, q_vec], VOCAB, "answer")
    end_points["logits"] = logits
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=answers))
    for v in tf.trainable_variables():
        if "bias" not in v.op.name.lower():
            loss += L2 * tf.nn.l2_loss(v)
    return loss, end_points
