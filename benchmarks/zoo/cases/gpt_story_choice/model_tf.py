"""Transformer language model that is fine-tuned to choose a story's ending, with language modelling as second loss: the decoder of
"Improving language understanding by generative pre-training", after OpenAI's script of raw variables, and its Adam."""
import math

import numpy as np
import tensorflow.compat.v1 as tf

n_vocab, n_special, n_ctx = 30, 3, 12
n_embd, n_head, n_layer = 16, 2, 2
clf_token = 32
lm_coef = 0.5


def shape_list(x):
    ps = x.get_shape().as_list()
    ts = tf.shape(x)
    return [ts[i] if ps[i] is None else ps[i] for i in range(len(ps))]


def gelu(x):
    return 0.5 * x * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def norm(x, scope, e=1e-5):
    with tf.variable_scope(scope):
        n_state = shape_list(x)[-1]
        g = tf.get_variable("g", [n_state], x.dtype, initializer=tf.constant_initializer(1))
        b = tf.get_variable("b", [n_state], x.dtype, initializer=tf.constant_initializer(0))
        u = tf.reduce_mean(x, axis=[-1], keepdims=True)
        s = tf.reduce_mean(tf.square(x - u), axis=[-1], keepdims=True)
        return (x - u) * tf.rsqrt(s + e) * g + b


def mask_attn_weights(w):
    n = shape_list(w)[-1]
    b = tf.reshape(tf.matrix_band_part(tf.ones([n, n], w.dtype), -1, 0), [1, 1, n, n])
    return w * b + -1e9 * (1 - b)


def split_heads(x, k=False):
    x = tf.reshape(x, shape_list(x)[:-1] + [n_head, shape_list(x)[-1] // n_head])
    return tf.transpose(x, [0, 2, 3, 1] if k else [0, 2, 1, 3])


def merge_heads(x):
    x = tf.transpose(x, [0, 2, 1, 3])
    return tf.reshape(x, shape_list(x)[:-2] + [int(np.prod(shape_list(x)[-2:]))])


def conv1d(x, scope, nf):
    with tf.variable_scope(scope):
        nx = shape_list(x)[-1]
        w = tf.get_variable("w", [1, nx, nf], x.dtype, initializer=tf.random_normal_initializer(stddev=0.1))
        b = tf.get_variable("b", [nf], x.dtype, initializer=tf.constant_initializer(0))
        return tf.reshape(tf.matmul(tf.reshape(x, [-1, nx]), tf.reshape(w, [-1, nf])) + b, shape_list(x)[:-1] + [nf])


def attn(x, scope, n_state):
    with tf.variable_scope(scope):
        q, k, v = tf.split(conv1d(x, "c_attn", n_state * 3), 3, 2)
        q, k, v = split_heads(q), split_heads(k, k=True), split_heads(v)
        w = tf.matmul(q, k) * (1.0 / math.sqrt(shape_list(v)[-1]))
        w = tf.nn.softmax(mask_attn_weights(w))
        return conv1d(merge_heads(tf.matmul(w, v)), "c_proj", n_state)


def mlp(x, scope, n_state):
    with tf.variable_scope(scope):
        nx = shape_list(x)[-1]
        return conv1d(gelu(conv1d(x, "c_fc", n_state)), "c_proj", nx)


def block(x, scope):
    with tf.variable_scope(scope):
        nx = shape_list(x)[-1]
        n = norm(x + attn(x, "attn", nx), "ln_1")
        return norm(n + mlp(n, "mlp", nx * 4), "ln_2")


def tower(X, M, Y):
    dtype = M.dtype
    ends = {}
    with tf.variable_scope("model"):
        we = tf.get_variable("we", [n_vocab + n_special + n_ctx, n_embd], dtype,
                             initializer=tf.random_normal_initializer(stddev=0.1))
        X = tf.reshape(X, [-1, n_ctx, 2])
        M = tf.reshape(M, [-1, n_ctx])
        h = tf.reduce_sum(tf.gather(we, X), 2)
        for layer in range(n_layer):
            h = block(h, "h%d" % layer)
            ends["h%d" % layer] = h

        lm_h = tf.reshape(h[:, :-1], [-1, n_embd])
        lm_logits = tf.matmul(lm_h, we, transpose_b=True)
        lm_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=lm_logits, labels=tf.reshape(X[:, 1:, 0], [-1]))
        lm_losses = tf.reshape(lm_losses, [-1, n_ctx - 1])
        lm_losses = tf.reduce_sum(lm_losses * M[:, 1:], 1) / tf.reduce_sum(M[:, 1:], 1)

        pool_idx = tf.cast(tf.argmax(tf.cast(tf.equal(X[:, :, 0], clf_token), tf.float32), 1), tf.int32)
        clf_h = tf.gather(tf.reshape(h, [-1, n_embd]), tf.range(tf.shape(X)[0]) * n_ctx + pool_idx)
        with tf.variable_scope("clf"):
            w = tf.get_variable("w", [n_embd, 1], dtype, initializer=tf.random_normal_initializer(stddev=0.1))
            b = tf.get_variable("b", [1], dtype, initializer=tf.constant_initializer(0))
            clf_logits = tf.reshape(tf.matmul(clf_h, w) + b, [-1, 2])
        clf_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=clf_logits, labels=Y)
    ends["clf_logits"] = clf_logits
    ends["clf_loss"] = tf.reduce_mean(clf_losses)
    ends["lm_loss"] = tf.reduce_mean(lm_losses)
    return ends["clf_loss"] + lm_coef * ends["lm_loss"], ends


