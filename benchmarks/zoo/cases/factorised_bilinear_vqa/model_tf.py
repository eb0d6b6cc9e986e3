"""Visual question answering by multi-modal factorised bilinear pooling, with two glimpses at the regions."""
import tensorflow.compat.v1 as tf

WORDS, WORD_DIM, HIDDEN = 30, 12, 16
REGIONS, FACTOR, OUT = 6, 4, 10
GLIMPSES, ANSWERS = 2, 9


def fc(x, units, scope):
    with tf.variable_scope(scope):
        n_in = x.shape.as_list()[-1]
        w = tf.get_variable("w", [n_in, units], x.dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], x.dtype, initializer=tf.zeros_initializer())
        return tf.tensordot(x, w, [[x.shape.ndims - 1], [0]]) + b


def signed_sqrt(x):
    return tf.sign(x) * tf.sqrt(tf.abs(x) + 1e-12)


def mfb(question, vision, scope):
    """question [batch, q]; vision [batch, n, v]; returns [batch, n, OUT]."""
    with tf.variable_scope(scope):
        q = tf.expand_dims(fc(question, FACTOR * OUT, "q_proj"), 1)
        v = fc(vision, FACTOR * OUT, "v_proj")
        joint = q * v
        n = vision.shape.as_list()[1]
        pooled = tf.reduce_sum(tf.reshape(joint, [-1, n, OUT, FACTOR]), axis=3)
        rooted = signed_sqrt(pooled)
        flat = tf.nn.l2_normalize(tf.reshape(rooted, [-1, n * OUT]), dim=1)
        return tf.reshape(flat, [-1, n, OUT])


def tower(features, boxes, words, lengths, votes):
    dtype = features.dtype
    with tf.variable_scope("vqa"):
        table = tf.get_variable("word_embedding", [WORDS, WORD_DIM], dtype,
                                initializer=tf.random_uniform_initializer(-0.3, 0.3))
        embedded = tf.tanh(tf.nn.embedding_lookup(table, words))
        cell = tf.nn.rnn_cell.BasicLSTMCell(HIDDEN, forget_bias=1.0)
        _, state = tf.nn.dynamic_rnn(cell, embedded, sequence_length=lengths, dtype=dtype, scope="question")
        question = state.h

        fused = mfb(question, features, "mfb_att")
        hidden = tf.nn.relu(fc(fused, 8, "att_hidden"))
        scores = fc(hidden, GLIMPSES, "att_scores")
        present = tf.expand_dims(tf.sequence_mask(boxes, REGIONS, dtype=dtype), 2)
        attention = tf.nn.softmax(scores - 1e9 * (1.0 - present), axis=1)
        glimpses = []
        for g in range(GLIMPSES):
            glimpses.append(tf.reduce_sum(attention[:, :, g:g + 1] * features, axis=1))
        attended = tf.concat(glimpses, axis=1)

        final = tf.squeeze(mfb(question, tf.expand_dims(attended, 1), "mfb_out"), [1])
        logits = fc(final, ANSWERS, "answers")
    # Kullback-Leibler divergence from the people's votes
    log_probs = tf.nn.log_softmax(logits)
    entropy = tf.where(votes > 0, votes * tf.log(tf.maximum(votes, 1e-6)), tf.zeros_like(votes))
    loss = tf.reduce_mean(tf.reduce_sum(entropy - votes * log_probs, axis=1))
    return loss, {"question": question, "attention": attention, "attended": attended, "logits": logits}
