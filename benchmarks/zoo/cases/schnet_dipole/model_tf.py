"""SchNet: continuous-filter convolutions over the pairs of a padded molecule; an energy and the magnitude of the dipole moment."""
import numpy as np
import tensorflow.compat.v1 as tf

N_BASIS = 14
N_FILTERS = 12
N_INTERACTIONS = 2
MAX_Z = 10
CUTOFF = 4.0
N_GAUSSIANS = 9
GAMMA = 3.0
ATOMREF = [0.0, -0.5, 0.0, 0.0, 0.0, 0.0, -1.75, -2.25, -3.5, 0.0]
ENERGY_MEAN, ENERGY_STD = -0.25, 0.75
DIPOLE_WEIGHT = 0.2
L2 = 1e-3


def shifted_softplus(x):
    return tf.nn.softplus(x) - np.log(2.0)


def dense(x, n_out, scope, activation=None, use_bias=True, weights=None):
    with tf.variable_scope(scope):
        W = tf.get_variable("W", [x.get_shape().as_list()[-1], n_out], x.dtype, initializer=tf.glorot_uniform_initializer())
        if weights is not None:
            weights.append(W)
        y = tf.tensordot(x, W, [[x.shape.ndims - 1], [0]])
        y.set_shape(x.get_shape().as_list()[:-1] + [n_out])
        if use_bias:
            y += tf.get_variable("b", [n_out], x.dtype, initializer=tf.zeros_initializer())
        return y if activation is None else activation(y)


def euclidean_distances(positions, pair_mask):
    d_ij = tf.expand_dims(positions, 1) - tf.expand_dims(positions, 2)
    squared = tf.reduce_sum(tf.square(d_ij), axis=3)
    return tf.sqrt(tf.where(pair_mask > 0, squared, tf.ones_like(squared)))


def rbf_expansion(distances):
    centers = tf.cast(tf.range(N_GAUSSIANS), distances.dtype) * (CUTOFF / (N_GAUSSIANS - 1))
    return tf.exp(-GAMMA * tf.square(tf.expand_dims(distances, -1) - centers))


def cosine_cutoff(distances):
    smooth = 0.5 * (tf.cos(distances * np.pi / CUTOFF) + 1.0)
    return smooth * tf.cast(distances < CUTOFF, distances.dtype)


def cfconv(x, rbf, window, weights):
    W = dense(rbf, N_FILTERS, "filter1", shifted_softplus, weights=weights)
    W = dense(W, N_FILTERS, "filter2", shifted_softplus, weights=weights)
    W = W * tf.expand_dims(window, -1)
    y = dense(x, N_FILTERS, "in2fac", use_bias=False, weights=weights)
    y = tf.expand_dims(y, 1) * W
    y = tf.reduce_sum(y, axis=2)
    return dense(y, N_BASIS, "fac2out", shifted_softplus, weights=weights)


def interaction(x, rbf, window, weights, scope):
    with tf.variable_scope(scope):
        v = cfconv(x, rbf, window, weights)
        return x + dense(v, N_BASIS, "dense", weights=weights)


def atomwise(x, scope, weights, use_bias=True):
    with tf.variable_scope(scope):
        y = dense(x, N_BASIS // 2, "dense1", shifted_softplus, weights=weights)
        return tf.squeeze(dense(y, 1, "dense2", use_bias=use_bias, weights=weights), -1)


def tower(numbers, positions, energy, dipole, training=True):
    dtype = positions.dtype
    weights = []
    with tf.variable_scope("schnet"):
        mask = tf.cast(numbers > 0, dtype)
        n_atoms = tf.reduce_sum(mask, 1)
        pair_mask = tf.expand_dims(mask, 1) * tf.expand_dims(mask, 2)
        pair_mask = pair_mask * (1.0 - tf.eye(numbers.get_shape().as_list()[1], dtype=dtype))
        distances = euclidean_distances(positions, pair_mask)
        rbf = rbf_expansion(distances)
        window = cosine_cutoff(distances) * pair_mask
        table = tf.get_variable("embedding", [MAX_Z, N_BASIS], dtype, initializer=tf.random_normal_initializer(stddev=0.5))
        x = tf.nn.embedding_lookup(table, numbers)
        for i in range(N_INTERACTIONS):
            x = interaction(x, rbf, window, weights, "interaction%d" % i)

        y = atomwise(x, "energy", weights) * ENERGY_STD + ENERGY_MEAN
        y += tf.gather(tf.constant(ATOMREF, dtype), numbers)
        E = tf.reduce_sum(y * mask, 1)

        q = atomwise(x, "charge", weights, use_bias=False) * mask
        q = (q - tf.expand_dims(tf.reduce_sum(q, 1) / n_atoms, 1)) * mask
        mu = tf.reduce_sum(tf.expand_dims(q, 2) * positions, 1)
        mu = tf.sqrt(tf.reduce_sum(tf.square(mu), 1) + 1e-8)

    loss = tf.reduce_mean(tf.square((E - energy) / n_atoms)) + DIPOLE_WEIGHT * tf.reduce_mean(tf.abs(mu - dipole))
    if training:
        loss += L2 * tf.add_n([tf.nn.l2_loss(W) for W in weights])
    return loss, {"atoms": x, "charges": q, "E": E, "mu": mu, "E_mae": tf.reduce_mean(tf.abs(E - energy))}
