"""End-to-end memory network with position encoding, temporal encoding and adjacent weights."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCAB = 30
EMBEDDING = 20
MEMORY = 6
HOPS = 3


def position_encoding(sentence_size, embedding_size):
    encoding = np.ones((embedding_size, sentence_size), dtype=np.float64)
    ls = sentence_size + 1
    le = embedding_size + 1
    for i in range(1, le):
        for j in range(1, ls):
            encoding[i - 1, j - 1] = (i - (embedding_size + 1) / 2) * (j - (sentence_size + 1) / 2)
    encoding = 1 + 4 * encoding / embedding_size / sentence_size
    return np.transpose(encoding)


def lookup(table, ids):
    """The nil word is no word: its row counts as zeros."""
    words = tf.cast(tf.not_equal(ids, 0), table.dtype)
    return tf.nn.embedding_lookup(table, ids) * tf.expand_dims(words, -1)


def tower(stories, queries, answers):
    dtype = answers.dtype
    init = tf.random_normal_initializer(stddev=0.1)
    with tf.variable_scope("MemN2N"):
        A = tf.get_variable("A", [VOCAB, EMBEDDING], dtype, init)
        C = [tf.get_variable("C_%d" % hop, [VOCAB, EMBEDDING], dtype, init) for hop in range(HOPS)]
        TA = tf.get_variable("TA", [MEMORY, EMBEDDING], dtype, init)
        TC = tf.get_variable("TC", [MEMORY, EMBEDDING], dtype, init)
    story_encoding = tf.constant(position_encoding(int(stories.shape[2]), EMBEDDING), dtype)
    query_encoding = tf.constant(position_encoding(int(queries.shape[1]), EMBEDDING), dtype)

    u = tf.reduce_sum(lookup(A, queries) * query_encoding, 1)
    end_points = {"u_0": u}
    for hop in range(HOPS):
        with tf.name_scope("hop_%d" % hop):
            m = tf.reduce_sum(lookup(A if hop == 0 else C[hop - 1], stories) * story_encoding, 2) + TA
            dotted = tf.reduce_sum(m * tf.expand_dims(u, 1), 2)
            probs = tf.nn.softmax(dotted)
            c = tf.reduce_sum(lookup(C[hop], stories) * story_encoding, 2) + TC
            o = tf.reduce_sum(tf.expand_dims(probs, 2) * c, 1)
            u = u + o
            end_points["probs_%d" % hop] = probs
            end_points["u_%d" % (hop + 1)] = u
    logits = tf.matmul(u, C[-1], transpose_b=True)
    end_points["logits"] = logits
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits_v2(labels=answers, logits=logits)
    return tf.reduce_sum(cross_entropy, name="cross_entropy_sum"), end_points
