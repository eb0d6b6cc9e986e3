"""Graph isomorphism network on molecules, after the kind of TensorFlow 1 code of the GIN paper's ports and MoleculeNet baselines.

The molecules of a batch become one graph with many components; bonds enter the messages, and every layer has its own readout.
"""
import tensorflow.compat.v1 as tf

ATOM_FEATURES = (9, 4, 6)
BOND_FEATURES = (4, 2)
EMB_DIM = 20
NUM_LAYERS = 3
NUM_TASKS = 5


def encoder(features, sizes, scope, dtype):
    with tf.variable_scope(scope):
        total = 0
        for i, size in enumerate(sizes):
            table = tf.get_variable("embedding_%d" % i, [size, EMB_DIM], dtype,
                                    initializer=tf.glorot_uniform_initializer())
            total += tf.nn.embedding_lookup(table, features[:, i])
        return total


def batch_norm(x, training, name):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, name=name)


def gin_conv(h, src, dst, bond_features, training, scope):
    with tf.variable_scope(scope):
        bond = encoder(bond_features, BOND_FEATURES, "bond_encoder", h.dtype)
        messages = tf.nn.relu(tf.gather(h, src) + bond)
        aggregated = tf.unsorted_segment_sum(messages, dst, tf.shape(h)[0])
        epsilon = tf.get_variable("epsilon", [], h.dtype, initializer=tf.zeros_initializer())
        out = (1 + epsilon) * h + aggregated
        out = tf.layers.dense(out, 2 * EMB_DIM, name="mlp_0")
        out = tf.nn.relu(batch_norm(out, training, "mlp_bn"))
        return tf.layers.dense(out, EMB_DIM, name="mlp_1")


def tower(atoms, atom_counts, bonds, bond_features, bond_counts, labels, label_weights, training=True):
    dtype = labels.dtype
    num_graphs = tf.shape(atoms)[0]
    atom_mask = tf.sequence_mask(atom_counts, atoms.shape.as_list()[1])
    bond_mask = tf.sequence_mask(bond_counts, bonds.shape.as_list()[1])
    graph_ids = tf.repeat(tf.range(num_graphs), atom_counts)
    offsets = tf.cumsum(atom_counts, exclusive=True)
    edges = tf.boolean_mask(bonds + offsets[:, None, None], bond_mask)
    edge_features = tf.boolean_mask(bond_features, bond_mask)

    h = encoder(tf.boolean_mask(atoms, atom_mask), ATOM_FEATURES, "atom_encoder", dtype)
    hidden = [h]
    for layer in range(NUM_LAYERS):
        h = gin_conv(h, edges[:, 0], edges[:, 1], edge_features, training, "gin_%d" % layer)
        h = tf.nn.relu(batch_norm(h, training, "bn_%d" % layer))
        hidden.append(h)

    logits = 0
    for layer, h in enumerate(hidden):
        pooled = tf.math.unsorted_segment_sum(h, graph_ids, num_graphs)
        logits += tf.layers.dense(pooled, NUM_TASKS, name="readout_%d" % layer)

    xent = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(xent * label_weights) / tf.reduce_sum(label_weights)
    return loss, {"logits": logits}
