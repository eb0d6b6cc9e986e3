"""Multi-interest recommender with dynamic routing (ComiRec-DR): clicks are routed to capsules of interest, the one nearest to the
target is trained by sampled softmax against what the whole tower has drawn."""
import tensorflow.compat.v1 as tf

N_MID = 121
DIM = 10
SEQ_LEN = 8
NUM_INTEREST = 3
NEG_NUM = 3


class CapsuleNetwork(object):
    def __init__(self, dim, seq_len, num_interest):
        self.dim, self.seq_len, self.num_interest = dim, seq_len, num_interest

    def squash(self, capsule):
        cap_norm = tf.reduce_sum(tf.square(capsule), -1, True)
        return cap_norm / (1 + cap_norm) / tf.sqrt(cap_norm + 1e-9) * capsule

    def __call__(self, item_his_emb, item_eb, mask):
        with tf.variable_scope("bilinear"):
            w = tf.get_variable("weights", [1, self.seq_len, self.num_interest * self.dim, self.dim], item_his_emb.dtype,
                                initializer=tf.random_normal_initializer())
            u = tf.expand_dims(item_his_emb, axis=2)
            item_emb_hat = tf.reduce_sum(w * u, axis=3)
        item_emb_hat = tf.reshape(item_emb_hat, [-1, self.seq_len, self.num_interest, self.dim])
        item_emb_hat = tf.transpose(item_emb_hat, [0, 2, 1, 3])
        item_emb_hat_iter = tf.stop_gradient(item_emb_hat)
        capsule_weight = tf.zeros_like(item_emb_hat_iter[:, :, :, 0])
        atten_mask = tf.tile(tf.expand_dims(mask, axis=1), [1, self.num_interest, 1])
        paddings = tf.zeros_like(atten_mask)
        for i in range(3):
            softmax_weight = tf.nn.softmax(capsule_weight, axis=1)
            softmax_weight = tf.where(tf.equal(atten_mask, 0), paddings, softmax_weight)
            softmax_weight = tf.expand_dims(softmax_weight, 2)
            if i < 2:
                capsule = self.squash(tf.matmul(softmax_weight, item_emb_hat_iter))
                delta = tf.matmul(item_emb_hat_iter, tf.transpose(capsule, [0, 1, 3, 2]))
                capsule_weight += tf.reshape(delta, [-1, self.num_interest, self.seq_len])
            else:
                capsule = self.squash(tf.matmul(softmax_weight, item_emb_hat))
        capsule = tf.reshape(capsule, [-1, self.num_interest, self.dim])
        capsule = tf.layers.dense(capsule, self.dim, activation=tf.nn.relu, name="proj")
        atten = tf.matmul(capsule, tf.reshape(item_eb, [-1, self.dim, 1]))
        atten = tf.nn.softmax(tf.reshape(atten, [-1, self.num_interest]))
        best = tf.argmax(atten, axis=1, output_type=tf.int32) + tf.range(tf.shape(atten)[0]) * self.num_interest
        return capsule, tf.gather(tf.reshape(capsule, [-1, self.dim]), best)


def expected_count(ids, tries, dtype):
    """How likely an id is among so many tries of the log-uniform sampler."""
    k = tf.cast(ids, dtype)
    p = (tf.log(k + 2.0) - tf.log(k + 1.0)) / tf.log(tf.constant(N_MID + 1.0, dtype))
    return -tf.math.expm1(tf.cast(tries, dtype) * tf.math.log1p(-p))


def tower(item_his, mask, item, sampled):
    dtype = mask.dtype
    table = tf.get_variable("mid_embedding_var", [N_MID, DIM], dtype, initializer=tf.random_normal_initializer(stddev=0.3))
    bias = tf.zeros([N_MID], dtype)
    item_eb = tf.nn.embedding_lookup(table, item)
    item_his_eb = tf.nn.embedding_lookup(table, item_his) * tf.reshape(mask, [-1, SEQ_LEN, 1])
    user_eb, readout = CapsuleNetwork(DIM, SEQ_LEN, NUM_INTEREST)(item_his_eb, item_eb, mask)
    labels = tf.cast(tf.reshape(item, [-1, 1]), tf.int64)
    drawn = tf.cast(tf.reshape(sampled, [-1]), tf.int64)
    tries = tf.size(drawn)
    values = (drawn, expected_count(labels, tries, dtype), expected_count(drawn, tries, dtype))
    losses = tf.nn.sampled_softmax_loss(table, bias, labels, readout, NEG_NUM * SEQ_LEN, N_MID, sampled_values=values)
    scores = tf.reduce_max(tf.tensordot(user_eb, table, [[2], [1]]), axis=1)
    hit = tf.nn.in_top_k(tf.cast(scores, tf.float32), item, 10)
    return tf.reduce_mean(losses), {"user_eb": user_eb, "readout": readout, "scores": scores,
                                    "recall": tf.reduce_mean(tf.cast(hit, dtype))}
