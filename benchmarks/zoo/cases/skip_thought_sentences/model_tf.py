"""Skip-thoughts: a sentence is encoded by GRUs with layer normalisation, from whose last states two decoders tell the sentence before
and the one behind; both share the matrix of the logits."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 45
WORD_EMBEDDING_DIM = 14
ENCODER_DIM = 20
UNIFORM_INIT_SCALE = 0.1


def _layer_norm(inputs, scope):
    """As tf.contrib.layers.layer_norm has it."""
    with tf.variable_scope(scope):
        size = inputs.get_shape().as_list()[-1]
        beta = tf.get_variable("beta", [size], inputs.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [size], inputs.dtype, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [1], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=1e-12)


class LayerNormGRUCell(tf.nn.rnn_cell.RNNCell):
    def __init__(self, num_units):
        super(LayerNormGRUCell, self).__init__()
        self._num_units = num_units

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, scope=None):
        input_dim = inputs.get_shape().as_list()[1]
        n, dtype = self._num_units, inputs.dtype
        uniform = tf.random_uniform_initializer(-UNIFORM_INIT_SCALE, UNIFORM_INIT_SCALE, dtype=dtype)
        orthonormal = tf.orthogonal_initializer(dtype=dtype)
        with tf.variable_scope(scope or "gru_cell"):
            with tf.variable_scope("gates"):
                w_h = tf.get_variable("w_h", [n, 2 * n], dtype, initializer=orthonormal)
                w_x = tf.get_variable("w_x", [input_dim, 2 * n], dtype, initializer=uniform)
                z_and_r = _layer_norm(tf.matmul(state, w_h), "layer_norm/w_h") + _layer_norm(tf.matmul(inputs, w_x), "layer_norm/w_x")
                z, r = tf.split(tf.sigmoid(z_and_r), 2, 1)
            with tf.variable_scope("candidate"):
                w = tf.get_variable("w", [input_dim, n], dtype, initializer=uniform)
                u = tf.get_variable("u", [n, n], dtype, initializer=orthonormal)
                h_hat = _layer_norm(tf.matmul(r * state, u), "layer_norm/u") + _layer_norm(tf.matmul(inputs, w), "layer_norm/w")
            new_h = (1 - z) * state + z * tf.nn.tanh(h_hat)
        return new_h, new_h


class SkipThoughtsModel(object):
    def __init__(self, ids, masks):
        self.ids, self.masks = ids, masks
        self.dtype = masks["encode"].dtype
        self.losses, self.outputs = [], {}

    def build(self):
        self.uniform_initializer = tf.random_uniform_initializer(-UNIFORM_INIT_SCALE, UNIFORM_INIT_SCALE, dtype=self.dtype)
        word_emb = tf.get_variable("word_embedding", [VOCAB_SIZE, WORD_EMBEDDING_DIM], self.dtype,
                                   initializer=self.uniform_initializer)
        self.emb = {name: tf.nn.embedding_lookup(word_emb, ids) for name, ids in self.ids.items()}
        with tf.variable_scope("encoder") as scope:
            length = tf.cast(tf.reduce_sum(self.masks["encode"], 1), tf.int32)
            _, states = tf.nn.bidirectional_dynamic_rnn(
                cell_fw=LayerNormGRUCell(ENCODER_DIM // 2), cell_bw=LayerNormGRUCell(ENCODER_DIM // 2),
                inputs=self.emb["encode"], sequence_length=length, dtype=self.dtype, scope=scope)
            self.thought_vectors = tf.concat(states, 1, name="thought_vectors")
        self.outputs["thought_vectors"] = self.thought_vectors
        self.build_decoder("decode_pre", reuse_logits=False)
        self.build_decoder("decode_post", reuse_logits=True)
        return tf.add_n(self.losses), self.outputs

    def build_decoder(self, name, reuse_logits):
        embeddings, mask = self.emb[name], self.masks[name]
        with tf.variable_scope(name) as scope:
            decoder_input = tf.pad(embeddings[:, :-1, :], [[0, 0], [1, 0], [0, 0]])
            length = tf.cast(tf.reduce_sum(mask, 1), tf.int32)
            decoder_output, _ = tf.nn.dynamic_rnn(LayerNormGRUCell(ENCODER_DIM), decoder_input, sequence_length=length,
                                                  initial_state=self.thought_vectors, scope=scope)
        self.outputs[name] = decoder_output
        flat = tf.reshape(decoder_output, [-1, ENCODER_DIM])
        with tf.variable_scope("logits", reuse=reuse_logits):
            weights = tf.get_variable("weights", [ENCODER_DIM, VOCAB_SIZE], self.dtype, initializer=self.uniform_initializer)
            biases = tf.get_variable("biases", [VOCAB_SIZE], self.dtype, initializer=tf.zeros_initializer())
            logits = tf.nn.bias_add(tf.matmul(flat, weights), biases)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(self.ids[name], [-1]), logits=logits)
        batch_loss = tf.reduce_sum(losses * tf.reshape(mask, [-1]))
        self.outputs["loss_" + name] = batch_loss
        self.losses.append(batch_loss)


def tower(encode_ids, encode_mask, decode_pre_ids, decode_pre_mask, decode_post_ids, decode_post_mask):
    ids = {"encode": encode_ids, "decode_pre": decode_pre_ids, "decode_post": decode_post_ids}
    masks = {"encode": encode_mask, "decode_pre": decode_pre_mask, "decode_post": decode_post_mask}
    return SkipThoughtsModel(ids, masks).build()
