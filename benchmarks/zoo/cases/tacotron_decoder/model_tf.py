"""Tacotron-like synthesiser: convolutional encoder, location-sensitive attention, two LSTM cells, postnet."""
import tensorflow.compat.v1 as tf


class hparams:
    characters = 24
    num_mels = 6
    outputs_per_step = 2
    embedding_dim = 16
    enc_conv_kernel = 5
    prenet_dim = 12
    attention_dim = 10
    attention_filters = 4
    attention_kernel = 5
    decoder_dim = 16
    postnet_channels = 12
    postnet_kernel = 5
    cross_entropy_pos_weight = 5.0
    priority_mels = 2
    reg_weight = 1e-3


def conv1d(inputs, kernel_size, channels, activation, is_training, scope):
    with tf.variable_scope(scope):
        output = tf.layers.conv1d(inputs, filters=channels, kernel_size=kernel_size, padding="same", use_bias=False)
        return activation(tf.layers.batch_normalization(output, training=is_training))


def encoder(text, text_lengths, dtype, is_training):
    with tf.variable_scope("encoder"):
        table = tf.get_variable("inputs_embedding", [hparams.characters, hparams.embedding_dim], dtype,
                                tf.truncated_normal_initializer(stddev=0.5))
        x = tf.nn.embedding_lookup(table, text)
        for i in range(2):
            x = conv1d(x, hparams.enc_conv_kernel, hparams.embedding_dim, tf.nn.relu, is_training,
                       "conv_layer_%d" % (i + 1))
        return x * tf.expand_dims(tf.sequence_mask(text_lengths, text.shape[1], dtype), 2)


class LocationSensitiveAttention(object):
    """Scores by the query, the memory, and where attention has been so far: v . tanh(Wq + Vm + Uf + b)."""

    def __init__(self, memory, memory_lengths):
        self.memory = memory
        self.dtype = memory.dtype
        self.mask = tf.sequence_mask(memory_lengths, memory.shape[1])
        self.keys = tf.layers.dense(memory, hparams.attention_dim, use_bias=False, name="memory_layer")

    def __call__(self, query, cumulated):
        with tf.variable_scope("Location_Sensitive_Attention", reuse=tf.AUTO_REUSE):
            query = tf.expand_dims(tf.layers.dense(query, hparams.attention_dim, use_bias=False, name="query_layer"), 1)
            f = tf.layers.conv1d(tf.expand_dims(cumulated, 2), hparams.attention_filters, hparams.attention_kernel,
                                 padding="same", name="location_features_convolution")
            f = tf.layers.dense(f, hparams.attention_dim, use_bias=False, name="location_features_layer")
            v_a = tf.get_variable("attention_variable_projection", [hparams.attention_dim], self.dtype,
                                  tf.glorot_uniform_initializer())
            b_a = tf.get_variable("attention_bias", [hparams.attention_dim], self.dtype, tf.zeros_initializer())
            energy = tf.reduce_sum(v_a * tf.tanh(self.keys + query + f + b_a), [2])
            energy = tf.where(self.mask, energy, tf.fill(tf.shape(energy), tf.constant(-1e9, self.dtype)))
            alignments = tf.nn.softmax(energy)
            context = tf.reduce_sum(tf.expand_dims(alignments, 2) * self.memory, axis=1)
        return context, alignments


def prenet(x):
    with tf.variable_scope("decoder_prenet", reuse=tf.AUTO_REUSE):
        for i in range(2):
            x = tf.layers.dense(x, hparams.prenet_dim, activation=tf.nn.relu, name="dense_%d" % (i + 1))
    return x


