"""The same towers as a script of its time: python train_tf.py dense|sparse [clip]."""

import sys

import tensorflow.compat.v1 as tf
from data import batches
from model_tf import tower

TOWERS, STEPS, BATCH = 2, 2, 12


def combined(tower_grads, rows):
    """Averages the gradients of the towers, keeping the rows of an embedding apart if asked to."""
    average = []
    for pairs in zip(*tower_grads):  # noqa: B905  TensorFlow 1 has no Python with strict
        grads, var = [grad for grad, _ in pairs], pairs[0][1]
        if rows and isinstance(grads[0], tf.IndexedSlices):
            values = tf.concat([grad.values for grad in grads], 0) / TOWERS
            grad = tf.IndexedSlices(values, tf.concat([grad.indices for grad in grads], 0), grads[0].dense_shape)
        else:
            grad = tf.reduce_mean(tf.stack([tf.convert_to_tensor(grad) for grad in grads]), 0)
        average.append((grad, var))
    return average


def main():
    """Trains for a few steps."""
    tf.disable_v2_behavior()
    words = tf.placeholder(tf.int32, [BATCH, 2], "words")
    targets = tf.placeholder(tf.float32, [BATCH, 3], "targets")
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    shards = list(zip(tf.split(words, TOWERS), tf.split(targets, TOWERS)))  # noqa: B905
    tower_grads = []
    for number, shard in enumerate(shards):
        with tf.device(f"/gpu:{number}"), tf.variable_scope(tf.get_variable_scope(), reuse=number > 0):
            tower_grads.append(optimizer.compute_gradients(tower(*shard)))
    grads = combined(tower_grads, sys.argv[1] == "sparse")
    if sys.argv[2:] == ["clip"]:
        grads = [(tf.clip_by_norm(grad, 0.05), var) for grad, var in grads]
    train = optimizer.apply_gradients(grads)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for batch in batches(STEPS, BATCH, 0):
            session.run(train, {words: batch["words"], targets: batch["targets"]})


if __name__ == "__main__":
    main()
