"""Word-level LSTM language model, after the kind of recurrent language model that TensorFlow's tutorials trained on
the Penn treebank: an unrolled stack of BasicLSTMCells, dropout on the embedding and on every layer's output, the loss
summed over time and averaged over the batch. The masks of dropout are fed."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 50
EMBEDDING_SIZE = 20
HIDDEN_SIZE = 24
NUM_LAYERS = 2
NUM_STEPS = 7
INIT_SCALE = 0.1


def tower(inputs, targets, state, embedding_mask, output_masks):
    data_type = state.dtype
    with tf.variable_scope("Model", initializer=tf.random_uniform_initializer(-INIT_SCALE, INIT_SCALE)):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, EMBEDDING_SIZE], dtype=data_type)
        x = tf.nn.embedding_lookup(embedding, inputs) * embedding_mask

        cells = [tf.nn.rnn_cell.BasicLSTMCell(HIDDEN_SIZE, forget_bias=0.0, state_is_tuple=True, dtype=data_type)
                 for _ in range(NUM_LAYERS)]
        states = [tf.nn.rnn_cell.LSTMStateTuple(c=state[:, layer, 0], h=state[:, layer, 1])
                  for layer in range(NUM_LAYERS)]
        outputs = []
        with tf.variable_scope("RNN"):
            for time_step in range(NUM_STEPS):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                h = x[:, time_step, :]
                for layer, cell in enumerate(cells):
                    with tf.variable_scope("cell_%d" % layer):
                        h, states[layer] = cell(h, states[layer])
                    h = h * output_masks[:, layer, time_step, :]
                outputs.append(h)
        output = tf.reshape(tf.concat(outputs, 1), [-1, HIDDEN_SIZE])

        softmax_w = tf.get_variable("softmax_w", [HIDDEN_SIZE, VOCAB_SIZE], dtype=data_type)
        softmax_b = tf.get_variable("softmax_b", [VOCAB_SIZE], dtype=data_type)
        logits = tf.nn.xw_plus_b(output, softmax_w, softmax_b)
        logits = tf.reshape(logits, [-1, NUM_STEPS, VOCAB_SIZE])

    crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    cost = tf.reduce_sum(tf.reduce_mean(crossent, axis=0))
    return cost, {
        "output": tf.reshape(output, [-1, NUM_STEPS, HIDDEN_SIZE]),
        "logits": logits,
        "perplexity": tf.exp(cost / NUM_STEPS),
    }
