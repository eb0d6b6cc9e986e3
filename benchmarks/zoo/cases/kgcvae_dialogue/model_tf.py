"""Knowledge-guided conditional VAE for dialogue: utterances and the dialogue are read by LSTMs, prior and recognition network, a
latent variable by a draw that is fed, losses of the words, of the bag of words, of the dialogue act, and a weighted KL."""
import tensorflow.compat.v1 as tf

VOCAB, TOPICS, ACTS = 40, 5, 6
EMBED, TOPIC_EMBED, ACT_EMBED = 8, 4, 5
SENT_CELL, CONTEXT_CELL, DEC_CELL, LATENT = 6, 9, 10, 6
KL_WEIGHT = 0.4


def fully_connected(inputs, num_outputs, scope, activation_fn=tf.nn.relu):
    """As in tf.contrib.layers: a ReLU unless something else is asked for."""
    return tf.layers.dense(inputs, num_outputs, activation=activation_fn, name=scope)


def gaussian_kld(recog_mu, recog_logvar, prior_mu, prior_logvar):
    return -0.5 * tf.reduce_sum(1 + (recog_logvar - prior_logvar)
                                - tf.div(tf.pow(prior_mu - recog_mu, 2), tf.exp(prior_logvar))
                                - tf.div(tf.exp(recog_logvar), tf.exp(prior_logvar)), axis=1)


def get_bi_rnn_encode(embedding, cell_fw, cell_bw, length_mask, scope, reuse=None):
    with tf.variable_scope(scope, reuse=reuse):
        _, (fw, bw) = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, embedding, sequence_length=length_mask, dtype=embedding.dtype)
        return tf.concat([fw.h, bw.h], axis=1)


