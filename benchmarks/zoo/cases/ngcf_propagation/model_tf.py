"""Neural graph collaborative filtering: embeddings of users and items are propagated over the graph of who bought what,
all layers are joined, and a pairwise ranking loss compares two items of a user."""
import numpy as np
import tensorflow.compat.v1 as tf

N_USERS, N_ITEMS = 40, 54
EMB_DIM = 16
LAYER_SIZE = [16, 12]
N_FOLD = 4
DECAY = 1e-2


def normalised_adjacency():
    """Rows of A + I, each divided by its sum."""
    n = N_USERS + N_ITEMS
    adj = np.eye(n)
    for user in range(N_USERS):
        for j in range(2 + user % 6):
            item = (3 * user + 5 * j * j + 2 * j) % N_ITEMS
            adj[user, N_USERS + item] = adj[N_USERS + item, user] = 1.0
    return adj / adj.sum(1, keepdims=True)


class NGCF(object):

    def __init__(self, dtype):
        self.dtype = dtype
        self.n_layers = len(LAYER_SIZE)
        self.norm_adj = normalised_adjacency()
        self._init_weights()

    def _init_weights(self):
        xavier = tf.glorot_uniform_initializer(dtype=self.dtype)

        def variable(name, shape):
            return tf.get_variable(name, shape, self.dtype, xavier)

        self.weights = {'user_embedding': variable('user_embedding', [N_USERS, EMB_DIM]),
                        'item_embedding': variable('item_embedding', [N_ITEMS, EMB_DIM])}
        sizes = [EMB_DIM] + LAYER_SIZE
        for k in range(self.n_layers):
            for kind in ('gc', 'bi'):
                self.weights['W_%s_%d' % (kind, k)] = variable('W_%s_%d' % (kind, k), [sizes[k], sizes[k + 1]])
                self.weights['b_%s_%d' % (kind, k)] = variable('b_%s_%d' % (kind, k), [1, sizes[k + 1]])

    def _folds(self):
        n = N_USERS + N_ITEMS
        fold_len = n // N_FOLD
        folds = []
        for i in range(N_FOLD):
            rows = self.norm_adj[i * fold_len:n if i == N_FOLD - 1 else (i + 1) * fold_len]
            indices = np.stack(rows.nonzero(), 1).astype(np.int64)
            values = tf.constant(rows[rows.nonzero()], self.dtype)
            folds.append(tf.SparseTensor(indices, values, rows.shape))
        return folds

    def propagate(self):
        folds = self._folds()
        ego = tf.concat([self.weights['user_embedding'], self.weights['item_embedding']], axis=0)
        all_embeddings = [ego]
        for k in range(self.n_layers):
            side = tf.concat([tf.sparse_tensor_dense_matmul(fold, ego) for fold in folds], 0)
            sum_embeddings = tf.nn.leaky_relu(
                tf.matmul(side, self.weights['W_gc_%d' % k]) + self.weights['b_gc_%d' % k])
            bi_embeddings = tf.multiply(ego, side)
            bi_embeddings = tf.nn.leaky_relu(
                tf.matmul(bi_embeddings, self.weights['W_bi_%d' % k]) + self.weights['b_bi_%d' % k])
            ego = sum_embeddings + bi_embeddings
            all_embeddings.append(tf.math.l2_normalize(ego, axis=1))
        return tf.split(tf.concat(all_embeddings, 1), [N_USERS, N_ITEMS], 0)


def tower(users, pos_items, neg_items, confidence):
    net = NGCF(confidence.dtype)
    user_all, item_all = net.propagate()
    u = tf.nn.embedding_lookup(user_all, users)
    pos = tf.nn.embedding_lookup(item_all, pos_items)
    neg = tf.nn.embedding_lookup(item_all, neg_items)
    u_pre = tf.nn.embedding_lookup(net.weights['user_embedding'], users)
    pos_pre = tf.nn.embedding_lookup(net.weights['item_embedding'], pos_items)
    neg_pre = tf.nn.embedding_lookup(net.weights['item_embedding'], neg_items)

    pos_scores = tf.reduce_sum(tf.multiply(u, pos), axis=1)
    neg_scores = tf.reduce_sum(tf.multiply(u, neg), axis=1)
    maxi = tf.log(tf.nn.sigmoid(pos_scores - neg_scores))
    mf_loss = tf.negative(tf.reduce_mean(confidence * maxi))
    regularizer = tf.nn.l2_loss(u_pre) + tf.nn.l2_loss(pos_pre) + tf.nn.l2_loss(neg_pre)
    emb_loss = DECAY * regularizer / tf.cast(tf.shape(users)[0], confidence.dtype)
    return mf_loss + emb_loss, {'pos_scores': pos_scores, 'neg_scores': neg_scores, 'mf_loss': mf_loss}
