"""Deep biaffine attention parser: who is whose head, and by which relation."""
import tensorflow.compat.v1 as tf

WORDS = 70
TAGS = 12
RELATIONS = 6
WORD_DIM = 14
TAG_DIM = 8
RECUR_SIZE = 16
ARC_SIZE = 14
REL_SIZE = 10


def leaky_relu(x):
    return tf.maximum(0.1 * x, x)


def mlp(x, size, scope):
    return tf.layers.dense(x, size, leaky_relu, kernel_initializer=tf.orthogonal_initializer(), name=scope)


def add_bias(x):
    return tf.concat([x, tf.ones_like(x[:, :, :1])], 2)


def conditional_gather(scores, heads):
    """scores [batch, dependent, head, relation] at the gold heads."""
    length = scores.shape.as_list()[2]
    chosen = tf.one_hot(heads, length, dtype=scores.dtype)
    return tf.squeeze(tf.matmul(tf.expand_dims(chosen, 2), scores), [2])


def tower(words, tags, mask, heads, relations):
    dtype = mask.dtype
    lengths = tf.cast(tf.reduce_sum(mask, 1), tf.int32)
    with tf.variable_scope("Embeddings"):
        word_table = tf.get_variable("Words", [WORDS, WORD_DIM], dtype, initializer=tf.random_normal_initializer())
        tag_table = tf.get_variable("Tags", [TAGS, TAG_DIM], dtype, initializer=tf.random_normal_initializer())
        embedded = tf.concat([tf.nn.embedding_lookup(word_table, words), tf.nn.embedding_lookup(tag_table, tags)], 2)
    with tf.variable_scope("RNN"):
        cells = [tf.nn.rnn_cell.LSTMCell(RECUR_SIZE, forget_bias=0.0, initializer=tf.orthogonal_initializer())
                 for _ in range(2)]
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(cells[0], cells[1], embedded, lengths, dtype=dtype)
        top_recur = tf.concat(outputs, 2)
    with tf.variable_scope("MLP"):
        arc_dep = mlp(top_recur, ARC_SIZE, "Arc_Dep")
        arc_head = mlp(top_recur, ARC_SIZE, "Arc_Head")
        rel_dep = mlp(top_recur, REL_SIZE, "Rel_Dep")
        rel_head = mlp(top_recur, REL_SIZE, "Rel_Head")
    with tf.variable_scope("Arcs"):
        weights = tf.get_variable("Weights", [ARC_SIZE + 1, ARC_SIZE], dtype, initializer=tf.zeros_initializer())
        arc_logits = tf.matmul(tf.tensordot(add_bias(arc_dep), weights, [[2], [0]]), arc_head, transpose_b=True)
        arc_logits += tf.expand_dims((1 - mask) * -1e9, 1)
    with tf.variable_scope("Rels"):
        weights = tf.get_variable("Weights", [REL_SIZE + 1, RELATIONS, REL_SIZE + 1], dtype,
                                  initializer=tf.zeros_initializer())
        rel_logits = tf.einsum("bxi,iro,byo->bxyr", add_bias(rel_dep), weights, add_bias(rel_head))
        rel_logits = conditional_gather(rel_logits, heads)

    # the root has no head
    tokens_to_keep = tf.concat([tf.zeros_like(mask[:, :1]), mask[:, 1:]], 1)
    n_tokens = tf.reduce_sum(tokens_to_keep)
    arc_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=heads, logits=arc_logits)
    rel_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=relations, logits=rel_logits)
    loss = tf.reduce_sum(arc_loss * tokens_to_keep) / n_tokens + tf.reduce_sum(rel_loss * tokens_to_keep) / n_tokens
    return loss, {"top_recur": top_recur, "arc_dep": arc_dep, "rel_logits": rel_logits}
