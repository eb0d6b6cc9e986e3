"""ResNet-50 on towers, in tf.layers, as the official models write it: bottleneck blocks, fixed padding before a stride."""
# ruff: noqa: B905, UP032  it is written as public code is, and runs on Python 3.7

import numpy as np
import tensorflow.compat.v1 as tf

TOWERS = 2
CLASSES = 10
WEIGHT_DECAY = 1e-4
BLOCKS = (3, 4, 6, 3)
WIDTHS = (4, 6, 8, 10)


def batch_norm(inputs, training):
    return tf.layers.batch_normalization(
        inputs=inputs, axis=3, momentum=0.997, epsilon=1e-5, center=True, scale=True, training=training, fused=True
    )


def fixed_padding(inputs, kernel_size):
    pad_total = kernel_size - 1
    pad_beg = pad_total // 2
    pad_end = pad_total - pad_beg
    return tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    if strides > 1:
        inputs = fixed_padding(inputs, kernel_size)
    return tf.layers.conv2d(
        inputs=inputs,
        filters=filters,
        kernel_size=kernel_size,
        strides=strides,
        padding="SAME" if strides == 1 else "VALID",
        use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer(),
    )


def bottleneck_block(inputs, filters, training, projection_shortcut, strides):
    shortcut = inputs
    if projection_shortcut is not None:
        shortcut = projection_shortcut(inputs)
        shortcut = batch_norm(shortcut, training)

    inputs = conv2d_fixed_padding(inputs, filters, 1, 1)
    inputs = batch_norm(inputs, training)
    inputs = tf.nn.relu(inputs)

    inputs = conv2d_fixed_padding(inputs, filters, 3, strides)
    inputs = batch_norm(inputs, training)
    inputs = tf.nn.relu(inputs)

    inputs = conv2d_fixed_padding(inputs, 4 * filters, 1, 1)
    inputs = batch_norm(inputs, training)
    inputs += shortcut
    return tf.nn.relu(inputs)


def block_layer(inputs, filters, blocks, strides, training, name):
    def projection_shortcut(inputs):
        return conv2d_fixed_padding(inputs, 4 * filters, 1, strides)

    inputs = bottleneck_block(inputs, filters, training, projection_shortcut, strides)
    for _ in range(1, blocks):
        inputs = bottleneck_block(inputs, filters, training, None, 1)
    return tf.identity(inputs, name)


def resnet(inputs, training):
    inputs = conv2d_fixed_padding(inputs, WIDTHS[0], 7, 2)
    inputs = tf.identity(inputs, "initial_conv")
    inputs = batch_norm(inputs, training)
    inputs = tf.nn.relu(inputs)
    inputs = tf.layers.max_pooling2d(inputs, 3, 2, "SAME")
    inputs = tf.identity(inputs, "initial_max_pool")
    for i, num_blocks in enumerate(BLOCKS):
        strides = 1 if i == 0 else 2
        inputs = block_layer(inputs, WIDTHS[i], num_blocks, strides, training, "block_layer{}".format(i + 1))
    inputs = tf.reduce_mean(inputs, [1, 2], keepdims=True)
    inputs = tf.identity(inputs, "final_reduce_mean")
    inputs = tf.squeeze(inputs, [1, 2])
    inputs = tf.layers.dense(inputs, CLASSES)
    return tf.identity(inputs, "final_dense")


def tower_loss(images, labels):
    logits = resnet(images, True)
    cross_entropy = tf.losses.sparse_softmax_cross_entropy(logits=logits, labels=labels)
    decayed = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name]
    return cross_entropy + WEIGHT_DECAY * tf.add_n(decayed)


def average_gradients(tower_grads):
    average = []
    for grad_and_vars in zip(*tower_grads):
        grads = tf.stack([g for g, _ in grad_and_vars])
        average.append((tf.reduce_mean(grads, 0), grad_and_vars[0][1]))
    return average


def main():
    images = tf.placeholder(tf.float32, [4, 40, 40, 3], "images")
    labels = tf.placeholder(tf.int32, [4], "labels")
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.piecewise_constant(global_step, [10, 20], [0.1, 0.01, 0.001])
    optimizer = tf.train.MomentumOptimizer(learning_rate, 0.9)
    tower_grads = []
    for i, (x, y) in enumerate(zip(tf.split(images, TOWERS), tf.split(labels, TOWERS))):
        with tf.device("/gpu:{}".format(i)), tf.name_scope("tower_{}".format(i)) as scope:
            with tf.variable_scope("resnet_model", reuse=i > 0):
                loss = tower_loss(x, y)
            if i == 0:
                updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope)
            tower_grads.append(optimizer.compute_gradients(loss))
    with tf.control_dependencies(updates):
        train_op = optimizer.apply_gradients(average_gradients(tower_grads), global_step)
    random = np.random.RandomState(2)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train_op, {images: random.randn(4, 40, 40, 3), labels: random.randint(CLASSES, size=4)})


if __name__ == "__main__":
    main()
