"""The legacy side: one tower of a video classifier over frames, with a mixture of experts for every class."""

import tensorflow.compat.v1 as tf

from tf_towers import batch_norm

CLASSES = 10
MIXTURES = 2
PENALTY = 1e-4


def tower(frames, labels, training=True):
    """Returns the loss over this tower's shard, regularisation included, and what else to compare.

    Args:
      frames: ``[shard, frames, features]``.
      labels: ``[shard, 10]``, 1 for each class that the video shows.
      training: normalise with this shard's statistics, or with the moving ones.
    """
    clusters = clustered(frames, 16, training)
    hidden = tf.nn.relu(dense(clusters, 20, "hidden", bias=True))
    gates, probabilities = mixture_of_experts(hidden)
    # The collection is not filtered by tower: every tower adds all terms to its loss, and the sum of the towers' gradients
    # decays as many times as there are towers. The port does the same for as long as it sums.
    regularization = tf.add_n(tf.losses.get_regularization_losses())
    loss = cross_entropy(probabilities, labels) + regularization
    return loss, {"clusters": clusters, "hidden": hidden, "gates": gates, "probabilities": probabilities}


def clustered(frames, size, training):
    """Scores each frame against `size` clusters and keeps the best frame's: ``[n, frames, f]`` to ``[n, size]``."""
    count, features = int(frames.shape[1]), int(frames.shape[2])
    scores = dense(tf.reshape(frames, [-1, features]), size, "clusters", bias=False)
    # slim.batch_norm gives two axes to the fused kernel as images of one pixel.
    images = tf.reshape(scores, [-1, 1, 1, size])
    normalised = batch_norm(images, "clusters/norm", momentum=0.999, training=training)
    return tf.reduce_max(tf.reshape(tf.nn.relu(normalised), [-1, count, size]), axis=1)


def mixture_of_experts(x):
    """Weighs experts per class: gates ``[n * 10, mixtures + 1]`` and probabilities ``[n, 10]``.

    The last gate belongs to an expert that always says no, so that a class can be off whatever the others say.
    """
    gates = tf.nn.softmax(tf.reshape(dense(x, CLASSES * (MIXTURES + 1), "gates", bias=False), [-1, MIXTURES + 1]))
    experts = tf.nn.sigmoid(tf.reshape(dense(x, CLASSES * MIXTURES, "experts", bias=True), [-1, MIXTURES]))
    return gates, tf.reshape(tf.reduce_sum(gates[:, :MIXTURES] * experts, axis=1), [-1, CLASSES])


def cross_entropy(probabilities, labels, epsilon=1e-5):
    """Returns the mean over the shard of the sum over the classes."""
    right = labels * tf.log(probabilities + epsilon) + (1 - labels) * tf.log(1 - probabilities + epsilon)
    return -tf.reduce_mean(tf.reduce_sum(right, axis=1))


def dense(x, units, name, bias):
    with tf.variable_scope(name):
        # A regulariser puts its term into the collection once, when the first tower makes the variable.
        kernel = tf.get_variable(
            "kernel",
            [int(x.shape[-1]), units],
            x.dtype,
            tf.glorot_uniform_initializer(dtype=x.dtype),
            regularizer=lambda weights: PENALTY * tf.nn.l2_loss(weights),
        )
        x = tf.matmul(x, kernel)
        return x + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer()) if bias else x
