"""Get to the point: summarisation with a pointer-generator network and coverage."""
import tensorflow.compat.v1 as tf

VOCAB = 48
MAX_OOVS = 3
EMB_DIM = 14
HIDDEN_DIM = 12
COV_LOSS_WT = 1.0

rand_unif_init = tf.random_uniform_initializer(-0.02, 0.02, seed=123)
trunc_norm_init = tf.truncated_normal_initializer(stddev=1e-4)


def linear(args, output_size, scope):
    with tf.variable_scope(scope):
        x = tf.concat(args, 1)
        matrix = tf.get_variable("Matrix", [x.shape.as_list()[1], output_size], x.dtype)
        bias = tf.get_variable("Bias", [output_size], x.dtype, initializer=tf.constant_initializer(0.0))
        return tf.matmul(x, matrix) + bias


def add_encoder(inputs, seq_len):
    with tf.variable_scope("encoder"):
        cell_fw = tf.nn.rnn_cell.LSTMCell(HIDDEN_DIM, initializer=rand_unif_init, state_is_tuple=True)
        cell_bw = tf.nn.rnn_cell.LSTMCell(HIDDEN_DIM, initializer=rand_unif_init, state_is_tuple=True)
        outputs, (fw_st, bw_st) = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, dtype=inputs.dtype,
                                                                  sequence_length=seq_len, swap_memory=True)
        return tf.concat(outputs, 2), fw_st, bw_st


def reduce_states(fw_st, bw_st):
    with tf.variable_scope("reduce_final_st"):
        dtype = fw_st.c.dtype
        shape = [HIDDEN_DIM * 2, HIDDEN_DIM]
        w_reduce_c = tf.get_variable("w_reduce_c", shape, dtype, initializer=trunc_norm_init)
        w_reduce_h = tf.get_variable("w_reduce_h", shape, dtype, initializer=trunc_norm_init)
        bias_reduce_c = tf.get_variable("bias_reduce_c", [HIDDEN_DIM], dtype, initializer=trunc_norm_init)
        bias_reduce_h = tf.get_variable("bias_reduce_h", [HIDDEN_DIM], dtype, initializer=trunc_norm_init)
        new_c = tf.nn.relu(tf.matmul(tf.concat([fw_st.c, bw_st.c], 1), w_reduce_c) + bias_reduce_c)
        new_h = tf.nn.relu(tf.matmul(tf.concat([fw_st.h, bw_st.h], 1), w_reduce_h) + bias_reduce_h)
        return tf.nn.rnn_cell.LSTMStateTuple(new_c, new_h)