def decoder(memory, memory_lengths, mel_targets):
    """Teacher forcing: each step reads the last frame of the group before, the first one zeros."""
    dtype = memory.dtype
    r = hparams.outputs_per_step
    batch, steps = tf.shape(memory)[0], mel_targets.shape.as_list()[1] // r
    with tf.variable_scope("decoder"):
        attention = LocationSensitiveAttention(memory, memory_lengths)
        attention_cell = tf.nn.rnn_cell.LSTMCell(hparams.decoder_dim, name="attention_lstm")
        decoder_cell = tf.nn.rnn_cell.LSTMCell(hparams.decoder_dim, name="decoder_lstm")
        attention_state = attention_cell.zero_state(batch, dtype)
        decoder_state = decoder_cell.zero_state(batch, dtype)
        context = tf.zeros_like(memory[:, 0])
        cumulated = tf.zeros_like(memory[:, :, 0])
        frame = tf.zeros_like(mel_targets[:, 0])
        frames, stops, alignments = [], [], []
        for t in range(steps):
            cell_inputs = tf.concat([prenet(frame), context], axis=-1)
            query, attention_state = attention_cell(cell_inputs, attention_state)
            context, weights = attention(query, cumulated)
            cumulated += weights
            output, decoder_state = decoder_cell(tf.concat([query, context], axis=-1), decoder_state)
            projections = tf.concat([output, context], axis=-1)
            frames.append(tf.layers.dense(projections, hparams.num_mels * r, name="linear_transform_projection",
                                          reuse=tf.AUTO_REUSE))
            stops.append(tf.layers.dense(projections, r, name="stop_token_projection", reuse=tf.AUTO_REUSE))
            alignments.append(weights)
            frame = mel_targets[:, (t + 1) * r - 1]
        decoder_output = tf.reshape(tf.stack(frames, axis=1), [-1, steps * r, hparams.num_mels])
        stop_logits = tf.reshape(tf.stack(stops, axis=1), [-1, steps * r])
    return decoder_output, stop_logits, tf.stack(alignments, axis=1)


def postnet(decoder_output, is_training):
    with tf.variable_scope("postnet"):
        x = conv1d(decoder_output, hparams.postnet_kernel, hparams.postnet_channels, tf.tanh, is_training, "conv_layer_1")
        return decoder_output + tf.layers.dense(x, hparams.num_mels, name="postnet_projection")


def tower(text, text_lengths, mels, mel_lengths, training=True):
    dtype = mels.dtype
    num_frames = mels.shape.as_list()[1]
    memory = encoder(text, text_lengths, dtype, training)
    before, stop_logits, alignments = decoder(memory, text_lengths, mels)
    after = postnet(before, training)
    with tf.variable_scope("loss"):
        mask = tf.sequence_mask(mel_lengths, num_frames, dtype)
        ratio = tf.expand_dims(mask, 2) / (tf.reduce_sum(mask) * hparams.num_mels)
        before_loss = tf.reduce_sum(tf.square(mels - before) * ratio)
        after_loss = tf.reduce_sum(tf.square(mels - after) * ratio)
        # half of the L1 loss is for the low frequencies
        l1 = tf.abs(mels - after) * tf.expand_dims(mask, 2)
        n = hparams.priority_mels
        linear_loss = 0.5 * tf.reduce_mean(l1) + 0.5 * tf.reduce_mean(l1[:, :, 0:n])
        stop_targets = 1.0 - tf.sequence_mask(mel_lengths - 1, num_frames, dtype)
        xent = tf.nn.weighted_cross_entropy_with_logits(labels=stop_targets, logits=stop_logits,
                                                        pos_weight=hparams.cross_entropy_pos_weight)
        stop_loss = tf.reduce_sum(xent * mask) / tf.reduce_sum(mask)
        regularization = hparams.reg_weight * tf.add_n(
            [tf.nn.l2_loss(v) for v in tf.trainable_variables()
             if not any(s in v.name.lower() for s in ["bias", "embedding", "batch_normalization"])])
        loss = before_loss + after_loss + linear_loss + stop_loss + regularization
    return loss, {"memory": memory, "alignments": alignments, "before": before, "stop_logits": stop_logits,
                  "after": after, "before_loss": before_loss, "after_loss": after_loss, "linear_loss": linear_loss,
                  "stop_loss": stop_loss}
