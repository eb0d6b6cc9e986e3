"""Similarity of short texts by a siamese network: characters, two stacked LSTMs in each direction, the output of the last step, a
normalised euclidean distance and a contrastive loss, after a public TensorFlow 1 code for matching names."""
import tensorflow.compat.v1 as tf

VOCABULARY, EMBEDDING_SIZE, HIDDEN_UNITS, LAYERS, LENGTH = 28, 8, 10, 2, 11


class SiameseLSTM(object):
    def stacked(self):
        cells = [tf.nn.rnn_cell.BasicLSTMCell(HIDDEN_UNITS, forget_bias=1.0, state_is_tuple=True) for _ in range(LAYERS)]
        return tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=True)

    def birnn(self, x, scope):
        x = tf.unstack(tf.transpose(x, perm=[1, 0, 2]), LENGTH)
        with tf.variable_scope(scope):
            with tf.variable_scope("fw"):
                lstm_fw_cell = self.stacked()
            with tf.variable_scope("bw"):
                lstm_bw_cell = self.stacked()
            outputs, _, _ = tf.nn.static_bidirectional_rnn(lstm_fw_cell, lstm_bw_cell, x, dtype=x[0].dtype)
        return outputs[-1]

    def contrastive_loss(self, y, d, batch_size):
        tmp = y * tf.square(d)
        tmp2 = (1 - y) * tf.square(tf.maximum(1 - d, 0))
        return tf.reduce_sum(tmp + tmp2) / batch_size / 2

    def __init__(self, input_x1, input_x2, input_y):
        dtype = input_y.dtype
        with tf.variable_scope("embedding"):
            self.W = tf.get_variable("W", [VOCABULARY, EMBEDDING_SIZE], dtype,
                                     initializer=tf.random_uniform_initializer(-1.0, 1.0, dtype=dtype))
            embedded_chars1 = tf.nn.embedding_lookup(self.W, input_x1)
            embedded_chars2 = tf.nn.embedding_lookup(self.W, input_x2)
        with tf.variable_scope("output") as scope:
            self.out1 = self.birnn(embedded_chars1, "side")
            scope.reuse_variables()
            self.out2 = self.birnn(embedded_chars2, "side")
            distance = tf.sqrt(tf.reduce_sum(tf.square(tf.subtract(self.out1, self.out2)), 1, keepdims=True))
            norms = tf.add(tf.sqrt(tf.reduce_sum(tf.square(self.out1), 1, keepdims=True)),
                           tf.sqrt(tf.reduce_sum(tf.square(self.out2), 1, keepdims=True)))
            self.distance = tf.reshape(tf.div(distance, norms), [-1])
        batch_size = tf.cast(tf.shape(input_y)[0], dtype)
        self.loss = self.contrastive_loss(input_y, self.distance, batch_size)
        similar = tf.subtract(tf.ones_like(self.distance), tf.rint(self.distance))
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(similar, input_y), dtype))


def tower(input_x1, input_x2, input_y):
    model = SiameseLSTM(input_x1, input_x2, input_y)
    return model.loss, {"out1": model.out1, "out2": model.out2, "distance": model.distance, "accuracy": model.accuracy}
