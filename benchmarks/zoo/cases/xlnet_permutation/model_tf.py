"""Permutation language model with two streams of attention (XLNet), relative positions and relative segments; positions in front of
examples in every tensor, as the official multi-GPU trainer has them."""
import numpy as np
import tensorflow.compat.v1 as tf

N_TOKEN, N_LAYER, D_MODEL, N_HEAD, D_HEAD, D_INNER = 40, 2, 20, 2, 8, 36
CLAMP_LEN = 7


def gelu(x):
    return x * (0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))


def layer_norm(inputs, scope):
    """What tf.contrib.layers.layer_norm does over the last axis."""
    with tf.variable_scope(scope):
        shape = [inputs.shape.as_list()[-1]]
        beta = tf.get_variable("beta", shape, inputs.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, inputs.dtype, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def positionwise_ffn(inp, initializer, reuse=None):
    with tf.variable_scope("ff", reuse=reuse):
        output = tf.layers.dense(inp, D_INNER, activation=gelu, kernel_initializer=initializer, name="layer_1")
        output = tf.layers.dense(output, D_MODEL, kernel_initializer=initializer, name="layer_2")
        return layer_norm(output + inp, "LayerNorm")


def head_projection(h, initializer, name):
    weight = tf.get_variable("{}/kernel".format(name), [D_MODEL, N_HEAD, D_HEAD], dtype=h.dtype, initializer=initializer)
    return tf.einsum("ibh,hnd->ibnd", h, weight)


def post_attention(h, attn_vec, initializer):
    proj_o = tf.get_variable("o/kernel", [D_MODEL, N_HEAD, D_HEAD], dtype=h.dtype, initializer=initializer)
    return layer_norm(tf.einsum("ibnd,hnd->ibh", attn_vec, proj_o) + h, "LayerNorm")


def rel_shift(x, klen):
    x_size = tf.shape(x)
    x = tf.reshape(x, [x_size[1], x_size[0], x_size[2], x_size[3]])
    x = tf.slice(x, [1, 0, 0, 0], [-1, -1, -1, -1])
    x = tf.reshape(x, [x_size[0], x_size[1] - 1, x_size[2], x_size[3]])
    return tf.slice(x, [0, 0, 0, 0], [-1, klen, -1, -1])


def rel_attn_core(q_head, k_head_h, v_head_h, k_head_r, seg_embed, seg_mat, r_w_bias, r_r_bias, r_s_bias, attn_mask, scale):
    ac = tf.einsum("ibnd,jbnd->ijbn", q_head + r_w_bias, k_head_h)
    bd = tf.einsum("ibnd,jbnd->ijbn", q_head + r_r_bias, k_head_r)
    bd = rel_shift(bd, klen=tf.shape(ac)[1])
    ef = tf.einsum("ibnd,snd->ibns", q_head + r_s_bias, seg_embed)
    ef = tf.einsum("ijbs,ibns->ijbn", seg_mat, ef)
    attn_score = (ac + bd + ef) * scale - 1e30 * attn_mask
    attn_prob = tf.nn.softmax(attn_score, 1)
    return tf.einsum("ijbn,jbnd->ibnd", attn_prob, v_head_h)


def two_stream_rel_attn(h, g, r, relative, attn_mask_h, attn_mask_g, target_mapping, initializer):
    scale = 1 / (D_HEAD ** 0.5)
    with tf.variable_scope("rel_attn"):
        k_head_h = head_projection(h, initializer, "k")
        v_head_h = head_projection(h, initializer, "v")
        k_head_r = head_projection(r, initializer, "r")
        q_head_h = head_projection(h, initializer, "q")
        attn_vec_h = rel_attn_core(q_head_h, k_head_h, v_head_h, k_head_r, *relative, attn_mask=attn_mask_h, scale=scale)
        output_h = post_attention(h, attn_vec_h, initializer)
    with tf.variable_scope("rel_attn", reuse=True):
        q_head_g = head_projection(g, initializer, "q")
        q_head_g = tf.einsum("mbnd,mlb->lbnd", q_head_g, target_mapping)
        attn_vec_g = rel_attn_core(q_head_g, k_head_h, v_head_h, k_head_r, *relative, attn_mask=attn_mask_g, scale=scale)
        attn_vec_g = tf.einsum("lbnd,mlb->mbnd", attn_vec_g, target_mapping)
        output_g = post_attention(g, attn_vec_g, initializer)
    return output_h, output_g


def relative_positional_encoding(qlen, klen, bsz, dtype):
    inv_freq = 1 / (10000 ** (tf.cast(tf.range(0, D_MODEL, 2.0), dtype) / D_MODEL))
    pos_seq = tf.clip_by_value(tf.cast(tf.range(klen, -qlen, -1), dtype), -CLAMP_LEN, CLAMP_LEN)
    sinusoid_inp = tf.einsum("i,d->id", pos_seq, inv_freq)
    pos_emb = tf.concat([tf.sin(sinusoid_inp), tf.cos(sinusoid_inp)], -1)
    return tf.tile(pos_emb[:, None, :], [1, bsz, 1])


def tower(inp_k, seg_id, input_mask, perm_mask, target_mapping, target, tgt_mask):
    dtype = input_mask.dtype
    initializer = tf.random_normal_initializer(stddev=0.15)
    inp_k, seg_id, target = tf.transpose(inp_k), tf.transpose(seg_id), tf.transpose(target)
    input_mask, tgt_mask = tf.transpose(input_mask), tf.transpose(tgt_mask)
    perm_mask = tf.transpose(perm_mask, [1, 2, 0])
    target_mapping = tf.transpose(target_mapping, [1, 2, 0])
    qlen, bsz = inp_k.shape.as_list()[0], tf.shape(inp_k)[1]
    ends = {}
    with tf.variable_scope("model"), tf.variable_scope("transformer"):
        biases = {name: tf.get_variable(name, [N_LAYER, N_HEAD, D_HEAD], dtype, initializer=initializer)
                  for name in ("r_w_bias", "r_r_bias", "r_s_bias")}
        seg_embed = tf.get_variable("seg_embed", [N_LAYER, 2, N_HEAD, D_HEAD], dtype, initializer=initializer)

        attn_mask = tf.cast((input_mask[None] + perm_mask)[:, :, :, None] > 0, dtype)
        # a token of the content stream sees itself, whatever the order
        non_tgt_mask = tf.cast((attn_mask - tf.eye(qlen, dtype=dtype)[:, :, None, None]) > 0, dtype)

        with tf.variable_scope("word_embedding"):
            lookup_table = tf.get_variable("lookup_table", [N_TOKEN, D_MODEL], dtype, initializer=initializer)
        output_h = tf.nn.embedding_lookup(lookup_table, inp_k)
        with tf.variable_scope("mask_emb"):
            mask_emb = tf.get_variable("mask_emb", [1, 1, D_MODEL], dtype, initializer=initializer)
        output_g = tf.tile(mask_emb, [tf.shape(target_mapping)[0], bsz, 1])

        # 1 stands for another segment
        seg_mat = tf.one_hot(tf.cast(tf.not_equal(seg_id[:, None], seg_id[None, :]), tf.int32), 2, dtype=dtype)
        pos_emb = relative_positional_encoding(qlen, qlen, bsz, dtype)
        for i in range(N_LAYER):
            relative = (seg_embed[i], seg_mat, biases["r_w_bias"][i], biases["r_r_bias"][i], biases["r_s_bias"][i])
            with tf.variable_scope("layer_{}".format(i)):
                output_h, output_g = two_stream_rel_attn(output_h, output_g, pos_emb, relative, non_tgt_mask, attn_mask,
                                                         target_mapping, initializer)
                output_g = positionwise_ffn(output_g, initializer)
                output_h = positionwise_ffn(output_h, initializer, reuse=True)
            ends["content_{}".format(i)] = output_h
            ends["query_{}".format(i)] = output_g
    with tf.variable_scope("model"), tf.variable_scope("lm_loss"):
        softmax_b = tf.get_variable("bias", [N_TOKEN], dtype, initializer=tf.zeros_initializer())
        logits = tf.einsum("ibd,nd->ibn", output_g, lookup_table) + softmax_b
        lm_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    ends["logits"] = logits
    return tf.reduce_sum(lm_loss * tgt_mask) / tf.reduce_sum(tgt_mask), ends
