"""PPO with a bonus from random network distillation: a convolutional policy with one value head for intrinsic and one for extrinsic
returns, a random target network that is never trained, and a predictor of its features."""
import numpy as np
import tensorflow.compat.v1 as tf

ACTIONS = 6
ENT_COEF = 0.01
VF_COEF = 1.0
CLIPRANGE = 0.1


def ortho_init(scale=1.0):
    def _ortho_init(shape, dtype, partition_info=None):
        flat_shape = (int(np.prod(shape[:-1])), shape[-1])
        u, _, v = np.linalg.svd(np.random.RandomState(7).normal(0.0, 1.0, flat_shape), full_matrices=False)
        q = u if u.shape == flat_shape else v
        return tf.constant(scale * q.reshape(shape), dtype)

    return _ortho_init


def conv(x, scope, *, nf, rf, stride, init_scale=1.0, trainable=True):
    with tf.variable_scope(scope):
        nin = x.get_shape()[3].value if hasattr(x.get_shape()[3], "value") else int(x.get_shape()[3])
        w = tf.get_variable("w", [rf, rf, nin, nf], x.dtype, initializer=ortho_init(init_scale), trainable=trainable)
        b = tf.get_variable("b", [1, 1, 1, nf], x.dtype, initializer=tf.constant_initializer(0.0), trainable=trainable)
        return b + tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding="VALID")


def fc(x, scope, nh, *, init_scale=1.0, trainable=True):
    with tf.variable_scope(scope):
        nin = int(x.get_shape()[1])
        w = tf.get_variable("w", [nin, nh], x.dtype, initializer=ortho_init(init_scale), trainable=trainable)
        b = tf.get_variable("b", [nh], x.dtype, initializer=tf.constant_initializer(0.0), trainable=trainable)
        return tf.matmul(x, w) + b


def to2d(x):
    size = int(np.prod([int(d) for d in x.get_shape()[1:]]))
    return tf.reshape(x, (-1, size))


def apply_policy(ob):
    activ = tf.nn.relu
    x = ob / 255.0
    x = activ(conv(x, "c1", nf=8, rf=4, stride=2, init_scale=np.sqrt(2)))
    x = activ(conv(x, "c2", nf=12, rf=3, stride=2, init_scale=np.sqrt(2)))
    x = activ(conv(x, "c3", nf=12, rf=2, stride=1, init_scale=np.sqrt(2)))
    x = to2d(x)
    x = activ(fc(x, "fc1", nh=32, init_scale=np.sqrt(2)))
    x = activ(fc(x, "fc_additional", nh=28, init_scale=np.sqrt(2)))
    xtout = x + activ(fc(x, "fc2val", nh=28, init_scale=0.1))
    x = x + activ(fc(x, "fc2act", nh=28, init_scale=0.1))
    pdparam = fc(x, "pd", nh=ACTIONS, init_scale=0.01)
    vpred_int = fc(xtout, "vf_int", nh=1, init_scale=0.01)
    vpred_ext = fc(xtout, "vf_ext", nh=1, init_scale=0.01)
    return pdparam, vpred_int[:, 0], vpred_ext[:, 0]


def random_target(next_ob):
    xr = tf.clip_by_value(next_ob, -5.0, 5.0)
    xr = tf.nn.leaky_relu(conv(xr, "c1r", nf=6, rf=4, stride=2, init_scale=np.sqrt(2), trainable=False))
    xr = tf.nn.leaky_relu(conv(xr, "c2r", nf=8, rf=3, stride=2, init_scale=np.sqrt(2), trainable=False))
    xr = tf.nn.leaky_relu(conv(xr, "c3r", nf=8, rf=2, stride=1, init_scale=np.sqrt(2), trainable=False))
    return fc(to2d(xr), "fc1r", nh=20, init_scale=np.sqrt(2), trainable=False)


def predictor(next_ob):
    xrp = tf.clip_by_value(next_ob, -5.0, 5.0)
    xrp = tf.nn.leaky_relu(conv(xrp, "c1rp_pred", nf=6, rf=4, stride=2, init_scale=np.sqrt(2)))
    xrp = tf.nn.leaky_relu(conv(xrp, "c2rp_pred", nf=8, rf=3, stride=2, init_scale=np.sqrt(2)))
    xrp = tf.nn.leaky_relu(conv(xrp, "c3rp_pred", nf=8, rf=2, stride=1, init_scale=np.sqrt(2)))
    x_r_hat = tf.nn.relu(fc(to2d(xrp), "fc1r_hat1_pred", nh=24, init_scale=np.sqrt(2)))
    x_r_hat = tf.nn.relu(fc(x_r_hat, "fc1r_hat2_pred", nh=24, init_scale=np.sqrt(2)))
    return fc(x_r_hat, "fc1r_hat3_pred", nh=20, init_scale=np.sqrt(2))


def tower(ob, next_ob, ac, adv, ret_int, ret_ext, nlp, update_mask):
    with tf.variable_scope("ppo"):
        pdparam, vpred_int, vpred_ext = apply_policy(ob)
        targets = tf.stop_gradient(random_target(next_ob))
        predicted = predictor(next_ob)
    neglogpac = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=pdparam, labels=ac)
    a0 = pdparam - tf.reduce_max(pdparam, axis=-1, keepdims=True)
    z0 = tf.reduce_sum(tf.exp(a0), axis=-1, keepdims=True)
    entropy = tf.reduce_mean(tf.reduce_sum(tf.exp(a0) / z0 * (tf.log(z0) - a0), axis=-1))
    vf_loss_int = (0.5 * VF_COEF) * tf.reduce_mean(tf.square(vpred_int - ret_int))
    vf_loss_ext = (0.5 * VF_COEF) * tf.reduce_mean(tf.square(vpred_ext - ret_ext))
    vf_loss = vf_loss_int + vf_loss_ext
    ratio = tf.exp(nlp - neglogpac)
    pg_losses1 = -adv * ratio
    pg_losses2 = -adv * tf.clip_by_value(ratio, 1.0 - CLIPRANGE, 1.0 + CLIPRANGE)
    pg_loss = tf.reduce_mean(tf.maximum(pg_losses1, pg_losses2))
    int_rew = tf.reduce_mean(tf.square(targets - predicted), axis=-1)
    aux_loss = tf.reduce_sum(update_mask * int_rew) / tf.maximum(tf.reduce_sum(update_mask), 1.0)
    loss = pg_loss - ENT_COEF * entropy + vf_loss + aux_loss
    return loss, {"pdparam": pdparam, "int_rew": int_rew, "pg_loss": pg_loss, "vf_loss": vf_loss, "entropy": entropy,
                  "aux_loss": aux_loss}
