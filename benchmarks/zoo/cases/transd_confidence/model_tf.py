"""TransD: entities are projected by vectors of their own and of the relation; a hinge between facts and corrupted facts.

The hinge of every fact counts by `confidence`, and is summed; everything follows its dtype.
"""
import tensorflow.compat.v1 as tf

ENTITIES, RELATIONS, HIDDEN, MARGIN = 90, 11, 24, 2.0


class TransD(object):

    def __init__(self, dtype):
        self.dtype = dtype
        self.ent_embeddings = self.table('ent_embeddings', ENTITIES)
        self.rel_embeddings = self.table('rel_embeddings', RELATIONS)
        self.ent_transfer = self.table('ent_transfer', ENTITIES)
        self.rel_transfer = self.table('rel_transfer', RELATIONS)

    def table(self, name, rows):
        return tf.get_variable(name, [rows, HIDDEN], self.dtype, tf.glorot_normal_initializer(dtype=self.dtype))

    def _transfer(self, e, t, r):
        return tf.nn.l2_normalize(e + tf.reduce_sum(e * t, -1, keepdims=True) * r, -1)

    def _calc(self, h, t, r):
        return tf.abs(h + r - t)

    def score(self, h, t, r):
        h_e = tf.nn.embedding_lookup(self.ent_embeddings, h)
        t_e = tf.nn.embedding_lookup(self.ent_embeddings, t)
        r_e = tf.nn.embedding_lookup(self.rel_embeddings, r)
        h_t = tf.nn.embedding_lookup(self.ent_transfer, h)
        t_t = tf.nn.embedding_lookup(self.ent_transfer, t)
        r_t = tf.nn.embedding_lookup(self.rel_transfer, r)
        # h, t, r are [batch, number of triples]
        each = self._calc(self._transfer(h_e, h_t, r_t), self._transfer(t_e, t_t, r_t), r_e)
        return tf.reduce_sum(each, -1)


def tower(pos_h, pos_t, pos_r, neg_h, neg_t, neg_r, confidence):
    with tf.variable_scope('model'):
        model = TransD(confidence.dtype)
        p_scores = model.score(pos_h[:, tf.newaxis], pos_t[:, tf.newaxis], pos_r[:, tf.newaxis])
        n_scores = model.score(neg_h, neg_t, neg_r)
        p_score = tf.reduce_mean(p_scores, 1)
        n_score = tf.reduce_mean(n_scores, 1)
        hinge = tf.maximum(p_score - n_score + MARGIN, 0)
        loss = tf.reduce_sum(confidence * hinge)
    return loss, {'p_score': p_score, 'n_score': n_score}
