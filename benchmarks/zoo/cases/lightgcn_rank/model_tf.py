"""LightGCN, after the kind of TensorFlow code that came with it and with NGCF: embeddings of users and items are
propagated over the graph fold by fold, the layers are averaged, triples are ranked by BPR, and the embeddings that the
batch begins with are penalised. Items have a bias, as in matrix factorisation. The adjacency D^-1 (A + I) is dense."""
import tensorflow.compat.v1 as tf

N_USERS = 37
N_ITEMS = 29
EMB_DIM = 24
N_LAYERS = 3
N_FOLD = 2
DECAY = 1e-2


def init_weights(dtype):
    initializer = tf.initializers.glorot_uniform()
    return {
        "user_embedding": tf.get_variable("user_embedding", [N_USERS, EMB_DIM], dtype, initializer),
        "item_embedding": tf.get_variable("item_embedding", [N_ITEMS, EMB_DIM], dtype, initializer),
        "item_bias": tf.get_variable("item_bias", [N_ITEMS], dtype, tf.zeros_initializer()),
    }


def split_a_hat(a_hat):
    fold_len = (N_USERS + N_ITEMS) // N_FOLD
    ends = [fold_len * (i + 1) for i in range(N_FOLD - 1)] + [N_USERS + N_ITEMS]
    return [a_hat[start:end] for start, end in zip([0] + ends[:-1], ends)]


def create_lightgcn_embed(weights, a_hat):
    a_fold_hat = split_a_hat(a_hat)
    ego_embeddings = tf.concat([weights["user_embedding"], weights["item_embedding"]], axis=0)
    all_embeddings = [ego_embeddings]
    for _ in range(N_LAYERS):
        temp_embed = [tf.matmul(fold, ego_embeddings) for fold in a_fold_hat]
        ego_embeddings = tf.concat(temp_embed, 0)
        all_embeddings.append(ego_embeddings)
    all_embeddings = tf.reduce_mean(tf.stack(all_embeddings, 1), axis=1, keepdims=False)
    return tf.split(all_embeddings, [N_USERS, N_ITEMS], 0)


def tower(users, pos_items, neg_items, adjacency):
    dtype = adjacency.dtype
    weights = init_weights(dtype)
    ua_embeddings, ia_embeddings = create_lightgcn_embed(weights, adjacency[0])
    u_g_embeddings = tf.nn.embedding_lookup(ua_embeddings, users)
    pos_i_g_embeddings = tf.nn.embedding_lookup(ia_embeddings, pos_items)
    neg_i_g_embeddings = tf.nn.embedding_lookup(ia_embeddings, neg_items)
    u_g_embeddings_pre = tf.nn.embedding_lookup(weights["user_embedding"], users)
    pos_i_g_embeddings_pre = tf.nn.embedding_lookup(weights["item_embedding"], pos_items)
    neg_i_g_embeddings_pre = tf.nn.embedding_lookup(weights["item_embedding"], neg_items)

    pos_scores = tf.reduce_sum(u_g_embeddings * pos_i_g_embeddings, axis=1)
    pos_scores += tf.nn.embedding_lookup(weights["item_bias"], pos_items)
    neg_scores = tf.reduce_sum(u_g_embeddings * neg_i_g_embeddings, axis=1)
    neg_scores += tf.nn.embedding_lookup(weights["item_bias"], neg_items)

    mf_loss = tf.reduce_mean(tf.nn.softplus(-(pos_scores - neg_scores)))
    regularizer = (tf.nn.l2_loss(u_g_embeddings_pre) + tf.nn.l2_loss(pos_i_g_embeddings_pre)
                   + tf.nn.l2_loss(neg_i_g_embeddings_pre))
    regularizer = regularizer / tf.cast(tf.shape(users)[0], dtype)
    emb_loss = DECAY * regularizer
    return mf_loss + emb_loss, {
        "user_vectors": u_g_embeddings,
        "pos_vectors": pos_i_g_embeddings,
        "pos_scores": pos_scores,
        "neg_scores": neg_scores,
        "mf_loss": mf_loss,
        "emb_loss": emb_loss,
    }
