"""RippleNet: preferences propagate along a knowledge graph from the items that a user clicked; with the loss of the graph's own
triples and l2 of what was looked up."""
import tensorflow.compat.v1 as tf

N_ENTITY, N_RELATION = 60, 5
DIM = 8
N_HOP = 2
KGE_WEIGHT = 0.05
L2_WEIGHT = 1e-3
ITEM_UPDATE_MODE = "plus_transform"
USING_ALL_HOPS = True


class RippleNet(object):
    def __init__(self, items, labels, memories_h, memories_r, memories_t):
        self.items, self.labels = items, labels
        self.memories_h = [memories_h[:, hop] for hop in range(N_HOP)]
        self.memories_r = [memories_r[:, hop] for hop in range(N_HOP)]
        self.memories_t = [memories_t[:, hop] for hop in range(N_HOP)]
        self._build_embeddings(labels.dtype)
        self._build_model()
        self._build_loss()

    def _build_embeddings(self, dtype):
        init = tf.glorot_uniform_initializer(dtype=dtype)
        self.entity_emb_matrix = tf.get_variable("entity_emb_matrix", [N_ENTITY, DIM], dtype, init)
        self.relation_emb_matrix = tf.get_variable("relation_emb_matrix", [N_RELATION, DIM, DIM], dtype, init)
        self.transform_matrix = tf.get_variable("transform_matrix", [DIM, DIM], dtype, init)

    def _build_model(self):
        self.item_embeddings = tf.nn.embedding_lookup(self.entity_emb_matrix, self.items)
        self.h_emb_list, self.r_emb_list, self.t_emb_list = [], [], []
        for i in range(N_HOP):
            self.h_emb_list.append(tf.nn.embedding_lookup(self.entity_emb_matrix, self.memories_h[i]))
            self.r_emb_list.append(tf.nn.embedding_lookup(self.relation_emb_matrix, self.memories_r[i]))
            self.t_emb_list.append(tf.nn.embedding_lookup(self.entity_emb_matrix, self.memories_t[i]))
        self.o_list = self._key_addressing()
        self.scores = tf.squeeze(self.predict(self.item_embeddings, self.o_list))
        self.scores_normalized = tf.sigmoid(self.scores)

    def _key_addressing(self):
        o_list = []
        for hop in range(N_HOP):
            h_expanded = tf.expand_dims(self.h_emb_list[hop], axis=3)
            Rh = tf.squeeze(tf.matmul(self.r_emb_list[hop], h_expanded), axis=3)
            v = tf.expand_dims(self.item_embeddings, axis=2)
            probs = tf.squeeze(tf.matmul(Rh, v), axis=2)
            probs_normalized = tf.nn.softmax(probs)
            probs_expanded = tf.expand_dims(probs_normalized, axis=2)
            o = tf.reduce_sum(self.t_emb_list[hop] * probs_expanded, axis=1)
            self.item_embeddings = self.update_item_embedding(self.item_embeddings, o)
            o_list.append(o)
        return o_list

    def update_item_embedding(self, item_embeddings, o):
        if ITEM_UPDATE_MODE == "replace":
            return o
        if ITEM_UPDATE_MODE == "plus":
            return item_embeddings + o
        if ITEM_UPDATE_MODE == "replace_transform":
            return tf.matmul(o, self.transform_matrix)
        if ITEM_UPDATE_MODE == "plus_transform":
            return tf.matmul(item_embeddings + o, self.transform_matrix)
        raise Exception("Unknown item updating mode: " + ITEM_UPDATE_MODE)

    def predict(self, item_embeddings, o_list):
        y = o_list[-1]
        if USING_ALL_HOPS:
            for i in range(N_HOP - 1):
                y += o_list[i]
        return tf.reduce_sum(item_embeddings * y, axis=1)

    def _build_loss(self):
        self.base_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=self.scores))
        self.kge_loss = 0
        for hop in range(N_HOP):
            h_expanded = tf.expand_dims(self.h_emb_list[hop], axis=2)
            t_expanded = tf.expand_dims(self.t_emb_list[hop], axis=3)
            hRt = tf.squeeze(tf.matmul(tf.matmul(h_expanded, self.r_emb_list[hop]), t_expanded))
            self.kge_loss += tf.reduce_mean(tf.sigmoid(hRt))
        self.kge_loss = -KGE_WEIGHT * self.kge_loss
        self.l2_loss = 0
        for hop in range(N_HOP):
            self.l2_loss += tf.reduce_mean(tf.reduce_sum(self.h_emb_list[hop] * self.h_emb_list[hop]))
            self.l2_loss += tf.reduce_mean(tf.reduce_sum(self.t_emb_list[hop] * self.t_emb_list[hop]))
            self.l2_loss += tf.reduce_mean(tf.reduce_sum(self.r_emb_list[hop] * self.r_emb_list[hop]))
            if ITEM_UPDATE_MODE in ("replace_transform", "plus_transform"):
                self.l2_loss += tf.nn.l2_loss(self.transform_matrix)
        self.l2_loss = L2_WEIGHT * self.l2_loss
        self.loss = self.base_loss + self.kge_loss + self.l2_loss


def tower(items, labels, memories_h, memories_r, memories_t):
    model = RippleNet(items, labels, memories_h, memories_r, memories_t)
    return model.loss, {"o_1": model.o_list[0], "o_2": model.o_list[1], "scores": model.scores_normalized, "base_loss": model.base_loss,
                        "kge_loss": model.kge_loss, "l2_loss": model.l2_loss}
