"""Deep potential (DeePMD, descriptor se_e2_a): a smooth environment matrix, embedding nets by the neighbour's type, fitting nets by
the centre's; energies, forces as their gradient, and the virial in the loss."""
import tensorflow.compat.v1 as tf

NATOMS = [3, 5]
NALL = 8
RCUT, RCUT_SMTH = 4.0, 1.5
FILTER_NEURON = [5, 10, 20]
AXIS_NEURON = 4
FITTING_NEURON = [16, 16]
DAVG = [0.19, 0.16]
DSTD = [[0.15, 0.11], [0.17, 0.13]]  # of the radial and of the angular part, by type
BIAS_ATOM_E = [-2.1, -1.3]
PREF_E, PREF_F, PREF_V = 0.02, 2.0, 0.05


def one_layer(inputs, outputs_size, name, activation_fn=tf.nn.tanh, use_timestep=False, bavg=0.0):
    dtype, width = inputs.dtype, int(inputs.shape[-1])
    with tf.variable_scope(name):
        w = tf.get_variable("matrix", [width, outputs_size], dtype,
                            tf.random_normal_initializer(stddev=(width + outputs_size) ** -0.5))
        b = tf.get_variable("bias", [outputs_size], dtype, tf.random_normal_initializer(stddev=1.0, mean=bavg))
        hidden = tf.nn.bias_add(tf.matmul(inputs, w), b)
        if activation_fn is not None and use_timestep:
            idt = tf.get_variable("idt", [outputs_size], dtype, tf.random_normal_initializer(stddev=0.001, mean=0.1))
            return activation_fn(hidden) * idt
        return activation_fn(hidden) if activation_fn is not None else hidden


def embedding_net(xx, name_suffix):
    dtype = xx.dtype
    for ii, size in enumerate(FILTER_NEURON, 1):
        width = int(xx.shape[-1])
        w = tf.get_variable("matrix_%d_%s" % (ii, name_suffix), [width, size], dtype,
                            tf.random_normal_initializer(stddev=(width + size) ** -0.5))
        b = tf.get_variable("bias_%d_%s" % (ii, name_suffix), [1, size], dtype, tf.random_normal_initializer(stddev=1.0))
        hidden = tf.nn.tanh(tf.matmul(xx, w) + b)
        if size == width:
            xx += hidden
        elif size == width * 2:
            xx = tf.concat([xx, xx], 1) + hidden
        else:
            xx = hidden
    return xx


def env_mat(coord):
    """[frames, atoms, neighbours, 4], the neighbours of an atom being all others, sorted by type."""
    rows = [[j for j in range(NALL) if j != i] for i in range(NALL)]
    rij = tf.gather(coord, rows, axis=1) - tf.expand_dims(coord, 2)
    r2 = tf.reduce_sum(tf.square(rij), -1, keepdims=True)
    r = tf.sqrt(r2)
    uu = (r - RCUT_SMTH) / (RCUT - RCUT_SMTH)
    vv = uu * uu * uu * (-6 * uu * uu + 15 * uu - 10) + 1
    sw = tf.where(r < RCUT_SMTH, tf.ones_like(r), tf.where(r < RCUT, vv, tf.zeros_like(r)))
    return tf.concat([sw / r, sw * rij / r2], axis=-1)


def descriptor(rmat):
    dtype = rmat.dtype
    nnei, out, radial = NALL - 1, [], []
    start = 0
    for type_i, natoms in enumerate(NATOMS):
        davg = tf.constant([DAVG[type_i], 0.0, 0.0, 0.0], dtype)
        dstd = tf.constant([DSTD[type_i][0]] + [DSTD[type_i][1]] * 3, dtype)
        inputs_i = (rmat[:, start:start + natoms] - davg) / dstd
        inputs_i = tf.reshape(inputs_i, [-1, nnei, 4])
        split = [n - (t == type_i) for t, n in enumerate(NATOMS)]
        xyz_scatter = 0.0
        with tf.variable_scope("filter_type_all", reuse=tf.AUTO_REUSE):
            for type_j, part in enumerate(tf.split(inputs_i, split, axis=1)):
                g = embedding_net(tf.reshape(part[:, :, :1], [-1, 1]), str(type_j))
                g = tf.reshape(g, [-1, split[type_j], FILTER_NEURON[-1]])
                xyz_scatter += tf.matmul(part, g, transpose_a=True)
        xyz_scatter /= float(nnei)
        qmat = tf.matmul(xyz_scatter, xyz_scatter[:, :, :AXIS_NEURON], transpose_a=True)
        out.append(tf.reshape(qmat, [-1, natoms, FILTER_NEURON[-1] * AXIS_NEURON]))
        start += natoms
    return tf.concat(out, axis=1)


def fitting(dd):
    energies, start = [], 0
    for type_i, natoms in enumerate(NATOMS):
        layer = tf.reshape(dd[:, start:start + natoms], [-1, FILTER_NEURON[-1] * AXIS_NEURON])
        for ii, size in enumerate(FITTING_NEURON):
            name = "layer_%d_type_%d" % (ii, type_i)
            if ii > 0 and size == FITTING_NEURON[ii - 1]:
                layer += one_layer(layer, size, name, use_timestep=True)
            else:
                layer = one_layer(layer, size, name)
        final = one_layer(layer, 1, "final_layer_type_%d" % type_i, activation_fn=None) + BIAS_ATOM_E[type_i]
        energies.append(tf.reshape(final, [-1, natoms]))
        start += natoms
    return tf.concat(energies, axis=1)


def tower(coord, energy, force):
    dout = descriptor(env_mat(coord))
    atom_ener = fitting(dout)
    ener = tf.reduce_sum(atom_ener, axis=1)
    atom_force = -tf.gradients(ener, coord)[0]
    virial = tf.matmul(coord, atom_force, transpose_a=True)
    virial_hat = tf.matmul(coord, force, transpose_a=True)
    l2_ener = tf.reduce_mean(tf.square(ener - energy))
    l2_force = tf.reduce_mean(tf.square(atom_force - force))
    l2_virial = tf.reduce_mean(tf.square(virial - virial_hat))
    atom_norm = 1.0 / NALL
    loss = atom_norm * PREF_E * l2_ener + PREF_F * l2_force + atom_norm * PREF_V * l2_virial
    return loss, {"descriptor": dout, "atom_ener": atom_ener, "force": atom_force, "virial": virial, "l2_ener": l2_ener,
                  "l2_force": l2_force, "l2_virial": l2_virial}
