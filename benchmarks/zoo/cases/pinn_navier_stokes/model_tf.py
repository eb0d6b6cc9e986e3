"""A physics-informed network: stream function and pressure of a plane flow, with two unknown coefficients of the Navier-Stokes
equations that are found from measured velocities."""
import tensorflow.compat.v1 as tf

LAYERS = [3, 15, 15, 15, 2]
LB = [1.0, -2.0, 0.0]
UB = [8.0, 2.0, 20.0]


def initialize_nn(layers, dtype):
    weights, biases = [], []
    for l in range(len(layers) - 1):
        weights.append(tf.get_variable("W_%d" % l, [layers[l], layers[l + 1]], dtype, initializer=tf.glorot_normal_initializer()))
        if l < len(layers) - 2:
            biases.append(tf.get_variable("b_%d" % l, [1, layers[l + 1]], dtype, initializer=tf.zeros_initializer()))
    return weights, biases


def neural_net(X, weights, biases):
    lb, ub = tf.constant(LB, X.dtype), tf.constant(UB, X.dtype)
    H = 2.0 * (X - lb) / (ub - lb) - 1.0
    for W, b in zip(weights[:-1], biases):
        H = tf.tanh(tf.add(tf.matmul(H, W), b))
    # neither potential nor pressure has an origin
    return tf.matmul(H, weights[-1])


def net_ns(x, y, t, weights, biases, lambda_1, lambda_2):
    psi_and_p = neural_net(tf.concat([x, y, t], 1), weights, biases)
    psi = psi_and_p[:, 0:1]
    p = psi_and_p[:, 1:2]

    u = tf.gradients(psi, y)[0]
    v = -tf.gradients(psi, x)[0]

    u_t = tf.gradients(u, t)[0]
    u_x = tf.gradients(u, x)[0]
    u_y = tf.gradients(u, y)[0]
    u_xx = tf.gradients(u_x, x)[0]
    u_yy = tf.gradients(u_y, y)[0]

    v_t = tf.gradients(v, t)[0]
    v_x = tf.gradients(v, x)[0]
    v_y = tf.gradients(v, y)[0]
    v_xx = tf.gradients(v_x, x)[0]
    v_yy = tf.gradients(v_y, y)[0]

    p_x = tf.gradients(p, x)[0]
    p_y = tf.gradients(p, y)[0]

    f_u = u_t + lambda_1 * (u * u_x + v * u_y) + p_x - lambda_2 * (u_xx + u_yy)
    f_v = v_t + lambda_1 * (u * v_x + v * v_y) + p_y - lambda_2 * (v_xx + v_yy)
    return u, v, p, f_u, f_v


def tower(x, y, t, u, v):
    dtype = x.dtype
    with tf.variable_scope("pinn"):
        lambda_1 = tf.get_variable("lambda_1", [1], dtype, initializer=tf.ones_initializer())
        lambda_2 = tf.get_variable("lambda_2", [1], dtype, initializer=tf.constant_initializer(0.125))
        weights, biases = initialize_nn(LAYERS, dtype)
    u_pred, v_pred, p_pred, f_u_pred, f_v_pred = net_ns(x, y, t, weights, biases, lambda_1, lambda_2)
    loss = (tf.reduce_sum(tf.square(u - u_pred)) + tf.reduce_sum(tf.square(v - v_pred))
            + tf.reduce_sum(tf.square(f_u_pred)) + tf.reduce_sum(tf.square(f_v_pred)))
    error_u = tf.norm(u - u_pred) / tf.norm(u)
    return loss, {"u": u_pred, "v": v_pred, "p": p_pred, "f_u": f_u_pred, "f_v": f_v_pred, "error_u": error_u}