def warmup_linear(x, warmup):
    s = tf.cast(x <= warmup, x.dtype)
    return (s * (x / warmup) + (1 - s)) * (1 - x)


class FixedAdam(tf.train.Optimizer):
    """Adam with decay of the matrices beside the gradient, clipping by the global norm, and a rate that rises and falls."""

    def __init__(self, lr, t_total, warmup, b1=0.9, b2=0.999, e=1e-8, l2=0.0, max_grad_norm=-1, name="adam"):
        super(FixedAdam, self).__init__(False, name)
        self.lr, self.t_total, self.warmup = lr, t_total, warmup
        self.b1, self.b2, self.e, self.l2 = b1, b2, e, l2
        self.max_grad_norm = max_grad_norm

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads, params = zip(*[(tf.convert_to_tensor(g), p) for g, p in grads_and_vars if g is not None])
        if self.max_grad_norm > 0:
            grads, _ = tf.clip_by_global_norm(grads, self.max_grad_norm)
        return super(FixedAdam, self).apply_gradients(list(zip(grads, params)), global_step, name)

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(initial_value=0.0, name="t", colocate_with=first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _steps(self):
        return self._get_non_slot_variable("t", graph=tf.get_default_graph())

    def _apply_dense(self, g, p):
        t = tf.cast(self._steps(), p.dtype.base_dtype) + 1
        m, v = self.get_slot(p, "m"), self.get_slot(p, "v")
        lrt = self.lr * tf.sqrt(1 - self.b2 ** t) / (1 - self.b1 ** t)
        lrt *= warmup_linear(t / self.t_total, self.warmup)
        mt = self.b1 * m + (1 - self.b1) * g
        vt = self.b2 * v + (1 - self.b2) * g * g
        change = mt / (tf.sqrt(vt) + self.e)
        if len(p.get_shape()) > 1:
            change += self.l2 * p
        return tf.group(m.assign(mt), v.assign(vt), p.assign(p - lrt * change))

    def _resource_apply_dense(self, g, p):
        return self._apply_dense(g, p)

    def _finish(self, update_ops, name_scope):
        with tf.control_dependencies(update_ops):
            count = self._steps().assign_add(1.0)
        return tf.group(*(update_ops + [count]), name=name_scope)


def optimizer():
    return FixedAdam(lr=0.005, t_total=12, warmup=0.15, l2=0.05, max_grad_norm=0.4)
