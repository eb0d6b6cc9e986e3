"""Word-level language model: two layers of GRU and an adaptive softmax, frequent words in the head."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 60
EMBED_SIZE = 16
HIDDEN_SIZE = 32
CUTOFF = [12, 30, VOCAB_SIZE]
PROJECT_FACTOR = 4


def adaptive_softmax_loss(inputs, labels, weights, cutoff=CUTOFF, project_factor=PROJECT_FACTOR):
    """Returns every cluster's weighted sum of cross entropies; inputs [n, dim], labels and weights [n]."""
    dim = inputs.shape.as_list()[-1]
    dtype = inputs.dtype
    cluster_num = len(cutoff) - 1
    initializer = tf.random_uniform_initializer(-0.1, 0.1)
    with tf.variable_scope("adaptive_softmax"):
        head_w = tf.get_variable("head_w", [dim, cutoff[0] + cluster_num], dtype, initializer)
        tail_w = []
        project_dim = dim
        for i in range(cluster_num):
            project_dim //= project_factor
            tail_dim = cutoff[i + 1] - cutoff[i]
            tail_w.append([tf.get_variable("proj_{}_w".format(i), [dim, project_dim], dtype, initializer),
                           tf.get_variable("tail_{}_w".format(i), [project_dim, tail_dim], dtype, initializer)])
    losses = []
    head_labels = labels
    for i in range(cluster_num):
        mask = tf.logical_and(tf.greater_equal(labels, cutoff[i]), tf.less(labels, cutoff[i + 1]))
        head_labels = tf.where(mask, tf.fill(tf.shape(labels), cutoff[0] + i), head_labels)
        tail_inputs = tf.boolean_mask(inputs, mask)
        tail_logits = tf.matmul(tf.matmul(tail_inputs, tail_w[i][0]), tail_w[i][1])
        tail_labels = tf.boolean_mask(labels - cutoff[i], mask)
        tail_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=tail_logits, labels=tail_labels)
        losses.append(tf.reduce_sum(tail_loss * tf.boolean_mask(weights, mask)))
    head_logits = tf.matmul(inputs, head_w)
    head_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=head_logits, labels=head_labels)
    losses.insert(0, tf.reduce_sum(head_loss * weights))
    return losses


def tower(inputs, targets, weights, state, keep):
    dtype = weights.dtype
    with tf.variable_scope("language_model", dtype=dtype):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, EMBED_SIZE], dtype,
                                    tf.random_uniform_initializer(-0.1, 0.1))
        x = tf.nn.embedding_lookup(embedding, inputs) * keep
        cells = [tf.nn.rnn_cell.GRUCell(HIDDEN_SIZE, dtype=dtype) for _ in range(2)]
        states = list(tf.unstack(state, axis=1))
        outputs = []
        with tf.variable_scope("rnn"):
            for t, step in enumerate(tf.unstack(x, axis=1)):
                for layer, cell in enumerate(cells):
                    with tf.variable_scope("layer_%d" % layer, reuse=True if t > 0 else None):
                        step, states[layer] = cell(step, states[layer])
                outputs.append(step)
        output = tf.stack(outputs, axis=1)
        losses = adaptive_softmax_loss(tf.reshape(output, [-1, HIDDEN_SIZE]), tf.reshape(targets, [-1]),
                                       tf.reshape(weights, [-1]))
    loss = tf.add_n(losses) / tf.reduce_sum(weights)
    return loss, {"output": output, "final_state": tf.stack(states, axis=1)}
