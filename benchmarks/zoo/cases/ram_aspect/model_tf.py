"""Recurrent attention network on memory, for the polarity of an aspect: a bidirectional LSTM makes the memory, distance to the aspect
weighs it, and several hops of attention feed a GRU without biases. Weights of the hops are kept as [out, in]."""
import tensorflow.compat.v1 as tf

N_WORDS = 40
EMBEDDING_DIM = 12
N_HIDDEN = 10
N_HOP = 3
N_CLASS = 3
MAX_LEN = 11
L2_REG = 1e-3


class RAM(object):
    def __init__(self, dtype):
        self.dtype = dtype
        self.regularized = []

    def weight(self, name, shape, initializer):
        w = tf.get_variable(name=name, shape=shape, dtype=self.dtype, initializer=initializer)
        self.regularized.append(w)
        return w

    def memory(self, inputs, lens, left, size):
        fw = tf.nn.rnn_cell.LSTMCell(N_HIDDEN, initializer=tf.orthogonal_initializer())
        bw = tf.nn.rnn_cell.LSTMCell(N_HIDDEN, initializer=tf.orthogonal_initializer())
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(fw, bw, inputs, sequence_length=lens, dtype=self.dtype, scope="BiLSTM")
        outputs = tf.concat(outputs, 2)
        pos = tf.expand_dims(tf.range(MAX_LEN), 0)
        left, end = tf.expand_dims(left, 1), tf.expand_dims(left + size, 1)
        offset = tf.where(pos < left, pos - left, tf.where(pos < end, tf.zeros_like(pos - end), pos - end + 1))
        inside = tf.sequence_mask(lens, MAX_LEN, dtype=self.dtype)
        locs = tf.cast(offset, self.dtype) / tf.expand_dims(tf.cast(lens, self.dtype), 1) * inside
        weighted = outputs * tf.expand_dims(1 - tf.abs(locs), 2)
        return outputs, tf.concat([weighted, tf.expand_dims(locs, 2)], 2)

    def hops(self, memory, aspect, lens):
        xavier = tf.glorot_uniform_initializer(dtype=self.dtype)
        orthogonal = tf.orthogonal_initializer(dtype=self.dtype)
        width = 2 * N_HIDDEN + 1
        gru = {}
        for gate in ["r", "z", "x"]:
            gru["W_" + gate] = self.weight("W_" + gate, [N_HIDDEN, width], orthogonal)
        for gate in ["r", "z", "g"]:
            gru["U_" + gate] = self.weight("U_" + gate, [N_HIDDEN, N_HIDDEN], orthogonal)
        e = tf.zeros([tf.shape(memory)[0], N_HIDDEN], self.dtype)
        inside = tf.sequence_mask(lens, MAX_LEN)
        for h in range(N_HOP):
            w_al = self.weight("W_al_%d" % h, [width + N_HIDDEN + EMBEDDING_DIM, 1], xavier)
            b_al = self.weight("B_al_%d" % h, [MAX_LEN], tf.zeros_initializer())
            tiled = tf.tile(tf.expand_dims(tf.concat([e, aspect], 1), 1), [1, MAX_LEN, 1])
            g = tf.tensordot(tf.concat([memory, tiled], 2), w_al, [[2], [0]])
            g = tf.squeeze(g, 2) + b_al
            score = tf.nn.softmax(tf.where(inside, g, tf.fill(tf.shape(g), tf.cast(-1e30, self.dtype))))
            i_al = tf.squeeze(tf.matmul(tf.expand_dims(score, 1), memory), 1)
            r = tf.sigmoid(tf.matmul(i_al, gru["W_r"], transpose_b=True) + tf.matmul(e, gru["U_r"], transpose_b=True))
            z = tf.sigmoid(tf.matmul(i_al, gru["W_z"], transpose_b=True) + tf.matmul(e, gru["U_z"], transpose_b=True))
            e0 = tf.tanh(tf.matmul(i_al, gru["W_x"], transpose_b=True) + tf.matmul(r * e, gru["U_g"], transpose_b=True))
            e = (1 - z) * e + z * e0
        return e


def tower(sentences, aspects, sentence_lens, left_lens, aspect_lens, labels):
    dtype = labels.dtype
    model = RAM(dtype)
    word2vec = tf.get_variable("word2vec", [N_WORDS, EMBEDDING_DIM], dtype,
                               initializer=tf.random_uniform_initializer(-0.5, 0.5, dtype=dtype))
    inputs = tf.nn.embedding_lookup(word2vec, sentences)
    aspect = tf.nn.embedding_lookup(word2vec, aspects) * tf.expand_dims(tf.sequence_mask(aspect_lens, 3, dtype=dtype), 2)
    aspect = tf.reduce_sum(aspect, 1) / tf.expand_dims(tf.cast(aspect_lens, dtype), 1)
    context, memory = model.memory(inputs, sentence_lens, left_lens, aspect_lens)
    e = model.hops(memory, aspect, sentence_lens)
    w_l = model.weight("W_l", [N_HIDDEN, N_CLASS], tf.glorot_uniform_initializer(dtype=dtype))
    b_l = model.weight("B_l", [N_CLASS], tf.zeros_initializer())
    predict = tf.matmul(e, w_l) + b_l
    cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=predict, labels=labels))
    penalty = L2_REG * tf.add_n([tf.nn.l2_loss(w) for w in model.regularized])
    return cost + penalty, {"context": context, "memory": memory, "episode": e, "predict": predict, "cost": cost, "penalty": penalty}
