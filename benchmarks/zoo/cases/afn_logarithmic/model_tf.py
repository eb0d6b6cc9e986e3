"""Adaptive factorization network with a deep part (AFN+): logarithmic neurons learn which products of fields to take; embeddings of
either part are its own, and both predictions are mixed by learnt weights."""
import tensorflow.compat.v1 as tf

FEATURES = 35
FIELDS = 6
EMBED = 5
LOGARITHMIC = 14
AFN_DEEP = [20, 12]
NN_DEEP = [16, 8]
L2_EMB = 1e-3
DECAY = 0.95


class AFN(object):
    def __init__(self, feat_index, feat_value, training):
        self.index, self.training, self.dtype = feat_index, training, feat_value.dtype
        self.value = tf.reshape(feat_value, [-1, FIELDS, 1])

    def embeddings(self, name):
        table = tf.get_variable(name, [FEATURES, EMBED], self.dtype, initializer=tf.random_normal_initializer(0.0, 0.5))
        return table, tf.nn.embedding_lookup(table, self.index) * self.value

    def norm(self, x, axis, name):
        return tf.layers.batch_normalization(x, axis=axis, momentum=DECAY, epsilon=1e-3, training=self.training, name=name)

    def deep(self, y, sizes, prefix):
        for i, size in enumerate(sizes):
            y = tf.layers.dense(y, size, name="%s_layer_%d" % (prefix, i),
                                kernel_initializer=tf.glorot_normal_initializer())
            y = self.norm(tf.nn.relu(y), -1, "%s_bn_%d" % (prefix, i))
        return tf.layers.dense(y, 1, name="%s_out" % prefix)

    def logarithmic(self, emb):
        x = tf.maximum(tf.abs(emb), 1e-2)
        x = self.norm(tf.log(x), 2, "bn_log")
        x = tf.transpose(x, [0, 2, 1])
        w = tf.get_variable("log_weights", [FIELDS, LOGARITHMIC], self.dtype,
                            initializer=tf.random_normal_initializer(0.0, 0.1))
        b = tf.get_variable("log_bias", [LOGARITHMIC], self.dtype, initializer=tf.zeros_initializer())
        x = tf.exp(tf.tensordot(x, w, [[2], [0]]) + b)
        return self.norm(x, 1, "bn_exp")


def tower(feat_index, feat_value, label, training=True):
    net = AFN(feat_index, feat_value, training)
    with tf.variable_scope("afn"):
        afn_table, emb = net.embeddings("feature_embeddings")
        cross = net.logarithmic(emb)
        afn_out = net.deep(tf.reshape(cross, [-1, EMBED * LOGARITHMIC]), AFN_DEEP, "afn")
    with tf.variable_scope("nn"):
        nn_table, emb = net.embeddings("feature_embeddings")
        nn_out = net.deep(tf.reshape(emb, [-1, FIELDS * EMBED]), NN_DEEP, "nn")
    with tf.variable_scope("ensemble"):
        w1 = tf.get_variable("w1", [1], net.dtype, initializer=tf.constant_initializer(0.5))
        w2 = tf.get_variable("w2", [1], net.dtype, initializer=tf.constant_initializer(0.5))
        bias = tf.get_variable("bias", [1], net.dtype, initializer=tf.zeros_initializer())
        logit = w1 * afn_out + w2 * nn_out + bias
    prob = tf.reshape(tf.sigmoid(logit), [-1])
    entropy = -label * tf.log(prob + 1e-7) - (1 - label) * tf.log(1 - prob + 1e-7)
    logloss = tf.reduce_mean(entropy)
    l2 = L2_EMB * (tf.nn.l2_loss(afn_table) + tf.nn.l2_loss(nn_table))
    return logloss + l2, {"cross": cross, "afn_out": afn_out, "nn_out": nn_out, "prob": prob, "logloss": logloss}
