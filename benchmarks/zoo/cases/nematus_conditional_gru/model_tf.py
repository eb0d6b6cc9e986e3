"""Attentional translation with a conditional GRU (Nematus): two transitions per target word with the attention between them,
a bidirectional encoder, and a deep output whose last matrix is the table of target embeddings."""
import tensorflow.compat.v1 as tf

SOURCE_VOCAB = 41
TARGET_VOCAB = 37
EMBEDDING_SIZE = 16
STATE_SIZE = 18
ATTENTION_SIZE = 14
LABEL_SMOOTHING = 0.1


def norm_weight(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.random_normal_initializer(stddev=0.1, dtype=dtype))


def ortho_weight(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.orthogonal_initializer(dtype=dtype))


def zeros(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.zeros_initializer())


def matmul3d(x3d, matrix):
    shape = tf.shape(x3d)
    result2d = tf.matmul(tf.reshape(x3d, [shape[0] * shape[1], shape[2]]), matrix)
    return tf.reshape(result2d, [shape[0], shape[1], tf.shape(matrix)[1]])


class FeedForwardLayer(object):
    def __init__(self, in_size, out_size, dtype, non_linearity=tf.nn.tanh):
        self.W = norm_weight("W", [in_size, out_size], dtype)
        self.b = zeros("b", [out_size], dtype)
        self.non_linearity = non_linearity

    def forward(self, x, input_is_3d=False):
        y = matmul3d(x, self.W) + self.b if input_is_3d else tf.matmul(x, self.W) + self.b
        return self.non_linearity(y)


class GRUStep(object):
    def __init__(self, input_size, state_size, dtype):
        self.state_to_gates = ortho_weight("state_to_gates", [state_size, 2 * state_size], dtype)
        self.input_to_gates = norm_weight("input_to_gates", [input_size, 2 * state_size], dtype)
        self.gates_bias = zeros("gates_bias", [2 * state_size], dtype)
        self.state_to_proposal = ortho_weight("state_to_proposal", [state_size, state_size], dtype)
        self.input_to_proposal = norm_weight("input_to_proposal", [input_size, state_size], dtype)
        self.proposal_bias = zeros("proposal_bias", [state_size], dtype)

    def precompute_from_x(self, x):
        return matmul3d(x, self.input_to_gates) + self.gates_bias, matmul3d(x, self.input_to_proposal) + self.proposal_bias

    def forward(self, prev_state, x=None, gates_x=None, proposal_x=None):
        if gates_x is None:
            gates_x = tf.matmul(x, self.input_to_gates) + self.gates_bias
            proposal_x = tf.matmul(x, self.input_to_proposal) + self.proposal_bias
        gates = tf.nn.sigmoid(gates_x + tf.matmul(prev_state, self.state_to_gates))
        read_gate, update_gate = tf.split(gates, num_or_size_splits=2, axis=1)
        proposal = tf.tanh(tf.matmul(prev_state, self.state_to_proposal) * read_gate + proposal_x)
        return update_gate * prev_state + (1 - update_gate) * proposal


class AttentionStep(object):
    def __init__(self, context, context_mask, dtype):
        self.state_to_hidden = norm_weight("state_to_hidden", [STATE_SIZE, ATTENTION_SIZE], dtype)
        self.context_to_hidden = norm_weight("context_to_hidden", [2 * STATE_SIZE, ATTENTION_SIZE], dtype)
        self.hidden_bias = zeros("hidden_bias", [ATTENTION_SIZE], dtype)
        self.hidden_to_score = norm_weight("hidden_to_score", [ATTENTION_SIZE, 1], dtype)
        self.context, self.context_mask = context, context_mask
        self.hidden_from_context = matmul3d(context, self.context_to_hidden) + self.hidden_bias

    def forward(self, prev_state):
        hidden = tf.nn.tanh(self.hidden_from_context + tf.matmul(prev_state, self.state_to_hidden))
        scores = tf.squeeze(matmul3d(hidden, self.hidden_to_score), axis=2)
        scores = tf.exp(scores - tf.reduce_max(scores, axis=0, keepdims=True)) * self.context_mask
        scores = scores / tf.reduce_sum(scores, axis=0, keepdims=True)
        return tf.reduce_sum(self.context * tf.expand_dims(scores, axis=2), axis=0)