def tower(contexts, floors, context_lens, topics, acts, my_profile, ot_profile, output, epsilon):
    dtype = epsilon.dtype
    turns, words = contexts.get_shape().as_list()[1:]

    def table(rows, columns):
        return tf.get_variable("embedding", [rows, columns], dtype, initializer=tf.random_uniform_initializer(-0.5, 0.5, dtype=dtype))

    with tf.variable_scope("topicEmbedding"):
        topic_embedding = tf.nn.embedding_lookup(table(TOPICS, TOPIC_EMBED), topics)
    with tf.variable_scope("dialogActEmbedding"):
        d_embedding = table(ACTS, ACT_EMBED)
        act_embedding = tf.nn.embedding_lookup(d_embedding, acts)

    with tf.variable_scope("wordEmbedding"):
        embedding_mask = tf.constant([[0.0]] + [[1.0]] * (VOCAB - 1), dtype=dtype)
        embedding = table(VOCAB, EMBED) * embedding_mask
        flat = tf.reshape(contexts, [-1, words])
        input_embedding = tf.nn.embedding_lookup(embedding, flat)
        output_embedding = tf.nn.embedding_lookup(embedding, output)
        output_lens = tf.reduce_sum(tf.cast(output > 0, tf.int32), 1)
        fw, bw = tf.nn.rnn_cell.LSTMCell(SENT_CELL), tf.nn.rnn_cell.LSTMCell(SENT_CELL)
        # turns that are padding have one word of padding
        utterance_lens = tf.maximum(tf.reduce_sum(tf.cast(flat > 0, tf.int32), 1), 1)
        utterances = get_bi_rnn_encode(input_embedding, fw, bw, utterance_lens, "sent_bi_rnn")
        response = get_bi_rnn_encode(output_embedding, fw, bw, output_lens, "sent_bi_rnn", reuse=True)
        utterances = tf.reshape(utterances, [-1, turns, 2 * SENT_CELL])
        joint = tf.concat([utterances, tf.one_hot(floors, depth=2, dtype=dtype)], 2)

    with tf.variable_scope("contextRNN"):
        cell = tf.nn.rnn_cell.LSTMCell(CONTEXT_CELL, forget_bias=1.0)
        _, enc_last_state = tf.nn.dynamic_rnn(cell, joint, dtype=dtype, sequence_length=context_lens)

    attribute_fc1 = fully_connected(act_embedding, 7, "attribute_fc1", activation_fn=tf.tanh)
    cond_embedding = tf.concat([topic_embedding, my_profile, ot_profile, enc_last_state.h], 1)

    with tf.variable_scope("recognitionNetwork"):
        recog_input = tf.concat([cond_embedding, response, attribute_fc1], 1)
        recog_mulogvar = fully_connected(recog_input, LATENT * 2, "muvar", activation_fn=None)
        recog_mu, recog_logvar = tf.split(recog_mulogvar, 2, axis=1)

    with tf.variable_scope("priorNetwork"):
        prior_fc1 = fully_connected(cond_embedding, 14, "fc1", activation_fn=tf.tanh)
        prior_mulogvar = fully_connected(prior_fc1, LATENT * 2, "muvar", activation_fn=None)
        prior_mu, prior_logvar = tf.split(prior_mulogvar, 2, axis=1)

    latent_sample = recog_mu + tf.exp(0.5 * recog_logvar) * epsilon

    with tf.variable_scope("generationNetwork"):
        gen_inputs = tf.concat([cond_embedding, latent_sample], 1)
        bow_fc1 = fully_connected(gen_inputs, 16, "bow_fc1", activation_fn=tf.tanh)
        bow_logits = fully_connected(bow_fc1, VOCAB, "bow_project", activation_fn=None)
        meta_fc1 = fully_connected(gen_inputs, 12, "meta_fc1", activation_fn=tf.tanh)
        da_logits = fully_connected(meta_fc1, ACTS, "da_project")
        dec_inputs = tf.concat([gen_inputs, act_embedding], 1)
        dec_init_h = fully_connected(dec_inputs, DEC_CELL, "init_state_h", activation_fn=None)
        dec_init_c = fully_connected(dec_inputs, DEC_CELL, "init_state_c", activation_fn=None)

    with tf.variable_scope("decoder"):
        dec_in = output_embedding[:, :-1, :]
        attribute = tf.tile(tf.expand_dims(act_embedding, 1), [1, tf.shape(dec_in)[1], 1])
        cell = tf.nn.rnn_cell.LSTMCell(DEC_CELL, forget_bias=1.0)
        dec_outs, _ = tf.nn.dynamic_rnn(cell, tf.concat([dec_in, attribute], 2), sequence_length=output_lens - 1,
                                        initial_state=tf.nn.rnn_cell.LSTMStateTuple(dec_init_c, dec_init_h))
        dec_logits = tf.layers.dense(dec_outs, VOCAB, name="output_projection")

    labels = output[:, 1:]
    label_mask = tf.cast(tf.sign(labels), dtype)
    rc_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=dec_logits, labels=labels)
    avg_rc_loss = tf.reduce_mean(tf.reduce_sum(rc_loss * label_mask, reduction_indices=1))
    tile_bow_logits = tf.tile(tf.expand_dims(bow_logits, 1), [1, tf.shape(labels)[1], 1])
    bow_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=tile_bow_logits, labels=labels) * label_mask
    avg_bow_loss = tf.reduce_mean(tf.reduce_sum(bow_loss, reduction_indices=1))
    avg_da_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=da_logits, labels=acts))
    avg_kld = tf.reduce_mean(gaussian_kld(recog_mu, recog_logvar, prior_mu, prior_logvar))
    elbo = avg_rc_loss + KL_WEIGHT * avg_kld
    aug_elbo = avg_bow_loss + avg_da_loss + elbo
    return aug_elbo, {"context": enc_last_state.h, "latent": latent_sample, "bow_logits": bow_logits, "da_logits": da_logits,
                      "dec_logits": dec_logits, "rc_loss": avg_rc_loss, "bow_loss": avg_bow_loss, "da_loss": avg_da_loss,
                      "kld": avg_kld}
