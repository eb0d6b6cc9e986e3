import tensorflow.compat.v1 as tf


def average_gradients(tower_grads):
    return [
        (tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1])
        for pairs in zip(*tower_grads, strict=True)
    ]


with tf.Graph().as_default(), tf.Session() as session:
    weight = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    tower_grads = [[(tf.constant(each), weight)] for each in ([3.0, 0.0], [9.0, 16.0])]

    # the block

    assert session.run([norm, clipped[0]])[0] == 10.0
    assert variables == (weight,)
