"""Text classifier on several towers whose gradients are summed: GRU over padded sentences, Adagrad, fed keep_prob."""

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()

flags = tf.app.flags
flags.DEFINE_integer("num_towers", 2, "")
flags.DEFINE_integer("batch_size", 10, "Sentences of all towers.")
flags.DEFINE_integer("max_len", 6, "")
flags.DEFINE_integer("steps", 10, "")
flags.DEFINE_float("learning_rate", 0.2, "")
flags.DEFINE_float("keep_prob", 0.8, "")
FLAGS = flags.FLAGS

VOCAB, EMBED, UNITS, CLASSES = 30, 8, 12, 4


def gru(inputs, mask, batch):
    """GRUCell: gates r and u of one kernel; the reset state goes into the candidate's."""
    with tf.variable_scope("gru_cell"):
        ortho = tf.orthogonal_initializer()
        gate_w = tf.get_variable("gates/kernel", [EMBED + UNITS, 2 * UNITS], tf.float32, ortho)
        gate_b = tf.get_variable("gates/bias", [2 * UNITS], tf.float32, tf.ones_initializer())
        cand_w = tf.get_variable("candidate/kernel", [EMBED + UNITS, UNITS], tf.float32, ortho)
        cand_b = tf.get_variable("candidate/bias", [UNITS], tf.float32, tf.zeros_initializer())
    state = tf.zeros([batch, UNITS], tf.float32)
    states = []
    for t in range(FLAGS.max_len):
        x, m = inputs[:, t], mask[:, t : t + 1]
        r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, state], 1), gate_w) + gate_b), 2, axis=1)
        c = tf.tanh(tf.matmul(tf.concat([x, r * state], 1), cand_w) + cand_b)
        state = m * (u * state + (1.0 - u) * c) + (1.0 - m) * state
        states.append(state)
    return tf.stack(states, axis=1)


def tower(words, lengths, labels, keep_prob):
    batch = words.get_shape().as_list()[0]
    with tf.device("/cpu:0"):
        table = tf.get_variable("embedding", [VOCAB, EMBED], tf.float32, tf.random_uniform_initializer(-0.5, 0.5))
    embedded = tf.nn.dropout(tf.nn.embedding_lookup(table, words), keep_prob=keep_prob)
    mask = tf.sequence_mask(lengths, FLAGS.max_len, dtype=tf.float32)
    states = gru(embedded, mask, batch)
    with tf.variable_scope("attention"):
        query = tf.get_variable("query", [UNITS], tf.float32, tf.random_normal_initializer(stddev=0.3))
    scores = tf.reduce_sum(states * query, 2) + (1.0 - mask) * -1e9
    context = tf.reduce_sum(states * tf.expand_dims(tf.nn.softmax(scores), 2), 1)
    with tf.variable_scope("output"):
        w = tf.get_variable("w", [UNITS, CLASSES], tf.float32, tf.random_normal_initializer(stddev=0.3))
        b = tf.get_variable("b", [CLASSES], tf.float32, tf.zeros_initializer())
    logits = tf.matmul(context, w) + b
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def combine_gradients(tower_grads):
    """Sum over towers; those of the embedding become dense."""
    combined = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars if g is not None]
        combined.append((tf.reduce_sum(tf.concat(grads, 0), 0), grad_and_vars[0][1]))
    return combined


def sentences(rng):
    words = rng.randint(0, VOCAB, size=(FLAGS.batch_size, FLAGS.max_len))
    lengths = rng.randint(2, FLAGS.max_len + 1, size=FLAGS.batch_size)
    return words, lengths, words[:, 0] % CLASSES


def main(_):
    tf.set_random_seed(13)
    words = tf.placeholder(tf.int32, [FLAGS.batch_size, FLAGS.max_len], name="words")
    lengths = tf.placeholder(tf.int32, [FLAGS.batch_size], name="lengths")
    labels = tf.placeholder(tf.int32, [FLAGS.batch_size], name="labels")
    keep_prob = tf.placeholder(tf.float32, [], name="keep_prob")
    optimizer = tf.train.AdagradOptimizer(FLAGS.learning_rate, initial_accumulator_value=0.1)
    splits = [tf.split(tensor, FLAGS.num_towers) for tensor in (words, lengths, labels)]
    tower_grads, tower_losses = [], []
    for i, (w, n, y) in enumerate(zip(*splits)):
        with tf.device("/gpu:%d" % i), tf.variable_scope("tower", reuse=i > 0), tf.name_scope("tower_%d" % i):
            loss = tower(w, n, y, keep_prob)
            tower_losses.append(loss)
            tower_grads.append(optimizer.compute_gradients(loss))
    train_op = optimizer.apply_gradients(combine_gradients(tower_grads))
    loss = tf.reduce_mean(tf.stack(tower_losses))

    rng = np.random.RandomState(40)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps):
            w, n, y = sentences(rng)
            feed = {words: w, lengths: n, labels: y, keep_prob: FLAGS.keep_prob}
            _, value = sess.run([train_op, loss], feed_dict=feed)
            print("step %d loss %.4f" % (step, value))


if __name__ == "__main__":
    tf.app.run()
