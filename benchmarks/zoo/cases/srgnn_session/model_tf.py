"""Session-based recommendation by a gated graph network (SR-GNN): messages over in- and outgoing edges, a GRU as update, soft
attention of the last click over the session."""
import math

import tensorflow.compat.v1 as tf

N_NODE = 41
OUT_SIZE = 16
STEP = 2
L2 = 1e-3


class GGNN(object):
    def __init__(self, adj_in, adj_out, item, alias, mask):
        self.adj_in, self.adj_out = adj_in, adj_out
        self.item, self.alias, self.mask = item, alias, mask
        self.dtype = mask.dtype
        self.stdv = 1.0 / math.sqrt(OUT_SIZE)
        self.batch_size = tf.shape(item)[0]
        self.embedding = self.weight("embedding", [N_NODE, OUT_SIZE])
        self.nasr_w1 = self.weight("nasr_w1", [OUT_SIZE, OUT_SIZE])
        self.nasr_w2 = self.weight("nasr_w2", [OUT_SIZE, OUT_SIZE])
        self.nasr_v = self.weight("nasrv", [1, OUT_SIZE])
        self.nasr_b = tf.get_variable("nasr_b", [OUT_SIZE], self.dtype, initializer=tf.zeros_initializer())
        self.W_in = self.weight("W_in", [OUT_SIZE, OUT_SIZE])
        self.b_in = self.weight("b_in", [OUT_SIZE])
        self.W_out = self.weight("W_out", [OUT_SIZE, OUT_SIZE])
        self.b_out = self.weight("b_out", [OUT_SIZE])
        self.B = self.weight("B", [2 * OUT_SIZE, OUT_SIZE])

    def weight(self, name, shape):
        init = tf.random_uniform_initializer(-self.stdv, self.stdv, dtype=self.dtype)
        return tf.get_variable(name, shape, self.dtype, initializer=init)

    def ggnn(self):
        fin_state = tf.nn.embedding_lookup(self.embedding, self.item)
        cell = tf.nn.rnn_cell.GRUCell(OUT_SIZE)
        with tf.variable_scope("gru"):
            for _ in range(STEP):
                flat = tf.reshape(fin_state, [-1, OUT_SIZE])
                state_in = tf.reshape(tf.matmul(flat, self.W_in) + self.b_in, [self.batch_size, -1, OUT_SIZE])
                state_out = tf.reshape(tf.matmul(flat, self.W_out) + self.b_out, [self.batch_size, -1, OUT_SIZE])
                av = tf.concat([tf.matmul(self.adj_in, state_in), tf.matmul(self.adj_out, state_out)], axis=-1)
                _, flat = tf.nn.dynamic_rnn(cell, tf.expand_dims(tf.reshape(av, [-1, 2 * OUT_SIZE]), axis=1),
                                            initial_state=flat)
                fin_state = tf.reshape(flat, [self.batch_size, -1, OUT_SIZE])
        return fin_state

    def forward(self, re_embedding):
        rows = tf.range(self.batch_size)
        rm = tf.cast(tf.reduce_sum(self.mask, 1), tf.int32)
        last_id = tf.gather_nd(self.alias, tf.stack([rows, rm - 1], axis=1))
        last_h = tf.gather_nd(re_embedding, tf.stack([rows, last_id], axis=1))
        seq_h = tf.batch_gather(re_embedding, self.alias)
        last = tf.matmul(last_h, self.nasr_w1)
        seq = tf.matmul(tf.reshape(seq_h, [-1, OUT_SIZE]), self.nasr_w2)
        last = tf.reshape(last, [self.batch_size, 1, -1])
        m = tf.nn.sigmoid(last + tf.reshape(seq, [self.batch_size, -1, OUT_SIZE]) + self.nasr_b)
        coef = tf.matmul(tf.reshape(m, [-1, OUT_SIZE]), self.nasr_v, transpose_b=True) * tf.reshape(self.mask, [-1, 1])
        pooled = tf.reduce_sum(tf.reshape(coef, [self.batch_size, -1, 1]) * seq_h, 1)
        ma = tf.concat([pooled, tf.reshape(last, [-1, OUT_SIZE])], -1)
        return tf.matmul(tf.matmul(ma, self.B), self.embedding[1:], transpose_b=True)


def tower(item, adj_in, adj_out, alias, mask, tar):
    model = GGNN(adj_in, adj_out, item, alias, mask)
    nodes = model.ggnn()
    logits = model.forward(nodes)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tar - 1, logits=logits))
    # meant to leave the biases out, but names end in ":0", so that everything decays
    params = [v for v in tf.trainable_variables() if v.name not in ["bias", "gamma", "b", "g", "beta"]]
    loss += L2 * tf.add_n([tf.nn.l2_loss(v) for v in params])
    hit = tf.nn.in_top_k(tf.cast(logits, tf.float32), tar - 1, 5)
    return loss, {"nodes": nodes, "logits": logits, "recall": tf.reduce_mean(tf.cast(hit, loss.dtype))}
