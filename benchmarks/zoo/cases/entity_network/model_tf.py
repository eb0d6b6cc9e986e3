"""A recurrent entity network for questions about stories: gated memory blocks whose keys are word embeddings.

`weights` says how much each question counts; everything follows its dtype.
"""
import tensorflow.compat.v1 as tf

VOCAB, UNITS, BLOCKS = 40, 20, 5


def prelu(features, name):
    with tf.variable_scope(name):
        alpha = tf.get_variable('alpha', [int(features.shape[-1])], features.dtype, tf.constant_initializer(1.0))
        positives = tf.nn.relu(features)
        negatives = alpha * (features - tf.abs(features)) * 0.5
        return positives + negatives


class DynamicMemoryCell(tf.nn.rnn_cell.RNNCell):
    """Its state is divided into blocks that share the weights U, V and W."""

    def __init__(self, num_blocks, num_units, keys, initializer):
        self._num_blocks = num_blocks
        self._num_units = num_units
        self._keys = keys
        self._initializer = initializer

    @property
    def state_size(self):
        return self._num_blocks * self._num_units

    @property
    def output_size(self):
        return self._num_blocks * self._num_units

    def zero_state(self, batch_size, dtype):
        keys = tf.reshape(tf.stack(self._keys), [1, -1])
        return tf.tile(keys, [batch_size, 1])

    def get_gate(self, state_j, key_j, inputs):
        a = tf.reduce_sum(inputs * state_j, axis=1)
        b = tf.reduce_sum(inputs * key_j, axis=1)
        return tf.sigmoid(a + b)

    def get_candidate(self, state_j, key_j, inputs, U, V, W, U_bias):
        key_V = tf.matmul(key_j, V)
        state_U = tf.matmul(state_j, U) + U_bias
        inputs_W = tf.matmul(inputs, W)
        return prelu(state_U + inputs_W + key_V, 'activation')

    def __call__(self, inputs, state, scope=None):
        dtype, n = inputs.dtype, self._num_units
        with tf.variable_scope(scope or type(self).__name__, initializer=self._initializer, reuse=tf.AUTO_REUSE):
            U = tf.get_variable('U', [n, n], dtype)
            V = tf.get_variable('V', [n, n], dtype)
            W = tf.get_variable('W', [n, n], dtype)
            U_bias = tf.get_variable('U_bias', [n], dtype)
            next_states = []
            for j, state_j in enumerate(tf.split(state, self._num_blocks, axis=1)):
                key_j = tf.expand_dims(self._keys[j], axis=0)
                gate_j = self.get_gate(state_j, key_j, inputs)
                candidate_j = self.get_candidate(state_j, key_j, inputs, U, V, W, U_bias)
                state_j_next = state_j + tf.expand_dims(gate_j, -1) * candidate_j
                norm = tf.norm(state_j_next, ord='euclidean', axis=-1, keepdims=True)
                norm = tf.where(tf.greater(norm, 0.0), norm, tf.ones_like(norm))
                next_states.append(state_j_next / norm)
            state_next = tf.concat(next_states, axis=1)
        return state_next, state_next


def get_input_encoding(inputs, initializer, scope):
    with tf.variable_scope(scope, initializer=initializer):
        _, _, max_sentence_length, units = inputs.get_shape().as_list()
        mask = tf.get_variable('positional_mask', [max_sentence_length, units], inputs.dtype)
        return tf.reduce_sum(inputs * mask, axis=2)


def get_sequence_length(story):
    used = tf.cast(tf.reduce_any(tf.greater(story, 0), axis=2), tf.int32)
    return tf.reduce_sum(used, axis=1)


def get_output(last_state, encoded_query, initializer):
    with tf.variable_scope('Output', initializer=initializer):
        dtype = last_state.dtype
        last_state = tf.stack(tf.split(last_state, BLOCKS, axis=1), axis=1)
        attention = tf.reduce_sum(last_state * encoded_query, axis=2)
        attention = tf.nn.softmax(attention - tf.reduce_max(attention, axis=-1, keepdims=True))
        u = tf.reduce_sum(last_state * tf.expand_dims(attention, 2), axis=1)
        R = tf.get_variable('R', [UNITS, VOCAB], dtype)
        H = tf.get_variable('H', [UNITS, UNITS], dtype)
        q = tf.squeeze(encoded_query, axis=1)
        return tf.matmul(prelu(q + tf.matmul(u, H), 'activation'), R)


def weighted_loss(losses, weights):
    """As tf.losses has it by default: summed, and divided by how many weights are not zero."""
    present = tf.reduce_sum(tf.cast(tf.not_equal(weights, 0.0), losses.dtype))
    return tf.reduce_sum(losses * weights) / tf.maximum(present, 1.0)


def tower(story, query, answer, weights):
    dtype = weights.dtype
    normal = tf.random_normal_initializer(stddev=0.3)
    ones = tf.constant_initializer(1.0)
    with tf.variable_scope('EntityNetwork'):
        embedding_params = tf.get_variable('embedding_params', [VOCAB, UNITS], dtype, normal)
        padding = tf.constant([0.0 if i == 0 else 1.0 for i in range(VOCAB)], dtype, shape=[VOCAB, 1])
        embeddings = embedding_params * padding
        story_embedding = tf.nn.embedding_lookup(embeddings, story)
        query_embedding = tf.nn.embedding_lookup(embeddings, query)
        encoded_story = get_input_encoding(story_embedding, ones, 'StoryEncoding')
        encoded_query = get_input_encoding(query_embedding, ones, 'QueryEncoding')
        keys = [tf.nn.embedding_lookup(embeddings, VOCAB - BLOCKS + j) for j in range(BLOCKS)]
        cell = DynamicMemoryCell(BLOCKS, UNITS, keys, normal)
        initial_state = cell.zero_state(tf.shape(story)[0], dtype)
        _, last_state = tf.nn.dynamic_rnn(cell, encoded_story, sequence_length=get_sequence_length(story),
                                          initial_state=initial_state)
        logits = get_output(last_state, encoded_query, normal)
    loss = weighted_loss(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=answer, logits=logits), weights)
    memory = tf.reshape(last_state, [-1, BLOCKS, UNITS])
    return loss, {'query': tf.squeeze(encoded_query, axis=1), 'memory': memory, 'logits': logits}
