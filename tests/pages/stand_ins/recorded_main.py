import tensorflow.compat.v1 as tf

import tf_towers
from parity.trace import Trace


def main():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 2], "x")
        losses = []
        for tower in range(2):
            with tf.variable_scope("net", reuse=tower > 0), tf.device(f"/cpu:{tower}"):
                w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
                losses.append(tf.reduce_mean(tf.square(tf.matmul(tf.split(x, 2)[tower], w))))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        towers = [optimizer.compute_gradients(loss) for loss in losses]
        means = [(tf.add_n([g for g, _ in pairs]) / 2, pairs[0][1]) for pairs in zip(*towers, strict=True)]
        train = optimizer.apply_gradients(means)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(train, {x: [[1, 2], [3, 4], [5, 6], [7, 8]]})


# the block

assert Trace("trace_tf").step_numbers == [0, 1]
