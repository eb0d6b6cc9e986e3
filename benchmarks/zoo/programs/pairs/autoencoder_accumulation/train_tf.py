"""Denoising autoencoder on several towers that share an iterator: Nesterov momentum, linearly decayed rate."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()

CODE = 10


def weight(name, shape, fan_in):
    init = tf.random_normal_initializer(stddev=float(np.sqrt(2.0 / fan_in)))
    return tf.get_variable(name, shape, dtype=tf.float32, initializer=init)


def conv(x, channels, name):
    with tf.variable_scope(name):
        cin = x.shape[-1].value if hasattr(x.shape[-1], "value") else x.shape[-1]
        w = weight("w", [4, 4, cin, channels], 16 * cin)
        b = tf.get_variable("b", [channels], dtype=tf.float32, initializer=tf.zeros_initializer())
        return tf.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding="SAME") + b


def deconv(x, output_shape, name):
    with tf.variable_scope(name):
        cin = x.get_shape().as_list()[-1]
        w = weight("w", [4, 4, output_shape[-1], cin], 4 * cin)
        b = tf.get_variable("b", [output_shape[-1]], dtype=tf.float32, initializer=tf.zeros_initializer())
        return tf.nn.conv2d_transpose(x, w, output_shape, strides=[1, 2, 2, 1], padding="SAME") + b


def linear(x, units, name):
    with tf.variable_scope(name):
        cin = x.get_shape().as_list()[-1]
        w = weight("Matrix", [cin, units], cin)
        b = tf.get_variable("bias", [units], dtype=tf.float32, initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def lrelu(x):
    return tf.maximum(x, 0.2 * x)


def autoencoder(x, batch_size):
    with tf.variable_scope("encoder"):
        h = lrelu(conv(x, 6, "h0"))
        h = lrelu(conv(h, 8, "h1"))
        code = linear(tf.reshape(h, [batch_size, 4 * 4 * 8]), CODE, "code")
    with tf.variable_scope("decoder"):
        h = tf.nn.relu(linear(tf.tanh(code), 4 * 4 * 8, "project"))
        h = tf.reshape(h, [batch_size, 4, 4, 8])
        h = tf.nn.relu(deconv(h, [batch_size, 8, 8, 6], "h0"))
        return tf.nn.sigmoid(deconv(h, [batch_size, 16, 16, 1], "h1"))


def average_gradients(tower_grads):
    averaged = []
    for pairs in zip(*tower_grads):
        averaged.append((tf.add_n([grad for grad, _ in pairs]) / float(len(pairs)), pairs[0][1]))
    return averaged


def make_iterator(batch_size):
    rng = np.random.RandomState(33)
    size = 192
    rows = np.arange(16)
    phase = rng.uniform(0, 6.28, size=(size, 2, 1))
    waves = np.sin(rows * rng.uniform(0.2, 1.0, size=(size, 2, 1)) + phase)
    clean = (0.5 + 0.5 * waves[:, 0, :, None] * waves[:, 1, None, :])[..., None].astype(np.float32)
    noisy = (clean + 0.2 * rng.randn(*clean.shape)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices({"noisy": noisy, "clean": clean})
    dataset = dataset.shuffle(64, seed=4).repeat().batch(batch_size, drop_remainder=True)
    return tf.data.make_one_shot_iterator(dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_towers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=8, help="of one tower")
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()

    tf.set_random_seed(9)
    global_step = tf.train.get_or_create_global_step()
    rate = tf.train.polynomial_decay(0.5, global_step, 10, end_learning_rate=0.05, power=1.0)
    optimizer = tf.train.MomentumOptimizer(rate, momentum=0.8, use_nesterov=True)
    iterator = make_iterator(args.batch_size)
    tower_losses, tower_grads = [], []
    for i in range(args.num_towers):
        with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
            with tf.variable_scope("autoencoder", reuse=tf.AUTO_REUSE):
                batch = iterator.get_next()
                output = autoencoder(batch["noisy"], args.batch_size)
                loss = tf.reduce_mean(tf.square(output - batch["clean"]))
            tower_losses.append(loss)
            tower_grads.append(optimizer.compute_gradients(loss, tf.trainable_variables()))
    train_op = optimizer.apply_gradients(average_gradients(tower_grads), global_step)
    loss_op = tf.reduce_mean(tower_losses)

    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(args.steps):
            _, value = sess.run([train_op, loss_op])
            print("[%2d/%d] loss: %.6f" % (step, args.steps, value))


if __name__ == "__main__":
    main()
