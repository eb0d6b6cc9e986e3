"""ConvE: head and relation as two images stacked upon each other, one convolution, a dense layer, and the products with all
entities. Dropout is off in this configuration."""
import tensorflow.compat.v1 as tf

NUM_ENTITIES, NUM_RELATIONS = 37, 9
EMB_DIM = 20
EMB_H, EMB_W = 4, 5
FILTERS = 10
LABEL_SMOOTHING = 0.1


class ConvE(object):
    def __init__(self, dtype, is_train):
        self.dtype = dtype
        self.is_train = is_train
        xavier = tf.glorot_normal_initializer(dtype=dtype)
        with tf.variable_scope("embeddings"):
            self.emb_e = tf.get_variable("emb_e", [NUM_ENTITIES, EMB_DIM], dtype, initializer=xavier)
            self.emb_rel = tf.get_variable("emb_rel", [NUM_RELATIONS, EMB_DIM], dtype, initializer=xavier)
            self.b = tf.get_variable("b", [NUM_ENTITIES], dtype, initializer=tf.zeros_initializer())

    def bn(self, x, name):
        return tf.layers.batch_normalization(x, momentum=0.9, training=self.is_train, fused=False, name=name)

    def score(self, e1, rel):
        e1_embedded = tf.reshape(tf.nn.embedding_lookup(self.emb_e, e1), [-1, EMB_H, EMB_W, 1])
        rel_embedded = tf.reshape(tf.nn.embedding_lookup(self.emb_rel, rel), [-1, EMB_H, EMB_W, 1])
        x = tf.concat([e1_embedded, rel_embedded], 1)
        with tf.variable_scope("conv"):
            x = self.bn(x, "bn0")
            x = tf.layers.conv2d(x, FILTERS, 3, padding="valid", name="conv1")
            x = tf.nn.relu(self.bn(x, "bn1"))
        with tf.variable_scope("project"):
            x = tf.layers.flatten(x)
            x = tf.layers.dense(x, EMB_DIM, name="fc")
            x = tf.nn.relu(self.bn(x, "bn2"))
        return x, tf.matmul(x, self.emb_e, transpose_b=True) + self.b


def tower(e1, rel, e2_multi, training=True):
    model = ConvE(e2_multi.dtype, training)
    query, logits = model.score(e1, rel)
    smoothed = (1.0 - LABEL_SMOOTHING) * e2_multi + 1.0 / NUM_ENTITIES
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=smoothed, logits=logits))
    first = tf.one_hot(tf.argmax(logits, 1), NUM_ENTITIES, dtype=logits.dtype)
    hits = tf.reduce_mean(tf.reduce_sum(first * e2_multi, 1))
    return loss, {"query": query, "logits": logits, "hits_at_1": hits}
