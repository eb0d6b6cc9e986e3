"""GraphSAGE without labels: two aggregators, unit embeddings, and a margin between neighbours and sampled nodes."""
import tensorflow.compat.v1 as tf

NODES = 72
IDENTITY = 12
HIDDEN = 10
OUTPUT = 8
POOL = 16
MARGIN = 0.1
WEIGHT_DECAY = 1e-3


def glorot(shape, dtype, name):
    return tf.get_variable(name, shape, dtype, initializer=tf.glorot_uniform_initializer())


class MaxPoolingAggregator(object):
    """Sends every neighbour through a layer and takes the maximum over those that there are."""

    def __init__(self, input_dim, output_dim, dtype, name):
        self.vars = {}
        with tf.variable_scope(name):
            self.vars["pool_weights"] = glorot([input_dim, POOL], dtype, "pool_weights")
            self.vars["pool_bias"] = tf.get_variable("pool_bias", [POOL], dtype, initializer=tf.zeros_initializer())
            self.vars["neigh_weights"] = glorot([POOL, output_dim], dtype, "neigh_weights")
            self.vars["self_weights"] = glorot([input_dim, output_dim], dtype, "self_weights")

    def __call__(self, self_vecs, neigh_vecs, mask):
        dims = neigh_vecs.shape.as_list()
        h = tf.reshape(neigh_vecs, [-1, dims[-1]])
        h = tf.nn.relu(tf.matmul(h, self.vars["pool_weights"]) + self.vars["pool_bias"])
        h = tf.reshape(h, [-1, dims[1], POOL])
        h = tf.reduce_max(h - (1.0 - mask[:, :, None]) * 1e9, axis=1)
        from_neighs = tf.matmul(h, self.vars["neigh_weights"])
        from_self = tf.matmul(self_vecs, self.vars["self_weights"])
        return tf.nn.relu(tf.concat([from_self, from_neighs], axis=1))


class MeanAggregator(object):
    """The mean of the neighbours that there are; the last layer, so it has no activation."""

    def __init__(self, input_dim, output_dim, dtype, name):
        self.vars = {}
        with tf.variable_scope(name):
            self.vars["neigh_weights"] = glorot([input_dim, output_dim], dtype, "neigh_weights")
            self.vars["self_weights"] = glorot([input_dim, output_dim], dtype, "self_weights")

    def __call__(self, self_vecs, neigh_vecs, mask):
        total = tf.reduce_sum(neigh_vecs * mask[:, :, None], axis=1)
        means = total / tf.reduce_sum(mask, axis=1, keepdims=True)
        from_neighs = tf.matmul(means, self.vars["neigh_weights"])
        from_self = tf.matmul(self_vecs, self.vars["self_weights"])
        return tf.concat([from_self, from_neighs], axis=1)


def tower(nodes, hop1, hop2, mask1, mask2):
    dtype = mask1.dtype
    size1, size2 = mask2.shape.as_list()[2:]
    with tf.variable_scope("graphsage"):
        embeds = tf.get_variable("node_embeddings", [NODES, IDENTITY], dtype,
                                 initializer=tf.random_normal_initializer(stddev=0.5))
        first = MaxPoolingAggregator(IDENTITY, HIDDEN, dtype, "maxpool_1")
        second = MeanAggregator(2 * HIDDEN, OUTPUT, dtype, "mean_2")
    hidden = [tf.nn.embedding_lookup(embeds, tf.reshape(ids, [-1])) for ids in (nodes, hop1, hop2)]
    # both hops go through the first aggregator
    centre = first(hidden[0], tf.reshape(hidden[1], [-1, size1, IDENTITY]), tf.reshape(mask1, [-1, size1]))
    around = first(hidden[1], tf.reshape(hidden[2], [-1, size2, IDENTITY]), tf.reshape(mask2, [-1, size2]))
    outputs = second(centre, tf.reshape(around, [-1, size1, 2 * HIDDEN]), tf.reshape(mask1, [-1, size1]))
    outputs = tf.nn.l2_normalize(outputs, 1)

    outputs = tf.reshape(outputs, [-1, 3, 2 * OUTPUT])
    source, destination, negative = outputs[:, 0], outputs[:, 1], outputs[:, 2]
    affinity = tf.reduce_sum(source * destination, axis=1)
    negative_affinity = tf.matmul(source, negative, transpose_b=True)
    hinge = tf.nn.relu(negative_affinity - affinity[:, None] + MARGIN)
    link_loss = tf.reduce_sum(hinge) / tf.cast(tf.shape(nodes)[0], dtype)
    decay = 0.0
    for aggregator in (first, second):
        for name in sorted(aggregator.vars):
            decay += WEIGHT_DECAY * tf.nn.l2_loss(aggregator.vars[name])
    # rank of the true neighbour among the sampled ones
    higher = tf.cast(negative_affinity > affinity[:, None], dtype)
    mrr = tf.reduce_mean(1.0 / (1.0 + tf.reduce_sum(higher, axis=1)))
    return link_loss + decay, {"centre": centre, "embeddings": outputs, "affinity": affinity, "link_loss": link_loss,
                               "mrr": mrr}
