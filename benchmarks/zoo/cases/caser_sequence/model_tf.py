"""Caser: the last items as an image, filters over rows (union patterns) and over columns (point-wise patterns)."""
import tensorflow.compat.v1 as tf

NUM_USERS = 24
NUM_ITEMS = 40
L = 5
DIMS = 8
NUM_H = 4
NUM_V = 2
L2 = 2e-4


class Caser(object):
    def __init__(self, dtype, training):
        self.dtype = dtype
        self.training = training
        self.decayed = []

    def _embedding(self, name, shape, zero_pad=False):
        stddev = 1.0 / shape[1]
        table = tf.get_variable(name, shape, self.dtype, initializer=tf.random_normal_initializer(stddev=stddev))
        if zero_pad:
            table = tf.concat([tf.zeros([1, shape[1]], self.dtype), table[1:, :]], axis=0)
        return table

    def _conv(self, x, shape, name):
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", shape, self.dtype, initializer=tf.glorot_uniform_initializer())
            bias = tf.get_variable("bias", [shape[-1]], self.dtype, initializer=tf.zeros_initializer())
            self.decayed.append(kernel)
            return tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="VALID"), bias)

    def sequence(self, history, keep):
        items = self._embedding("item_embedding", [NUM_ITEMS, DIMS], zero_pad=True)
        image = tf.expand_dims(tf.nn.embedding_lookup(items, history), 3)
        vertical = self._conv(image, [L, 1, 1, NUM_V], "conv_v")
        pieces = [tf.reshape(vertical, [-1, DIMS * NUM_V])]
        for h in range(1, L + 1):
            conv = tf.nn.relu(self._conv(image, [h, DIMS, 1, NUM_H], "conv_h%d" % h))
            pool = tf.nn.max_pool(conv, ksize=[1, L - h + 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID")
            pieces.append(tf.squeeze(pool, [1, 2]))
        z = tf.concat(pieces, axis=1)
        if self.training:
            z = z * keep
        with tf.variable_scope("fc1"):
            w = tf.get_variable("w", [z.shape.as_list()[1], DIMS], self.dtype, initializer=tf.glorot_uniform_initializer())
            b = tf.get_variable("b", [DIMS], self.dtype, initializer=tf.zeros_initializer())
            self.decayed.append(w)
            return tf.nn.relu(tf.nn.xw_plus_b(z, w, b))

    def scores(self, x, candidates):
        w2 = self._embedding("W2", [NUM_ITEMS, 2 * DIMS])
        b2 = tf.get_variable("b2", [NUM_ITEMS, 1], self.dtype, initializer=tf.zeros_initializer())
        w = tf.nn.embedding_lookup(w2, candidates)
        b = tf.nn.embedding_lookup(b2, candidates)
        return tf.squeeze(tf.matmul(w, tf.expand_dims(x, 2)) + b, 2)


def tower(users, history, positives, negatives, keep, training=True):
    model = Caser(keep.dtype, training)
    z = model.sequence(history, keep)
    user = tf.nn.embedding_lookup(model._embedding("user_embedding", [NUM_USERS, DIMS]), users)
    x = tf.concat([z, user], axis=1)
    num_targets = positives.shape.as_list()[1]
    scores = model.scores(x, tf.concat([positives, negatives], axis=1))
    targets_prediction, negatives_prediction = scores[:, :num_targets], scores[:, num_targets:]
    positive_loss = -tf.reduce_mean(tf.log(tf.sigmoid(targets_prediction)))
    negative_loss = -tf.reduce_mean(tf.log(1 - tf.sigmoid(negatives_prediction)))
    ranking = positive_loss + negative_loss
    loss = ranking + L2 * tf.add_n([tf.nn.l2_loss(w) for w in model.decayed])
    return loss, {"z": z, "scores": scores, "ranking": ranking}
