"""Short-term attention and memory priority (STAMP) for next clicks: attention over the session by the last click and the session's
mean, both passed through a layer of their own, and a trilinear score of every item."""
import numpy as np
import tensorflow.compat.v1 as tf

N_ITEMS = 50
EDIM = 16
STDDEV = 0.08
PAD_IDX = 0


def linear_3dim(inputs, w):
    """A matrix for every step of a sequence, tiled over the batch."""
    shape = tf.shape(w)
    w_3dim = tf.reshape(tf.tile(w, [tf.shape(inputs)[0], 1]), [-1, shape[0], shape[1]])
    return tf.matmul(inputs, w_3dim)


class Seq2SeqAttNN(object):
    def __init__(self, inputs, last_inputs, bitmap, lab_input):
        self.inputs, self.last_inputs, self.bitmap, self.lab_input = inputs, last_inputs, bitmap, lab_input
        self.dtype = bitmap.dtype

    def normal(self, name, shape, stddev=STDDEV):
        return tf.get_variable(name, shape, self.dtype, initializer=tf.random_normal_initializer(stddev=stddev, dtype=self.dtype))

    def attention(self, context, aspect, output):
        steps = tf.shape(context)[1]
        aspect = tf.reshape(tf.tile(aspect, [1, steps]), [-1, steps, EDIM])
        output = tf.reshape(tf.tile(output, [1, steps]), [-1, steps, EDIM])
        with tf.variable_scope("att"):
            res = linear_3dim(aspect, self.normal("w_asp", [EDIM, EDIM]))
            res += linear_3dim(context, self.normal("w_ctx", [EDIM, EDIM]))
            res += linear_3dim(output, self.normal("w_out", [EDIM, EDIM]))
            act = tf.nn.sigmoid(res)
            alpha = tf.reshape(linear_3dim(act, self.normal("w_ca", [EDIM, 1], stddev=0.3)), [-1, steps])
        # no softmax: the weights are taken as they are
        alpha *= self.bitmap
        vec = tf.matmul(tf.reshape(alpha, [-1, 1, steps]), context)
        return tf.reshape(vec, [-1, EDIM]), alpha

    def build_model(self):
        table = self.normal("embe_dict", [N_ITEMS + 1, EDIM], stddev=0.3)
        pe_mask = np.ones([N_ITEMS + 1, EDIM])
        pe_mask[PAD_IDX] = 0
        embe_dict = table * tf.constant(pe_mask, self.dtype)
        memory = tf.nn.embedding_lookup(embe_dict, self.inputs, max_norm=1)
        last = tf.nn.embedding_lookup(embe_dict, self.last_inputs, max_norm=1)
        length = tf.reduce_sum(self.bitmap, 1, keepdims=True)
        pool_out = tf.reduce_sum(memory, axis=1) / length
        attout, self.alpha = self.attention(memory, last, pool_out)
        attout = attout + pool_out
        attout = tf.tanh(tf.matmul(attout, self.normal("w1", [EDIM, EDIM], stddev=0.3)))
        last = tf.tanh(tf.matmul(last, self.normal("w2", [EDIM, EDIM], stddev=0.3)))
        self.scores = tf.matmul(attout * last, embe_dict[1:], transpose_b=True)
        self.loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=self.scores, labels=self.lab_input)


def tower(inputs, last_inputs, bitmap, lab_input):
    model = Seq2SeqAttNN(inputs, last_inputs, bitmap, lab_input)
    model.build_model()
    return tf.reduce_mean(model.loss), {"alpha": model.alpha, "scores": model.scores}
