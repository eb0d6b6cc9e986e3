"""Bootstrap your own latent: an online network predicts what its slow copy makes of the other view."""
import tensorflow.compat.v1 as tf

BN_MOMENTUM = 0.9
BN_EPSILON = 1e-5
TARGET_TAU = 0.97
WEIGHT_DECAY = 1e-3


def batch_norm(inputs, is_training, trainable, name):
    axes = list(range(inputs.shape.ndims - 1))
    depth = inputs.shape.as_list()[-1]
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [depth], inputs.dtype, tf.ones_initializer(), trainable=trainable)
        beta = tf.get_variable("beta", [depth], inputs.dtype, tf.zeros_initializer(), trainable=trainable)
        moving_mean = tf.get_variable("moving_mean", [depth], inputs.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", [depth], inputs.dtype, tf.ones_initializer(),
                                          trainable=False)
        if is_training:
            mean, variance = tf.nn.moments(inputs, axes)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(
                moving_mean, BN_MOMENTUM * moving_mean + (1 - BN_MOMENTUM) * mean))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(
                moving_variance, BN_MOMENTUM * moving_variance + (1 - BN_MOMENTUM) * variance))
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, BN_EPSILON)


def encoder(images, is_training, trainable):
    init = tf.variance_scaling_initializer(2.0)
    net = tf.layers.conv2d(images, 8, 3, padding="same", use_bias=False, kernel_initializer=init,
                           trainable=trainable, name="conv0")
    net = tf.nn.relu(batch_norm(net, is_training, trainable, "bn0"))
    net = tf.layers.conv2d(net, 16, 3, strides=2, padding="same", use_bias=False, kernel_initializer=init,
                           trainable=trainable, name="conv1")
    net = tf.nn.relu(batch_norm(net, is_training, trainable, "bn1"))
    return tf.reduce_mean(net, [1, 2])


def mlp(inputs, hidden, outputs, is_training, trainable, name):
    with tf.variable_scope(name):
        net = tf.layers.dense(inputs, hidden, trainable=trainable, name="hidden")
        net = tf.nn.relu(batch_norm(net, is_training, trainable, "bn"))
        return tf.layers.dense(net, outputs, use_bias=False, trainable=trainable, name="out")


def network(images, is_training, trainable):
    features = encoder(images, is_training, trainable)
    return features, mlp(features, 32, 12, is_training, trainable, "projector")


def regression_loss(prediction, target):
    prediction = tf.nn.l2_normalize(prediction, -1)
    target = tf.nn.l2_normalize(target, -1)
    return tf.reduce_sum(tf.squared_difference(prediction, target), -1)


def move_target(loss):
    """The copy follows the online weights, once the loss has been made with it."""
    variables = dict((v.op.name, v) for v in tf.global_variables())
    with tf.control_dependencies([loss]):
        for name, slow in sorted(variables.items()):
            if "target/" in name and "moving_" not in name:
                fast = variables[name.replace("target/", "online/")]
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                     tf.assign(slow, TARGET_TAU * slow + (1.0 - TARGET_TAU) * fast))


def tower(view1, view2, training=True):
    images = tf.concat([view1, view2], 0)
    with tf.variable_scope("online"):
        features, projection = network(images, training, True)
    with tf.variable_scope("online_head"):
        prediction = mlp(projection, 32, 12, training, True, "predictor")
    with tf.variable_scope("target"):
        _, target = network(images, training, False)
    target = tf.stop_gradient(target)
    prediction1, prediction2 = tf.split(prediction, 2, 0)
    target1, target2 = tf.split(target, 2, 0)
    byol = tf.reduce_mean(regression_loss(prediction1, target2) + regression_loss(prediction2, target1))
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
    loss = byol + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    if training:
        move_target(loss)
    return loss, {"features": features, "projection": projection, "prediction": prediction, "target": target,
                  "byol": byol}