class Encoder(object):
    def __init__(self, dtype):
        self.dtype = dtype
        with tf.variable_scope("embedding"):
            self.embeddings = norm_weight("embeddings", [SOURCE_VOCAB, EMBEDDING_SIZE], dtype)
        with tf.variable_scope("forwardEncoder"):
            self.gru_forward = GRUStep(EMBEDDING_SIZE, STATE_SIZE, dtype)
        with tf.variable_scope("backwardEncoder"):
            self.gru_backward = GRUStep(EMBEDDING_SIZE, STATE_SIZE, dtype)

    def run(self, gru, embs, x_mask):
        init_state = tf.zeros([tf.shape(embs)[1], STATE_SIZE], self.dtype)
        gates_x, proposal_x = gru.precompute_from_x(embs)

        def step_fn(prev_state, x):
            gates_x2d, proposal_x2d, mask = x
            new_state = gru.forward(prev_state, gates_x=gates_x2d, proposal_x=proposal_x2d)
            mask = tf.expand_dims(mask, 1)
            return mask * new_state + (1 - mask) * prev_state

        return tf.scan(step_fn, (gates_x, proposal_x, x_mask), initializer=init_state)

    def get_context(self, x, x_mask):
        embs = tf.nn.embedding_lookup(self.embeddings, x)
        forward = self.run(self.gru_forward, embs, x_mask)
        backward = self.run(self.gru_backward, tf.reverse(embs, axis=[0]), tf.reverse(x_mask, axis=[0]))
        return tf.concat([forward, tf.reverse(backward, axis=[0])], axis=2)


class Decoder(object):
    def __init__(self, context, x_mask, dtype):
        self.context = context
        with tf.variable_scope("initial_state_constructor"):
            mask = tf.expand_dims(x_mask, 2)
            context_mean = tf.reduce_sum(context * mask, axis=0) / tf.reduce_sum(mask, axis=0)
            self.init_state = FeedForwardLayer(2 * STATE_SIZE, STATE_SIZE, dtype).forward(context_mean)
        with tf.variable_scope("embedding"):
            self.y_embeddings = norm_weight("embeddings", [TARGET_VOCAB, EMBEDDING_SIZE], dtype)
        with tf.variable_scope("gru_step1"):
            self.grustep1 = GRUStep(EMBEDDING_SIZE, STATE_SIZE, dtype)
        with tf.variable_scope("attention"):
            self.attstep = AttentionStep(context, x_mask, dtype)
        with tf.variable_scope("gru_step2"):
            self.grustep2 = GRUStep(2 * STATE_SIZE, STATE_SIZE, dtype)
        with tf.variable_scope("next_word_predictor"):
            with tf.variable_scope("prev_emb_to_hidden"):
                self.prev_emb_to_hidden = FeedForwardLayer(EMBEDDING_SIZE, EMBEDDING_SIZE, dtype, lambda y: y)
            with tf.variable_scope("state_to_hidden"):
                self.state_to_hidden = FeedForwardLayer(STATE_SIZE, EMBEDDING_SIZE, dtype, lambda y: y)
            with tf.variable_scope("attended_context_to_hidden"):
                self.context_to_hidden = FeedForwardLayer(2 * STATE_SIZE, EMBEDDING_SIZE, dtype, lambda y: y)
            self.out_bias = zeros("hidden_to_logits_b", [TARGET_VOCAB], dtype)

    def score(self, y):
        y_embs = tf.nn.embedding_lookup(self.y_embeddings, y)
        # the first word has no predecessor: zeros
        y_embs = tf.pad(y_embs[:-1], [[1, 0], [0, 0], [0, 0]])
        gates_x, proposal_x = self.grustep1.precompute_from_x(y_embs)

        def step_fn(prev, x):
            state = self.grustep1.forward(prev[0], gates_x=x[0], proposal_x=x[1])
            attended = self.attstep.forward(state)
            return self.grustep2.forward(state, x=attended), attended

        first = (self.init_state, tf.zeros_like(self.context[0]))
        states, attended = tf.scan(step_fn, (gates_x, proposal_x), initializer=first)
        hidden = tf.tanh(self.prev_emb_to_hidden.forward(y_embs, True) + self.state_to_hidden.forward(states, True)
                         + self.context_to_hidden.forward(attended, True))
        return states, matmul3d(hidden, tf.transpose(self.y_embeddings)) + self.out_bias


def masked_cross_entropy(y_true, y_mask, logits):
    uniform = LABEL_SMOOTHING / TARGET_VOCAB
    labels = tf.one_hot(y_true, TARGET_VOCAB, dtype=logits.dtype) * (1.0 - LABEL_SMOOTHING) + uniform
    cost = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_sum(cost * y_mask, axis=0)


def tower(x, x_mask, y, y_mask):
    dtype = x_mask.dtype
    x, x_mask, y, y_mask = [tf.transpose(t) for t in (x, x_mask, y, y_mask)]
    with tf.variable_scope("encoder"):
        context = Encoder(dtype).get_context(x, x_mask)
    with tf.variable_scope("decoder"):
        states, logits = Decoder(context, x_mask, dtype).score(y)
    loss_per_sentence = masked_cross_entropy(y, y_mask, logits)
    outputs = {"context": context, "states": states, "logits": logits}
    outputs = {name: tf.transpose(value, [1, 0, 2]) for name, value in outputs.items()}
    return tf.reduce_mean(loss_per_sentence), outputs
