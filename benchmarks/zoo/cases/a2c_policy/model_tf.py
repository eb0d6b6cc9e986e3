"""Advantage actor-critic on pictures, after the fashion of OpenAI's baselines."""
import numpy as np
import tensorflow.compat.v1 as tf

NACT, ENT_COEF, VF_COEF = 5, 0.05, 0.5


def ortho_init(scale=1.0):
    def _ortho_init(shape, dtype, partition_info=None):
        flat_shape = (int(np.prod(shape[:-1])), shape[-1])
        a = np.random.RandomState(int(np.prod(shape))).normal(0.0, 1.0, flat_shape)
        u, _, v = np.linalg.svd(a, full_matrices=False)
        q = u if u.shape == flat_shape else v
        return tf.constant(scale * q.reshape(shape), dtype)
    return _ortho_init


def conv(x, scope, *, nf, rf, stride, init_scale=1.0):
    with tf.variable_scope(scope):
        w = tf.get_variable("w", [rf, rf, int(x.get_shape()[3]), nf], x.dtype, initializer=ortho_init(init_scale))
        b = tf.get_variable("b", [nf], x.dtype, initializer=tf.constant_initializer(0.0))
        return tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding='VALID') + tf.reshape(b, [1, 1, 1, nf])


def fc(x, scope, nh, *, init_scale=1.0):
    with tf.variable_scope(scope):
        w = tf.get_variable("w", [int(x.get_shape()[1]), nh], x.dtype, initializer=ortho_init(init_scale))
        b = tf.get_variable("b", [nh], x.dtype, initializer=tf.constant_initializer(0.0))
        return tf.matmul(x, w) + b


def conv_to_fc(x):
    nh = int(np.prod([int(v) for v in x.get_shape()[1:]]))
    return tf.reshape(x, [-1, nh])


def cat_entropy(logits):
    a0 = logits - tf.reduce_max(logits, 1, keepdims=True)
    ea0 = tf.exp(a0)
    z0 = tf.reduce_sum(ea0, 1, keepdims=True)
    p0 = ea0 / z0
    return tf.reduce_sum(p0 * (tf.log(z0) - a0), 1)


def tower(obs, actions, returns):
    with tf.variable_scope("model"):
        h = tf.nn.relu(conv(obs / 255., 'c1', nf=8, rf=3, stride=1, init_scale=np.sqrt(2)))
        h = tf.nn.relu(conv(h, 'c2', nf=12, rf=4, stride=2, init_scale=np.sqrt(2)))
        latent = tf.nn.relu(fc(conv_to_fc(h), 'fc1', nh=32, init_scale=np.sqrt(2)))
        pi = fc(latent, 'pi', NACT, init_scale=0.01)
        vf = fc(latent, 'v', 1)[:, 0]
    adv = returns - tf.stop_gradient(vf)
    neglogpac = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=pi, labels=actions)
    pg_loss = tf.reduce_mean(adv * neglogpac)
    entropy = tf.reduce_mean(cat_entropy(pi))
    vf_loss = tf.reduce_mean(tf.square(vf - returns) / 2.)
    loss = pg_loss - entropy * ENT_COEF + vf_loss * VF_COEF
    return loss, {"conv": h, "latent": latent, "pi": pi, "vf": vf, "pg_loss": pg_loss, "entropy": entropy,
                  "vf_loss": vf_loss}
