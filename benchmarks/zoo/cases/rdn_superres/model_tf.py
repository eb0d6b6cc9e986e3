"""Residual dense network, with its weights in dictionaries and the phase shift by hand."""
import tensorflow.compat.v1 as tf

SCALE = 2
C_DIM = 3
G0 = 12
G = 6
D = 2
C = 3
KERNEL = 3


def _w(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.random_normal_initializer(stddev=0.05))


def _b(name, n, dtype):
    return tf.get_variable(name, [n], dtype, initializer=tf.zeros_initializer())


def SFEParams(dtype):
    weightsS = {
        "w_S_1": _w("w_S_1", [KERNEL, KERNEL, C_DIM, G0], dtype),
        "w_S_2": _w("w_S_2", [KERNEL, KERNEL, G0, G0], dtype),
    }
    biasesS = {"b_S_1": _b("b_S_1", G0, dtype), "b_S_2": _b("b_S_2", G0, dtype)}
    return weightsS, biasesS


def RDBParams(dtype):
    weightsR, biasesR = {}, {}
    for i in range(1, D + 1):
        for j in range(1, C + 1):
            weightsR["w_R_%d_%d" % (i, j)] = _w("w_R_%d_%d" % (i, j), [KERNEL, KERNEL, G0 + G * (j - 1), G], dtype)
            biasesR["b_R_%d_%d" % (i, j)] = _b("b_R_%d_%d" % (i, j), G, dtype)
        weightsR["w_R_%d_%d" % (i, C + 1)] = _w("w_R_%d_%d" % (i, C + 1), [1, 1, G0 + G * C, G0], dtype)
        biasesR["b_R_%d_%d" % (i, C + 1)] = _b("b_R_%d_%d" % (i, C + 1), G0, dtype)
    return weightsR, biasesR


def DFFParams(dtype):
    weightsD = {"w_D_1": _w("w_D_1", [1, 1, G0 * D, G0], dtype), "w_D_2": _w("w_D_2", [KERNEL, KERNEL, G0, G0], dtype)}
    biasesD = {"b_D_1": _b("b_D_1", G0, dtype), "b_D_2": _b("b_D_2", G0, dtype)}
    return weightsD, biasesD


def UPNParams(dtype):
    weightsU = {
        "w_U_1": _w("w_U_1", [5, 5, G0, 8], dtype),
        "w_U_2": _w("w_U_2", [3, 3, 8, 6], dtype),
        "w_U_3": _w("w_U_3", [3, 3, 6, C_DIM * SCALE * SCALE], dtype),
    }
    biasesU = {
        "b_U_1": _b("b_U_1", 8, dtype),
        "b_U_2": _b("b_U_2", 6, dtype),
        "b_U_3": _b("b_U_3", C_DIM * SCALE * SCALE, dtype),
    }
    return weightsU, biasesU


def conv(x, w, b):
    return tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME") + b


def RDBs(input_layer, weightsR, biasesR):
    rdb_concat = []
    rdb_in = input_layer
    for i in range(1, D + 1):
        x = rdb_in
        for j in range(1, C + 1):
            tmp = tf.nn.relu(conv(x, weightsR["w_R_%d_%d" % (i, j)], biasesR["b_R_%d_%d" % (i, j)]))
            x = tf.concat([x, tmp], axis=3)
        x = conv(x, weightsR["w_R_%d_%d" % (i, C + 1)], biasesR["b_R_%d_%d" % (i, C + 1)])
        rdb_in = tf.add(x, rdb_in)
        rdb_concat.append(rdb_in)
    return tf.concat(rdb_concat, axis=3)


def _phase_shift(I, r):
    _, a, b, _ = I.get_shape().as_list()
    X = tf.reshape(I, (-1, a, b, r, r))
    X = tf.split(X, a, 1)
    X = tf.concat([tf.squeeze(x, axis=1) for x in X], 2)
    X = tf.split(X, b, 1)
    X = tf.concat([tf.squeeze(x, axis=1) for x in X], 2)
    return tf.reshape(X, (-1, a * r, b * r, 1))


def PS(X, r):
    Xc = tf.split(X, C_DIM, 3)
    return tf.concat([_phase_shift(x, r) for x in Xc], 3)


def UPN(x, weightsU, biasesU):
    x = tf.nn.relu(conv(x, weightsU["w_U_1"], biasesU["b_U_1"]))
    x = tf.nn.relu(conv(x, weightsU["w_U_2"], biasesU["b_U_2"]))
    x = conv(x, weightsU["w_U_3"], biasesU["b_U_3"])
    return PS(x, SCALE)


def tower(lr, hr):
    dtype = lr.dtype
    images = lr / 255.0
    labels = hr / 255.0
    weightsS, biasesS = SFEParams(dtype)
    weightsR, biasesR = RDBParams(dtype)
    weightsD, biasesD = DFFParams(dtype)
    weightsU, biasesU = UPNParams(dtype)
    weight_final = _w("w_f", [KERNEL, KERNEL, C_DIM, C_DIM], dtype)
    bias_final = _b("b_f", C_DIM, dtype)

    F_1 = conv(images, weightsS["w_S_1"], biasesS["b_S_1"])
    F0 = conv(F_1, weightsS["w_S_2"], biasesS["b_S_2"])
    FD = RDBs(F0, weightsR, biasesR)
    FGF1 = conv(FD, weightsD["w_D_1"], biasesD["b_D_1"])
    FGF2 = conv(FGF1, weightsD["w_D_2"], biasesD["b_D_2"])
    FDF = tf.add(FGF2, F_1)
    FU = UPN(FDF, weightsU, biasesU)
    IHR = conv(FU, weight_final, bias_final)

    loss = tf.reduce_mean(tf.abs(labels - IHR))
    return loss, {"shallow": F_1, "dense": FD, "fused": FDF, "upscaled": FU, "output": IHR}
