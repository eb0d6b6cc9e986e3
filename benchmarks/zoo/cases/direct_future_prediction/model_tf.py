"""Direct future prediction: from a view, the measurements and a goal, how the measurements will change after each action. An
expectation and a normalised action stream are added; only the action that was taken is trained."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_ACTIONS = 5
TARGET_DIM = 12
CONV_PARAMS = [(8, 4, 2), (12, 3, 2)]
TARGET_SCALE = 10.0


def lrelu(x, leak=0.2):
    f1 = 0.5 * (1 + leak)
    f2 = 0.5 * (1 - leak)
    return f1 * x + f2 * tf.abs(x)


def msra(fan_in, dtype, coeff=0.9):
    return tf.truncated_normal_initializer(stddev=coeff * np.sqrt(2.0 / fan_in), dtype=dtype)


def conv2d(x, filters, size, stride, name):
    with tf.variable_scope(name):
        channels = x.get_shape().as_list()[-1]
        w = tf.get_variable('w', [size, size, channels, filters], x.dtype, msra(size * size * channels, x.dtype))
        b = tf.get_variable('b', [filters], x.dtype, tf.zeros_initializer())
        return tf.nn.bias_add(tf.nn.conv2d(x, w, [1, stride, stride, 1], padding='SAME'), b)


def conv_encoder(x, params, name):
    for n, (filters, size, stride) in enumerate(params):
        x = lrelu(conv2d(x, filters, size, stride, name + '_conv%d' % n))
    return x


def linear(x, size, name):
    with tf.variable_scope(name):
        width = x.get_shape().as_list()[-1]
        matrix = tf.get_variable('matrix', [width, size], x.dtype, msra(width, x.dtype))
        bias = tf.get_variable('bias', [size], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, matrix) + bias


def fc_net(x, sizes, name, last_linear=False):
    for n, size in enumerate(sizes):
        x = linear(x, size, name + '_%d' % n)
        if n < len(sizes) - 1 or not last_linear:
            x = lrelu(x)
    return x


def flatten(x):
    return tf.reshape(x, [-1, int(np.prod(x.get_shape().as_list()[1:]))])


def make_net(images, measurements, goals):
    img_conv = conv_encoder(images / 255. - 0.5, CONV_PARAMS, 'p_img')
    img_fc = fc_net(flatten(img_conv), [32], 'p_img_fc')
    meas_fc = fc_net(measurements / 100. - 0.5, [16, 16], 'p_meas_fc')
    goal_fc = fc_net(goals, [16, 16], 'p_obj_fc')
    joint = tf.concat([img_fc, meas_fc, goal_fc], 1)

    val_fc = fc_net(joint, [24, TARGET_DIM], 'p_val_fc', last_linear=True)
    adv_fc = fc_net(joint, [24, NUM_ACTIONS * TARGET_DIM], 'p_adv_fc', last_linear=True)
    adv = tf.reshape(adv_fc, [-1, NUM_ACTIONS, TARGET_DIM])
    adv = adv - tf.reduce_mean(adv, axis=1, keepdims=True)
    return adv + tf.reshape(val_fc, [-1, 1, TARGET_DIM])


def mse_ignore_missing(preds, targets, valid):
    targets = tf.where(valid > 0.5, targets, preds)
    return tf.reduce_mean(tf.square(targets - preds), axis=0)


def tower(images, measurements, goals, actions, targets, valid):
    pred_all = make_net(images, measurements, goals)
    taken = tf.one_hot(actions, NUM_ACTIONS, on_value=True, off_value=False, dtype=tf.bool)
    pred_relevant = tf.boolean_mask(pred_all, taken)
    per_target = mse_ignore_missing(pred_relevant, targets / TARGET_SCALE, valid)
    return tf.reduce_sum(per_target), {'pred_all': pred_all, 'per_target_max': tf.reduce_max(per_target)}
