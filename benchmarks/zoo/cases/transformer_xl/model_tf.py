"""Transformer-XL on short segments, time first, with adaptive embeddings whose tables are the adaptive softmax's."""
import tensorflow.compat.v1 as tf

VOCAB, CUTOFFS, DIV_VAL = 47, [15, 28], 2
D_MODEL, D_EMBED, N_HEAD, D_HEAD, D_INNER, N_LAYER = 16, 12, 2, 7, 23, 2
TIE_PROJS = [False, True, True]
ENDS = [0] + CUTOFFS + [VOCAB]


def positional_embedding(pos_seq, inv_freq):
    sinusoid = tf.einsum("i,j->ij", pos_seq, inv_freq)
    return tf.concat([tf.sin(sinusoid), tf.cos(sinusoid)], -1)


def layer_norm(x, scope="LayerNorm"):
    with tf.variable_scope(scope):
        beta = tf.get_variable("beta", [D_MODEL], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [D_MODEL], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def positionwise_ff(inp, init, scope="ff"):
    with tf.variable_scope(scope):
        output = tf.layers.dense(inp, D_INNER, tf.nn.relu, kernel_initializer=init, name="layer_1")
        output = tf.layers.dense(output, D_MODEL, kernel_initializer=init, name="layer_2")
        return layer_norm(output + inp)


def rel_shift(x):
    size = tf.shape(x)
    x = tf.pad(x, [[0, 0], [1, 0], [0, 0], [0, 0]])
    x = tf.reshape(x, [size[1] + 1, size[0], size[2], size[3]])
    x = tf.slice(x, [1, 0, 0, 0], [-1, -1, -1, -1])
    return tf.reshape(x, size)


def rel_multihead_attn(w, r, r_w_bias, r_r_bias, attn_mask, mems, init, scope="rel_attn"):
    with tf.variable_scope(scope):
        qlen, klen, rlen = w.shape.as_list()[0], w.shape.as_list()[0] + mems.shape.as_list()[0], r.shape.as_list()[0]
        bsz = tf.shape(w)[1]
        heads = tf.layers.dense(tf.concat([mems, w], 0), 3 * N_HEAD * D_HEAD, use_bias=False, kernel_initializer=init, name="qkv")
        r_head_k = tf.layers.dense(r, N_HEAD * D_HEAD, use_bias=False, kernel_initializer=init, name="r")
        q, k, v = tf.split(heads, 3, -1)
        q = tf.reshape(q[-qlen:], [qlen, bsz, N_HEAD, D_HEAD])
        k = tf.reshape(k, [klen, bsz, N_HEAD, D_HEAD])
        v = tf.reshape(v, [klen, bsz, N_HEAD, D_HEAD])
        r_head_k = tf.reshape(r_head_k, [rlen, N_HEAD, D_HEAD])

        ac = tf.einsum("ibnd,jbnd->ijbn", q + r_w_bias, k)
        bd = rel_shift(tf.einsum("ibnd,jnd->ijbn", q + r_r_bias, r_head_k))
        score = (ac + bd) * (1 / D_HEAD ** 0.5)
        mask = attn_mask[:, :, None, None]
        score = score * (1 - mask) - 1e30 * mask
        prob = tf.nn.softmax(score, 1)
        vec = tf.reshape(tf.einsum("ijbn,jbnd->ibnd", prob, v), [qlen, bsz, N_HEAD * D_HEAD])
        out = tf.layers.dense(vec, D_MODEL, use_bias=False, kernel_initializer=init, name="o")
        return layer_norm(out + w)


def adaptive_embedding(x, dtype, init, scope="adaptive_embed"):
    tables, projs = [], []
    with tf.variable_scope(scope):
        y = tf.zeros([tf.shape(x)[0], tf.shape(x)[1], D_MODEL], dtype)
        for i in range(len(ENDS) - 1):
            with tf.variable_scope("cutoff_%d" % i):
                left, right, d = ENDS[i], ENDS[i + 1], D_EMBED // DIV_VAL ** i
                mask = (x >= left) & (x < right)
                table = tf.get_variable("lookup_table", [right - left, d], dtype, init)
                proj = tf.get_variable("proj_W", [d, D_MODEL], dtype, init)
                cur = tf.nn.embedding_lookup(table, tf.boolean_mask(x, mask) - left)
                cur = tf.einsum("id,de->ie", cur, proj)
                y += tf.scatter_nd(tf.to_int64(tf.where(mask)), cur, tf.to_int64(tf.shape(y)))
                tables.append(table)
                projs.append(proj)
    return y * D_MODEL ** 0.5, tables, projs


def adaptive_logsoftmax(hidden, target, tables, projs, init, scope="adaptive_softmax"):
    def logit(x, W, b, proj):
        return tf.matmul(tf.matmul(x, proj, transpose_b=True), W, transpose_b=True) + b

    def pick(logprob, index):
        return tf.gather_nd(logprob, tf.stack([tf.range(tf.shape(logprob)[0]), index], 1))

    dtype, shape = hidden.dtype, tf.shape(target)
    hidden, target = tf.reshape(hidden, [-1, D_MODEL]), tf.reshape(target, [-1])
    with tf.variable_scope(scope):
        nll = tf.zeros_like(target, dtype=dtype)
        for i in range(len(ENDS) - 1):
            with tf.variable_scope("cutoff_%d" % i):
                left, right = ENDS[i], ENDS[i + 1]
                mask = (target >= left) & (target < right)
                cur_target = tf.boolean_mask(target, mask) - left
                W, b = tables[i], tf.get_variable("b", [right - left], dtype, tf.zeros_initializer())
                proj = projs[i] if TIE_PROJS[i] else tf.get_variable("proj", [D_EMBED // DIV_VAL ** i, D_MODEL], dtype, init)
                if i == 0:
                    cluster_W = tf.get_variable("cluster_W", [len(CUTOFFS), D_EMBED], dtype, tf.zeros_initializer())
                    cluster_b = tf.get_variable("cluster_b", [len(CUTOFFS)], dtype, tf.zeros_initializer())
                    head = tf.nn.log_softmax(logit(hidden, tf.concat([W, cluster_W], 0), tf.concat([b, cluster_b], 0), proj))
                    cur = pick(tf.boolean_mask(head, mask), cur_target)
                else:
                    tail = tf.nn.log_softmax(logit(tf.boolean_mask(hidden, mask), W, b, proj))
                    cur = tf.boolean_mask(head, mask)[:, ENDS[1] + i - 1] + pick(tail, cur_target)
                nll += tf.scatter_nd(tf.to_int64(tf.where(mask)), -cur, tf.to_int64(tf.shape(nll)))
    return tf.reshape(nll, shape)


def create_mask(qlen, mlen, dtype):
    attn = tf.ones([qlen, qlen], dtype)
    upper, diagonal = tf.matrix_band_part(attn, 0, -1), tf.matrix_band_part(attn, 0, 0)
    return tf.concat([tf.zeros([qlen, mlen], dtype), upper - diagonal], 1)


def tower(tokens, targets, mems, weights):
    dtype = mems.dtype
    init, proj_init = tf.random_normal_initializer(stddev=0.1), tf.random_normal_initializer(stddev=0.2)
    x, y = tf.transpose(tokens), tf.transpose(targets)                  # time first
    memory = tf.unstack(tf.transpose(mems, [1, 2, 0, 3]), N_LAYER)
    qlen, mlen = x.shape.as_list()[0], memory[0].shape.as_list()[0]
    with tf.variable_scope("transformer"):
        r_w_bias = tf.get_variable("r_w_bias", [N_HEAD, D_HEAD], dtype, init)
        r_r_bias = tf.get_variable("r_r_bias", [N_HEAD, D_HEAD], dtype, init)
        output, tables, projs = adaptive_embedding(x, dtype, proj_init)
        mask = create_mask(qlen, mlen, dtype)
        pos_seq = tf.cast(tf.range(qlen + mlen - 1, -1, -1), dtype)
        inv_freq = 1 / (10000 ** (tf.cast(tf.range(0, D_MODEL, 2), dtype) / D_MODEL))
        pos_emb = positional_embedding(pos_seq, inv_freq)
        new_mems = []
        for i in range(N_LAYER):
            new_mems.append(tf.stop_gradient(tf.concat([memory[i], output], 0)[-mlen:]))
            with tf.variable_scope("layer_%d" % i):
                output = rel_multihead_attn(output, pos_emb, r_w_bias, r_r_bias, mask, memory[i], init)
                output = positionwise_ff(output, init)
        nll = tf.transpose(adaptive_logsoftmax(output, y, tables, projs, proj_init))
    loss = tf.reduce_sum(nll * weights) / tf.reduce_sum(weights)
    return loss, {"hidden": tf.transpose(output, [1, 0, 2]), "nll": nll, "new_mems": tf.transpose(tf.stack(new_mems), [2, 0, 1, 3])}