def attention_decoder(decoder_inputs, state, encoder_states, enc_padding_mask):
    with tf.variable_scope("attention_decoder"):
        dtype = encoder_states.dtype
        batch_size, attn_size = tf.shape(encoder_states)[0], encoder_states.shape.as_list()[2]
        cell = tf.nn.rnn_cell.LSTMCell(HIDDEN_DIM, state_is_tuple=True, initializer=rand_unif_init)
        encoder_states = tf.expand_dims(encoder_states, 2)
        W_h = tf.get_variable("W_h", [1, 1, attn_size, attn_size], dtype)
        encoder_features = tf.nn.conv2d(encoder_states, W_h, [1, 1, 1, 1], "SAME")
        v = tf.get_variable("v", [attn_size], dtype)
        with tf.variable_scope("coverage"):
            w_c = tf.get_variable("w_c", [1, 1, 1, attn_size], dtype)

        def attention(decoder_state, coverage):
            decoder_features = linear([decoder_state.c, decoder_state.h], attn_size, "Attention")
            decoder_features = tf.expand_dims(tf.expand_dims(decoder_features, 1), 1)
            features = encoder_features + decoder_features
            if coverage is not None:
                features += tf.nn.conv2d(coverage, w_c, [1, 1, 1, 1], "SAME")
            e = tf.reduce_sum(v * tf.tanh(features), [2, 3])
            attn_dist = tf.nn.softmax(e) * enc_padding_mask
            attn_dist = attn_dist / tf.reshape(tf.reduce_sum(attn_dist, axis=1), [-1, 1])
            added = tf.reshape(attn_dist, [batch_size, -1, 1, 1])
            coverage = added if coverage is None else coverage + added
            context = tf.reduce_sum(added * encoder_states, [1, 2])
            return tf.reshape(context, [-1, attn_size]), attn_dist, coverage

        outputs, attn_dists, p_gens = [], [], []
        coverage = None
        context = tf.zeros([batch_size, attn_size], dtype)
        for i, inp in enumerate(decoder_inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            x = linear([inp, context], inp.shape.as_list()[1], "Input")
            cell_output, state = cell(x, state)
            context, attn_dist, coverage = attention(state, coverage)
            attn_dists.append(attn_dist)
            with tf.variable_scope("calculate_pgen"):
                p_gens.append(tf.sigmoid(linear([context, state.c, state.h, x], 1, "Linear")))
            outputs.append(linear([cell_output, context], HIDDEN_DIM, "AttnOutputProjection"))
        return outputs, attn_dists, p_gens


def calc_final_dist(vocab_dists, attn_dists, p_gens, enc_batch_extend_vocab):
    with tf.variable_scope("final_distribution"):
        vocab_dists = [p_gen * dist for p_gen, dist in zip(p_gens, vocab_dists)]
        attn_dists = [(1 - p_gen) * dist for p_gen, dist in zip(p_gens, attn_dists)]
        batch_size, attn_len = tf.shape(enc_batch_extend_vocab)[0], enc_batch_extend_vocab.shape.as_list()[1]
        extra_zeros = tf.zeros([batch_size, MAX_OOVS], vocab_dists[0].dtype)
        vocab_dists = [tf.concat([dist, extra_zeros], 1) for dist in vocab_dists]
        batch_nums = tf.tile(tf.expand_dims(tf.range(0, limit=batch_size), 1), [1, attn_len])
        indices = tf.stack((batch_nums, enc_batch_extend_vocab), axis=2)
        shape = [batch_size, VOCAB + MAX_OOVS]
        return [vocab + tf.scatter_nd(indices, copy, shape) for vocab, copy in zip(vocab_dists, attn_dists)]


def mask_and_avg(values, padding_mask):
    dec_lens = tf.reduce_sum(padding_mask, axis=1)
    values_per_step = [v * padding_mask[:, dec_step] for dec_step, v in enumerate(values)]
    return tf.reduce_mean(sum(values_per_step) / dec_lens)


def coverage_loss(attn_dists, padding_mask):
    coverage = tf.zeros_like(attn_dists[0])
    covlosses = []
    for a in attn_dists:
        covlosses.append(tf.reduce_sum(tf.minimum(a, coverage), [1]))
        coverage += a
    return mask_and_avg(covlosses, padding_mask)


def tower(enc_batch, enc_batch_extend_vocab, enc_padding_mask, dec_batch, target_batch, dec_padding_mask):
    dtype = enc_padding_mask.dtype
    batch_size = tf.shape(dec_batch)[0]
    enc_lens = tf.cast(tf.reduce_sum(enc_padding_mask, 1), tf.int32)
    with tf.variable_scope("seq2seq"):
        with tf.variable_scope("embedding"):
            embedding = tf.get_variable("embedding", [VOCAB, EMB_DIM], dtype, initializer=trunc_norm_init)
            emb_enc_inputs = tf.nn.embedding_lookup(embedding, enc_batch)
            emb_dec_inputs = [tf.nn.embedding_lookup(embedding, x) for x in tf.unstack(dec_batch, axis=1)]
        enc_outputs, fw_st, bw_st = add_encoder(emb_enc_inputs, enc_lens)
        dec_in_state = reduce_states(fw_st, bw_st)
        with tf.variable_scope("decoder"):
            outputs, attn_dists, p_gens = attention_decoder(emb_dec_inputs, dec_in_state, enc_outputs, enc_padding_mask)
        with tf.variable_scope("output_projection"):
            w = tf.get_variable("w", [HIDDEN_DIM, VOCAB], dtype, initializer=trunc_norm_init)
            v = tf.get_variable("v", [VOCAB], dtype, initializer=trunc_norm_init)
            vocab_dists = [tf.nn.softmax(tf.nn.xw_plus_b(output, w, v)) for output in outputs]
        final_dists = calc_final_dist(vocab_dists, attn_dists, p_gens, enc_batch_extend_vocab)
        loss_per_step = []
        for dec_step, dist in enumerate(final_dists):
            indices = tf.stack((tf.range(0, limit=batch_size), target_batch[:, dec_step]), axis=1)
            loss_per_step.append(-tf.log(tf.gather_nd(dist, indices)))
        loss = mask_and_avg(loss_per_step, dec_padding_mask)
        loss += COV_LOSS_WT * coverage_loss(attn_dists, dec_padding_mask)
    return loss, {"enc_outputs": enc_outputs, "attn_dists": tf.stack(attn_dists, 1),
                  "final_dists": tf.stack(final_dists, 1)}
