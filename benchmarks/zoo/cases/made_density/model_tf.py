"""Masked autoencoder for density estimation: mixtures of Gaussians whose parameters depend on the elements before."""
import numpy as np
import tensorflow.compat.v1 as tf

N_INPUTS = 7
N_CLASSES = 3
N_HIDDENS = [32, 32]
N_COMPS = 4
BATCH_SIZE = 40  # over all towers
SPARSITY_TARGET = 0.2
SPARSITY_WEIGHT = 0.05


def create_degrees(order):
    """Degrees of the inputs, and of each layer's hidden units, which go round from 1 to the last degree but one."""
    degrees = [np.array(order)]
    for n_h in N_HIDDENS:
        degrees.append(np.arange(n_h) % (N_INPUTS - 1) + 1)
    return degrees


def create_masks(degrees):
    masks = [(d0[:, np.newaxis] <= d1).astype("float32") for d0, d1 in zip(degrees[:-1], degrees[1:])]
    output_mask = (degrees[-1][:, np.newaxis] < degrees[0]).astype("float32")
    direct_mask = (degrees[0][:, np.newaxis] < degrees[0]).astype("float32")
    return masks, output_mask, direct_mask


def masked_weights(name, mask, dtype):
    w = tf.get_variable(name, mask.shape, dtype, tf.random_normal_initializer(stddev=1.0 / np.sqrt(mask.shape[0] + 1)))
    return w * tf.constant(mask, dtype)


def bias(name, size, dtype):
    return tf.get_variable(name, [size], dtype, tf.zeros_initializer())


def tower(x, labels):
    dtype = x.dtype
    degrees = create_degrees([3, 7, 1, 5, 2, 6, 4])
    masks, output_mask, direct_mask = create_masks(degrees)
    y = tf.one_hot(labels, N_CLASSES, dtype=dtype)
    hiddens = []
    h = x
    for l, mask in enumerate(masks):
        with tf.variable_scope("hidden_%d" % (l + 1)):
            a = tf.matmul(h, masked_weights("W", mask, dtype)) + bias("b", mask.shape[1], dtype)
            # the class is seen by all units
            a += tf.matmul(y, tf.get_variable("Wy", [N_CLASSES, mask.shape[1]], dtype,
                                              tf.random_normal_initializer(stddev=0.5)))
            h = tf.sigmoid(a)
            hiddens.append(h)

    def head(name):
        with tf.variable_scope(name):
            outputs = []
            for c in range(N_COMPS):
                with tf.variable_scope("comp_%d" % c):
                    outputs.append(tf.matmul(h, masked_weights("W", output_mask, dtype))
                                   + tf.matmul(x, masked_weights("direct", direct_mask, dtype))
                                   + bias("b", N_INPUTS, dtype))
            return tf.stack(outputs, axis=2)

    m = head("means")
    logp = head("log_precisions")
    loga = head("coefficients")
    loga -= tf.reduce_logsumexp(loga, axis=2, keepdims=True)
    u = tf.exp(0.5 * logp) * (tf.expand_dims(x, 2) - m)
    log_probs = tf.reduce_logsumexp(loga - 0.5 * (tf.square(u) - logp + np.log(2 * np.pi)), axis=2)
    nll = -tf.reduce_sum(log_probs, axis=1)
    # units should be active for a fifth of this tower's examples
    rho = SPARSITY_TARGET
    sparsity = 0.0
    for h in hiddens:
        rho_hat = tf.reduce_mean(h, axis=0)
        kl = rho * tf.log(rho / rho_hat) + (1 - rho) * tf.log((1 - rho) / (1 - rho_hat))
        sparsity += tf.reduce_sum(kl)
    # towers' losses are summed
    loss = tf.reduce_sum(nll) / BATCH_SIZE + SPARSITY_WEIGHT * sparsity
    return loss, {"hidden_1": hiddens[0], "hidden_2": hiddens[1], "means": m, "log_precisions": logp,
                  "log_coefficients": loga, "log_probs": log_probs, "sparsity": sparsity}
