"""A pointer-generator for short summaries, with coverage."""
import tensorflow.compat.v1 as tf

VSIZE, MAX_OOVS, EMB, HIDDEN = 41, 4, 9, 7
COV_LOSS_WT = 0.7


def linear(args, size, scope="Linear"):
    x = tf.concat(args, 1) if isinstance(args, (list, tuple)) else args
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [x.shape.as_list()[1], size], x.dtype, tf.glorot_uniform_initializer())
        bias = tf.get_variable("Bias", [size], x.dtype, tf.zeros_initializer())
    return tf.matmul(x, matrix) + bias


def add_encoder(inputs, lengths, init):
    with tf.variable_scope("encoder"):
        cell_fw = tf.nn.rnn_cell.LSTMCell(HIDDEN, initializer=init, state_is_tuple=True)
        cell_bw = tf.nn.rnn_cell.LSTMCell(HIDDEN, initializer=init, state_is_tuple=True)
        outputs, (fw, bw) = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, dtype=inputs.dtype,
                                                            sequence_length=lengths, swap_memory=True)
    return tf.concat(outputs, 2), fw, bw


def reduce_states(fw, bw, init):
    dtype = fw.c.dtype
    with tf.variable_scope("reduce_final_st"):
        w_c = tf.get_variable("w_reduce_c", [HIDDEN * 2, HIDDEN], dtype, init)
        w_h = tf.get_variable("w_reduce_h", [HIDDEN * 2, HIDDEN], dtype, init)
        b_c = tf.get_variable("bias_reduce_c", [HIDDEN], dtype, init)
        b_h = tf.get_variable("bias_reduce_h", [HIDDEN], dtype, init)
        c = tf.nn.relu(tf.matmul(tf.concat([fw.c, bw.c], 1), w_c) + b_c)
        h = tf.nn.relu(tf.matmul(tf.concat([fw.h, bw.h], 1), w_h) + b_h)
        return tf.nn.rnn_cell.LSTMStateTuple(c, h)


def attention_decoder(inputs, state, encoder_states, padding_mask, cell, init):
    dtype, size = encoder_states.dtype, 2 * HIDDEN
    with tf.variable_scope("attention_decoder"):
        encoder_states = tf.expand_dims(encoder_states, 2)
        W_h = tf.get_variable("W_h", [1, 1, size, size], dtype, init)
        features = tf.nn.conv2d(encoder_states, W_h, [1, 1, 1, 1], "SAME")
        v = tf.get_variable("v", [size], dtype, init)
        with tf.variable_scope("coverage"):
            w_c = tf.get_variable("w_c", [1, 1, 1, size], dtype, init)

        def attention(state, coverage):
            with tf.variable_scope("Attention"):
                query = linear([state.c, state.h], size)[:, tf.newaxis, tf.newaxis, :]
                covered = tf.nn.conv2d(coverage[:, :, tf.newaxis, tf.newaxis], w_c, [1, 1, 1, 1], "SAME")
                e = tf.reduce_sum(v * tf.tanh(features + query + covered), [2, 3])
                dist = tf.nn.softmax(e) * padding_mask
                dist = dist / tf.reshape(tf.reduce_sum(dist, axis=1), [-1, 1])
                context = tf.reduce_sum(dist[:, :, tf.newaxis, tf.newaxis] * encoder_states, [1, 2])
            return context, dist, coverage + dist

        outputs, dists, p_gens = [], [], []
        coverage = tf.zeros_like(padding_mask)
        context = tf.zeros([tf.shape(padding_mask)[0], size], dtype)
        for i, inp in enumerate(inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            x = linear([inp, context], EMB)
            output, state = cell(x, state)
            context, dist, coverage = attention(state, coverage)
            dists.append(dist)
            with tf.variable_scope("calculate_pgen"):
                p_gens.append(tf.sigmoid(linear([context, state.c, state.h, x], 1)))
            with tf.variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, context], HIDDEN))
    return outputs, dists, p_gens


