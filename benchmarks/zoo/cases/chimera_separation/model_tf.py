"""Chimera network for speech separation: bidirectional LSTMs with two heads, the embeddings of deep clustering and masks, the latter
trained without regard to the order of the speakers."""
import tensorflow.compat.v1 as tf

FRAMES_PER_SAMPLE, NEFF, EMBBEDDING_D = 10, 9, 4
N_HIDDEN = 7
ALPHA = 0.3
GLOBAL_MEAN, GLOBAL_STD = -1.3, 1.2


class Model(object):
    def __init__(self, n_hidden, training):
        self.n_hidden = n_hidden
        self.training = training

    def blstm(self, x, scope):
        with tf.variable_scope(scope):
            lstm_fw_cell = tf.nn.rnn_cell.LSTMCell(self.n_hidden)
            lstm_bw_cell = tf.nn.rnn_cell.LSTMCell(self.n_hidden)
            outputs, _ = tf.nn.bidirectional_dynamic_rnn(lstm_fw_cell, lstm_bw_cell, x, dtype=x.dtype)
            return tf.concat(outputs, 2)

    def inference(self, x):
        x = (tf.log(x + 1e-3) - GLOBAL_MEAN) / GLOBAL_STD
        state_concate = self.blstm(x, "BLSTM1")
        state_concate2 = self.blstm(state_concate, "BLSTM2")
        hidden = tf.layers.batch_normalization(state_concate2, axis=-1, momentum=0.9, epsilon=1e-3, training=self.training,
                                               fused=False, name="bn")
        out_concate = tf.reshape(hidden, [-1, self.n_hidden * 2])
        emb_out = tf.nn.tanh(tf.layers.dense(out_concate, EMBBEDDING_D * NEFF, name="embedding"))
        reshaped_emb = tf.reshape(emb_out, [-1, FRAMES_PER_SAMPLE * NEFF, EMBBEDDING_D])
        normalized_emb = tf.nn.l2_normalize(reshaped_emb, 2)
        mask_out = tf.layers.dense(out_concate, 2 * NEFF, name="mask")
        masks = tf.nn.softmax(tf.reshape(mask_out, [-1, FRAMES_PER_SAMPLE, NEFF, 2]), axis=3)
        return hidden, normalized_emb, masks

    def clustering_loss(self, embeddings, Y, VAD):
        VAD_rs = tf.reshape(VAD, [-1, FRAMES_PER_SAMPLE * NEFF, 1])
        embeddings_v = embeddings * VAD_rs
        Y_v = tf.reshape(Y, [-1, FRAMES_PER_SAMPLE * NEFF, 2]) * VAD_rs
        loss_batch = tf.nn.l2_loss(tf.matmul(embeddings_v, embeddings_v, transpose_a=True)) - \
            2 * tf.nn.l2_loss(tf.matmul(embeddings_v, Y_v, transpose_a=True)) + \
            tf.nn.l2_loss(tf.matmul(Y_v, Y_v, transpose_a=True))
        return loss_batch / tf.cast(tf.shape(embeddings)[0], embeddings.dtype) / (FRAMES_PER_SAMPLE * NEFF)

    def mask_loss(self, masks, mixture, sources):
        estimate = masks * tf.expand_dims(mixture, 3)
        straight = tf.reduce_mean(tf.square(estimate - sources), axis=[1, 2, 3])
        crossed = tf.reduce_mean(tf.square(estimate - tf.reverse(sources, axis=[3])), axis=[1, 2, 3])
        return tf.reduce_mean(tf.minimum(straight, crossed))


def tower(mixture, sources, Y, VAD, training=True):
    model = Model(N_HIDDEN, training)
    hidden, embeddings, masks = model.inference(mixture)
    dc = model.clustering_loss(embeddings, Y, VAD)
    mi = model.mask_loss(masks, mixture, sources)
    return ALPHA * dc + (1 - ALPHA) * mi, {"hidden": hidden, "embeddings": embeddings, "masks": masks, "dc_loss": dc, "mi_loss": mi}
