"""Visual-semantic embeddings with the hardest negatives: regions and boxes on one side, a bidirectional GRU on the other."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 40
WORD_DIM = 11
HIDDEN_DIM = 15
EMBED_SIZE = 18
MARGIN = 0.2


def image_encoder(regions, boxes):
    with tf.variable_scope("image_encoder"):
        width = boxes[:, :, 2:3] - boxes[:, :, 0:1]
        height = boxes[:, :, 3:4] - boxes[:, :, 1:2]
        spatial = tf.concat([boxes, width * height], axis=2)
        features = tf.concat([regions, spatial], axis=2)
        hidden = tf.layers.dense(features, 20, activation=tf.nn.relu, name="region_fc")
        attention = tf.nn.softmax(tf.layers.dense(hidden, 1, use_bias=False, name="saliency"), axis=1)
        pooled = tf.reduce_sum(attention * hidden, axis=1)
        embedded = tf.layers.dense(pooled, EMBED_SIZE, name="fc")
        return tf.nn.l2_normalize(embedded, 1)


def caption_encoder(words, lengths, dtype):
    with tf.variable_scope("caption_encoder"):
        table = tf.get_variable("word_embeddings", [VOCAB_SIZE, WORD_DIM], dtype=dtype,
                                initializer=tf.random_uniform_initializer(-0.5, 0.5, dtype=dtype))
        inputs = tf.nn.embedding_lookup(table, words)
        cell_fw = tf.nn.rnn_cell.GRUCell(HIDDEN_DIM)
        cell_bw = tf.nn.rnn_cell.GRUCell(HIDDEN_DIM)
        (out_fw, out_bw), _ = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, sequence_length=lengths, dtype=dtype)
        outputs = (out_fw + out_bw) / 2
        mean = tf.reduce_sum(outputs, axis=1) / tf.expand_dims(tf.cast(lengths, dtype), 1)
        embedded = tf.layers.dense(mean, EMBED_SIZE, name="fc")
        return tf.nn.l2_normalize(embedded, 1)


def contrastive_loss(im, s):
    scores = tf.matmul(im, s, transpose_b=True)
    n = scores.get_shape().as_list()[0] or tf.shape(scores)[0]
    diagonal = tf.reshape(tf.diag_part(scores), [-1, 1])
    cost_s = tf.nn.relu(MARGIN + scores - diagonal)
    cost_im = tf.nn.relu(MARGIN + scores - tf.transpose(diagonal))
    not_own = 1.0 - tf.eye(n, dtype=scores.dtype)
    cost_s, cost_im = cost_s * not_own, cost_im * not_own
    loss = tf.reduce_sum(tf.reduce_max(cost_s, axis=1)) + tf.reduce_sum(tf.reduce_max(cost_im, axis=0))
    hits = tf.equal(tf.argmax(scores, 1, output_type=tf.int32), tf.range(n))
    return loss, scores, tf.reduce_mean(tf.cast(hits, scores.dtype))


def tower(regions, boxes, words, lengths):
    im = image_encoder(regions, boxes)
    s = caption_encoder(words, lengths, regions.dtype)
    loss, scores, recall = contrastive_loss(im, s)
    return loss, {"image": im, "caption": s, "scores": scores, "recall_at_1": recall}