def final_distribution(vocab_dists, attn_dists, p_gens, extend_vocab):
    """p_gen of the vocabulary's words; the rest goes to the words of the article, wherever they stand."""
    vocab_dists = [p * dist for p, dist in zip(p_gens, vocab_dists)]
    attn_dists = [(1 - p) * dist for p, dist in zip(p_gens, attn_dists)]
    batch, length, size = tf.shape(extend_vocab)[0], extend_vocab.shape.as_list()[1], VSIZE + MAX_OOVS
    zeros = tf.zeros([batch, MAX_OOVS], vocab_dists[0].dtype)
    rows = tf.tile(tf.expand_dims(tf.range(0, limit=batch), 1), [1, length])
    indices = tf.stack((rows, extend_vocab), axis=2)
    copied = [tf.scatter_nd(indices, dist, [batch, size]) for dist in attn_dists]
    return [tf.concat([dist, zeros], 1) + copy for dist, copy in zip(vocab_dists, copied)]


def mask_and_avg(values, padding_mask):
    lengths = tf.reduce_sum(padding_mask, axis=1)
    steps = [v * padding_mask[:, step] for step, v in enumerate(values)]
    return tf.reduce_mean(sum(steps) / lengths)


def coverage_loss(attn_dists, padding_mask):
    coverage = tf.zeros_like(attn_dists[0])
    losses = []
    for a in attn_dists:
        losses.append(tf.reduce_sum(tf.minimum(a, coverage), [1]))
        coverage += a
    return mask_and_avg(losses, padding_mask)


def tower(enc_batch, enc_lens, enc_extend_vocab, enc_padding_mask, dec_batch, target_batch, dec_padding_mask):
    dtype = enc_padding_mask.dtype
    uniform, normal = tf.random_uniform_initializer(-0.2, 0.2), tf.truncated_normal_initializer(stddev=0.2)
    with tf.variable_scope("seq2seq"):
        with tf.variable_scope("embedding"):
            table = tf.get_variable("embedding", [VSIZE, EMB], dtype, normal)
            emb_enc = tf.nn.embedding_lookup(table, enc_batch)
            emb_dec = [tf.nn.embedding_lookup(table, x) for x in tf.unstack(dec_batch, axis=1)]
        enc_outputs, fw, bw = add_encoder(emb_enc, enc_lens, uniform)
        state = reduce_states(fw, bw, normal)
        with tf.variable_scope("decoder"):
            cell = tf.nn.rnn_cell.LSTMCell(HIDDEN, state_is_tuple=True, initializer=uniform)
            outputs, attn_dists, p_gens = attention_decoder(emb_dec, state, enc_outputs, enc_padding_mask, cell, normal)
        with tf.variable_scope("output_projection"):
            w = tf.get_variable("w", [HIDDEN, VSIZE], dtype, normal)
            b = tf.get_variable("v", [VSIZE], dtype, normal)
            vocab_dists = [tf.nn.softmax(tf.nn.xw_plus_b(o, w, b)) for o in outputs]
        final_dists = final_distribution(vocab_dists, attn_dists, p_gens, enc_extend_vocab)
        with tf.variable_scope("loss"):
            rows = tf.range(0, limit=tf.shape(target_batch)[0])
            losses = []
            for step, dist in enumerate(final_dists):
                gold = tf.gather_nd(dist, tf.stack((rows, target_batch[:, step]), axis=1))
                losses.append(-tf.log(gold + 1e-9))
            loss = mask_and_avg(losses, dec_padding_mask)
            cov_loss = coverage_loss(attn_dists, dec_padding_mask)
    return loss + COV_LOSS_WT * cov_loss, {
        "encoder": enc_outputs, "decoder": tf.stack(outputs, 1), "attention": tf.stack(attn_dists, 1),
        "p_gen": tf.concat(p_gens, 1), "final": tf.stack(final_dists, 1)}
