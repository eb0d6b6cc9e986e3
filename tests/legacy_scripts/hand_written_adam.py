"""tf.gradients and an Adam that the script writes itself with assignments, as research code does."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
GPUS = 2


def adam_updates(params, grads, lr=0.02, mom1=0.9, mom2=0.999):
    updates = []
    t = tf.Variable(1.0, trainable=False, name="adam_t")
    for p, g in zip(params, grads):
        v = tf.Variable(tf.zeros(p.get_shape()), trainable=False, name=p.op.name + "_adam_m")
        mg = tf.Variable(tf.zeros(p.get_shape()), trainable=False, name=p.op.name + "_adam_v")
        v_t = mom1 * v + (1.0 - mom1) * g
        mg_t = mom2 * mg + (1.0 - mom2) * tf.square(g)
        v_hat = v_t / (1.0 - tf.pow(mom1, t))
        mg_hat = mg_t / (1.0 - tf.pow(mom2, t))
        p_t = p - lr * v_hat / (tf.sqrt(mg_hat) + 1e-8)
        updates += [v.assign(v_t), mg.assign(mg_t), p.assign(p_t)]
    updates.append(t.assign_add(1))
    return tf.group(*updates)


def model(x):
    w1 = tf.get_variable("w1", [4, 6], initializer=tf.random_normal_initializer(stddev=0.4, seed=1))
    b1 = tf.get_variable("b1", [6], initializer=tf.constant_initializer(0.1))
    w2 = tf.get_variable("w2", [6, 2], initializer=tf.random_normal_initializer(stddev=0.4, seed=2))
    return tf.matmul(tf.nn.elu(tf.matmul(x, w1) + b1), w2)


xs = [tf.placeholder(tf.float32, [5, 4], "x_%d" % i) for i in range(GPUS)]
ys = [tf.placeholder(tf.float32, [5, 2], "y_%d" % i) for i in range(GPUS)]
grads, losses = [], []
for i in range(GPUS):
    with tf.device("/gpu:%d" % i):
        with tf.variable_scope("model", reuse=i > 0):
            losses.append(tf.reduce_mean(tf.abs(model(xs[i]) - ys[i]) * 0.7))
        all_params = tf.trainable_variables()
        grads.append(tf.gradients(losses[i], all_params, gate_gradients=True))
with tf.device("/gpu:0"):
    for i in range(1, GPUS):
        losses[0] += losses[i]
        for j in range(len(grads[0])):
            grads[0][j] += grads[i][j]
    for j in range(len(grads[0])):
        grads[0][j] /= GPUS
    optimizer = adam_updates(all_params, grads[0])
random = np.random.RandomState(6)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        feed = {place: random.randn(*place.shape.as_list()) for place in xs + ys}
        total, _ = sess.run([losses[0], optimizer], feed)
        print("loss %.5f" % (total / GPUS))
