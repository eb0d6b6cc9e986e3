"""MonitoredTrainingSession with hooks, batch norm with UPDATE_OPS of all towers, clipping by the global norm, an average."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
TOWERS = 2


class Printer(tf.train.SessionRunHook):
    def __init__(self, loss):
        self._loss = loss

    def before_run(self, run_context):
        return tf.train.SessionRunArgs({"loss": self._loss, "step": tf.train.get_global_step()})

    def after_run(self, run_context, run_values):
        print("step %d loss %.5f" % (run_values.results["step"], run_values.results["loss"]))


class Saver(tf.train.SessionRunHook):
    def end(self, session):
        if os.environ.get("SAVE"):
            values = session.run({v.op.name: v for v in tf.global_variables()})
            np.savez(os.environ["SAVE"], **{name.replace("/", "|"): value for name, value in values.items()})


def batch_norm(x, scope):
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", [4], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [4], initializer=tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", [4], initializer=tf.zeros_initializer(), trainable=False)
        moving_var = tf.get_variable("moving_variance", [4], initializer=tf.ones_initializer(), trainable=False)
        mean, var = tf.nn.moments(x, [0])
        for moving, value in ((moving_mean, mean), (moving_var, var)):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(moving, moving * 0.9 + value * 0.1))
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)


def model(x):
    w = tf.get_variable("w", [3, 4], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=5))
    v = tf.get_variable("v", [4, 1], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=6))
    return tf.matmul(tf.nn.tanh(batch_norm(tf.matmul(x, w), "bn")), v)


def next_batch():
    random = np.random.RandomState(2)
    while True:
        x = random.randn(10, 3).astype(np.float32)
        yield x, np.sum(x * x, 1, keepdims=True)


with tf.Graph().as_default():
    tf.set_random_seed(7)
    global_step = tf.train.get_or_create_global_step()
    features = tf.placeholder(tf.float32, [None, 3], "features")
    targets = tf.placeholder(tf.float32, [None, 1], "targets")
    xs, ys = tf.split(features, TOWERS), tf.split(targets, TOWERS)
    opt = tf.train.RMSPropOptimizer(0.01, decay=0.9, momentum=0.5, epsilon=1.0)
    grads, losses = [], []
    for tower in range(TOWERS):
        with tf.device(tf.DeviceSpec(device_type="GPU", device_index=tower)):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE), tf.name_scope("tower_%d" % tower):
                loss = tf.losses.mean_squared_error(ys[tower], model(xs[tower]))
                losses.append(loss)
                grads.append(opt.compute_gradients(loss))
    mean_loss = tf.add_n(losses) / TOWERS
    averaged = [(tf.add_n([g for g, _ in each]) / float(TOWERS), each[0][1]) for each in zip(*grads)]
    clipped, norm = tf.clip_by_global_norm([g for g, _ in averaged], 0.5)
    update = opt.apply_gradients(list(zip(clipped, [v for _, v in averaged])), global_step)
    average = tf.train.ExponentialMovingAverage(0.9, global_step)
    with tf.control_dependencies([update] + tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = average.apply(tf.trainable_variables())
    hooks = [tf.train.StopAtStepHook(last_step=STEPS), tf.train.NanTensorHook(mean_loss), Printer(mean_loss), Saver()]
    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    batches = next_batch()
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
        while not session.should_stop():
            x, y = next(batches)
            session.run(train_op, {features: x, targets: y})
