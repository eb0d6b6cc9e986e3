"""Spatio-temporal graph convolution for traffic forecasting, after the kind of TensorFlow 1 code that the STGCN paper came with: gated
temporal convolutions around a Chebyshev graph convolution, layer norm over vertices and channels, an l2 loss that is a sum."""
import numpy as np
import tensorflow.compat.v1 as tf

N_HIS = 12
N_ROUTE = 11
KS = 3
KT = 3
BLOCKS = [[1, 6, 10], [10, 5, 14]]


def weight_matrix(n, sigma2=0.6, epsilon=0.2):
    position = np.cumsum(0.3 + 0.25 * np.cos(np.arange(n) * 1.7))
    squared = (position[:, None] - position[None, :]) ** 2
    w = np.exp(-squared / sigma2)
    return w * (w >= epsilon) * (1 - np.eye(n))


def scaled_laplacian(w):
    d = np.sum(w, axis=1)
    lap = np.diag(d) - w
    lap = lap / np.sqrt(d[:, None] * d[None, :])
    return 2 * lap / np.linalg.eigvalsh(lap).max() - np.eye(len(w))


def cheb_poly_approx(lap, ks):
    terms = [np.eye(len(lap)), lap.copy()]
    while len(terms) < ks:
        terms.append(2 * lap @ terms[-1] - terms[-2])
    return np.concatenate(terms[:ks], axis=-1)  # [n, ks * n]


def gconv(x, theta, kernel, ks, c_in, c_out):
    n = N_ROUTE
    x_tmp = tf.reshape(tf.transpose(x, [0, 2, 1]), [-1, n])
    x_mul = tf.reshape(tf.matmul(x_tmp, kernel), [-1, c_in, ks, n])
    x_ker = tf.reshape(tf.transpose(x_mul, [0, 3, 1, 2]), [-1, c_in * ks])
    return tf.reshape(tf.matmul(x_ker, theta), [-1, n, c_out])


def layer_norm(x, scope):
    _, _, n, c = x.shape.as_list()
    mu, sigma = tf.nn.moments(x, axes=[2, 3], keep_dims=True)
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", [1, 1, n, c], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [1, 1, n, c], x.dtype, initializer=tf.zeros_initializer())
        return (x - mu) / tf.sqrt(sigma + 1e-6) * gamma + beta


def align(x, c_in, c_out, name):
    if c_in > c_out:
        w_input = tf.get_variable(name, [1, 1, c_in, c_out], x.dtype, initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
        return tf.nn.conv2d(x, w_input, strides=[1, 1, 1, 1], padding="SAME")
    if c_in < c_out:
        steps, n = x.shape.as_list()[1:3]
        return tf.concat([x, tf.zeros([tf.shape(x)[0], steps, n, c_out - c_in], x.dtype)], axis=3)
    return x


def temporal_conv_layer(x, kt, c_in, c_out, act_func="relu"):
    steps = x.shape.as_list()[1]
    x_input = align(x, c_in, c_out, "wt_input")[:, kt - 1:steps, :, :]
    width = 2 * c_out if act_func == "GLU" else c_out
    wt = tf.get_variable("wt", [kt, 1, c_in, width], x.dtype, initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
    bt = tf.get_variable("bt", [width], x.dtype, initializer=tf.zeros_initializer())
    x_conv = tf.nn.conv2d(x, wt, strides=[1, 1, 1, 1], padding="VALID") + bt
    if act_func == "GLU":
        return (x_conv[:, :, :, 0:c_out] + x_input) * tf.nn.sigmoid(x_conv[:, :, :, -c_out:])
    if act_func == "sigmoid":
        return tf.nn.sigmoid(x_conv)
    return tf.nn.relu(x_conv + x_input)


def spatio_conv_layer(x, kernel, ks, c_in, c_out):
    steps = x.shape.as_list()[1]
    x_input = align(x, c_in, c_out, "ws_input")
    ws = tf.get_variable("ws", [ks * c_in, c_out], x.dtype, initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
    bs = tf.get_variable("bs", [c_out], x.dtype, initializer=tf.zeros_initializer())
    x_gconv = gconv(tf.reshape(x, [-1, N_ROUTE, c_in]), ws, kernel, ks, c_in, c_out) + bs
    x_gc = tf.reshape(x_gconv, [-1, steps, N_ROUTE, c_out])
    return tf.nn.relu(x_gc + x_input)


def st_conv_block(x, kernel, channels, scope):
    c_si, c_t, c_oo = channels
    with tf.variable_scope("stn_block_%s_in" % scope):
        x_s = temporal_conv_layer(x, KT, c_si, c_t, act_func="GLU")
        x_t = spatio_conv_layer(x_s, kernel, KS, c_t, c_t)
    with tf.variable_scope("stn_block_%s_out" % scope):
        x_o = temporal_conv_layer(x_t, KT, c_t, c_oo)
    return layer_norm(x_o, "layer_norm_%s" % scope)


def output_layer(x, steps, scope):
    n, channel = x.shape.as_list()[2:]
    with tf.variable_scope("%s_in" % scope):
        x_i = temporal_conv_layer(x, steps, channel, channel, act_func="GLU")
    x_ln = layer_norm(x_i, "layer_norm_%s" % scope)
    with tf.variable_scope("%s_out" % scope):
        x_o = temporal_conv_layer(x_ln, 1, channel, channel, act_func="sigmoid")
    w = tf.get_variable("%s_fc_w" % scope, [1, 1, channel, 1], x.dtype, initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
    b = tf.get_variable("%s_fc_b" % scope, [n, 1], x.dtype, initializer=tf.zeros_initializer())
    return tf.nn.conv2d(x_o, w, strides=[1, 1, 1, 1], padding="SAME") + b


def tower(x):
    kernel = tf.constant(cheb_poly_approx(scaled_laplacian(weight_matrix(N_ROUTE)), KS), dtype=x.dtype)
    end_points = {}
    net = x[:, 0:N_HIS, :, :]
    steps = N_HIS
    for i, channels in enumerate(BLOCKS):
        net = st_conv_block(net, kernel, channels, i)
        steps -= 2 * (KT - 1)
        end_points["block_%d" % i] = net
    y = output_layer(net, steps, "output_layer")
    target = x[:, N_HIS:N_HIS + 1, :, :]
    train_loss = tf.nn.l2_loss(y - target)
    end_points["prediction"] = y[:, 0, :, 0]
    end_points["copy_loss"] = tf.nn.l2_loss(x[:, N_HIS - 1:N_HIS, :, :] - target)
    return train_loss, end_points
