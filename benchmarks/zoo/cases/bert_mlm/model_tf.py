"""Masked language model with next-sentence head, written like the first published BERT pre-training script: post-norm encoder
on flattened matrices, masked positions gathered by flat offsets, output weights tied to the embedding table, and the Adam with
decoupled weight decay and no bias correction that came with it."""
import math
import re

import tensorflow.compat.v1 as tf

VOCAB_SIZE = 67
HIDDEN_SIZE = 28
NUM_LAYERS = 2
NUM_HEADS = 4
INTERMEDIATE_SIZE = 40
MAX_POSITIONS = 20
TYPE_VOCAB_SIZE = 2
INITIALIZER_RANGE = 0.02


def create_initializer():
    return tf.truncated_normal_initializer(stddev=INITIALIZER_RANGE)


def gelu(x):
    return x * 0.5 * (1.0 + tf.erf(x / math.sqrt(2.0)))


def layer_norm(x, name="LayerNorm"):
    with tf.variable_scope(name):
        size = x.shape.as_list()[-1]
        beta = tf.get_variable("beta", [size], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [size], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation=activation, name=name, kernel_initializer=create_initializer())


def embedding_postprocessor(word, token_type_ids, seq_length):
    dtype = word.dtype
    type_table = tf.get_variable("token_type_embeddings", [TYPE_VOCAB_SIZE, HIDDEN_SIZE], dtype, create_initializer())
    one_hot = tf.one_hot(tf.reshape(token_type_ids, [-1]), TYPE_VOCAB_SIZE, dtype=dtype)
    output = word + tf.reshape(tf.matmul(one_hot, type_table), tf.shape(word))
    positions = tf.get_variable("position_embeddings", [MAX_POSITIONS, HIDDEN_SIZE], dtype, create_initializer())
    output += tf.slice(positions, [0, 0], [seq_length, -1])[None]
    return layer_norm(output)


def attention_layer(x, attention_mask, batch_size, seq_length):
    size_per_head = HIDDEN_SIZE // NUM_HEADS

    def transpose_for_scores(tensor):
        tensor = tf.reshape(tensor, [batch_size, seq_length, NUM_HEADS, size_per_head])
        return tf.transpose(tensor, [0, 2, 1, 3])

    query = transpose_for_scores(dense(x, HIDDEN_SIZE, "query"))
    key = transpose_for_scores(dense(x, HIDDEN_SIZE, "key"))
    value = transpose_for_scores(dense(x, HIDDEN_SIZE, "value"))
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / math.sqrt(float(size_per_head)))
    scores += (1.0 - tf.cast(tf.expand_dims(attention_mask, axis=[1]), x.dtype)) * -10000.0
    context = tf.matmul(tf.nn.softmax(scores), value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch_size * seq_length, HIDDEN_SIZE])


def transformer(x, attention_mask, batch_size, seq_length):
    prev_output = tf.reshape(x, [-1, HIDDEN_SIZE])
    for layer in range(NUM_LAYERS):
        with tf.variable_scope("layer_%d" % layer):
            layer_input = prev_output
            with tf.variable_scope("attention"):
                with tf.variable_scope("self"):
                    heads = attention_layer(layer_input, attention_mask, batch_size, seq_length)
                with tf.variable_scope("output"):
                    attention_output = layer_norm(dense(heads, HIDDEN_SIZE, "dense") + layer_input)
            with tf.variable_scope("intermediate"):
                intermediate = dense(attention_output, INTERMEDIATE_SIZE, "dense", gelu)
            with tf.variable_scope("output"):
                prev_output = layer_norm(dense(intermediate, HIDDEN_SIZE, "dense") + attention_output)
    return tf.reshape(prev_output, [batch_size, seq_length, HIDDEN_SIZE])


def gather_indexes(sequence, positions, batch_size, seq_length):
    offsets = tf.reshape(tf.range(0, batch_size, dtype=tf.int32) * seq_length, [-1, 1])
    flat_positions = tf.reshape(positions + offsets, [-1])
    return tf.gather(tf.reshape(sequence, [batch_size * seq_length, HIDDEN_SIZE]), flat_positions)


def tower(input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights, next_sentence_labels):
    dtype = masked_lm_weights.dtype
    batch_size = tf.shape(input_ids)[0]
    seq_length = input_ids.shape.as_list()[1]
    with tf.variable_scope("bert"):
        with tf.variable_scope("embeddings"):
            table = tf.get_variable("word_embeddings", [VOCAB_SIZE, HIDDEN_SIZE], dtype, create_initializer())
            word = tf.reshape(tf.gather(table, tf.reshape(input_ids, [-1])), [batch_size, seq_length, HIDDEN_SIZE])
            embedded = embedding_postprocessor(word, segment_ids, seq_length)
        with tf.variable_scope("encoder"):
            to_mask = tf.cast(tf.reshape(input_mask, [batch_size, 1, seq_length]), dtype)
            attention_mask = tf.ones([batch_size, seq_length, 1], dtype) * to_mask
            sequence_output = transformer(embedded, attention_mask, batch_size, seq_length)
        with tf.variable_scope("pooler"):
            first_token = tf.squeeze(sequence_output[:, 0:1, :], axis=1)
            pooled_output = dense(first_token, HIDDEN_SIZE, "dense", tf.tanh)

    with tf.variable_scope("cls/predictions"):
        x = gather_indexes(sequence_output, masked_lm_positions, batch_size, seq_length)
        with tf.variable_scope("transform"):
            x = layer_norm(dense(x, HIDDEN_SIZE, "dense", gelu))
        output_bias = tf.get_variable("output_bias", [VOCAB_SIZE], dtype, tf.zeros_initializer())
        lm_logits = tf.nn.bias_add(tf.matmul(x, table, transpose_b=True), output_bias)
        log_probs = tf.nn.log_softmax(lm_logits, axis=-1)
        label_weights = tf.reshape(masked_lm_weights, [-1])
        one_hot_labels = tf.one_hot(tf.reshape(masked_lm_ids, [-1]), VOCAB_SIZE, dtype=dtype)
        per_example_loss = -tf.reduce_sum(log_probs * one_hot_labels, axis=[-1])
        numerator = tf.reduce_sum(label_weights * per_example_loss)
        denominator = tf.reduce_sum(label_weights) + 1e-5
        masked_lm_loss = numerator / denominator

    with tf.variable_scope("cls/seq_relationship"):
        output_weights = tf.get_variable("output_weights", [2, HIDDEN_SIZE], dtype, create_initializer())
        output_bias = tf.get_variable("output_bias", [2], dtype, tf.zeros_initializer())
        nsp_logits = tf.nn.bias_add(tf.matmul(pooled_output, output_weights, transpose_b=True), output_bias)
        log_probs = tf.nn.log_softmax(nsp_logits, axis=-1)
        one_hot_labels = tf.one_hot(next_sentence_labels, 2, dtype=dtype)
        next_sentence_loss = tf.reduce_mean(-tf.reduce_sum(one_hot_labels * log_probs, axis=-1))

    total_loss = masked_lm_loss + next_sentence_loss
    return total_loss, {
        "embedded": embedded,
        "sequence_output": sequence_output,
        "pooled_output": pooled_output,
        "nsp_logits": nsp_logits,
        "masked_lm_loss": masked_lm_loss,
        "next_sentence_loss": next_sentence_loss,
    }


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """Adam without bias correction; the decay is added to the update, not to the gradient."""

    def __init__(self, learning_rate, weight_decay_rate=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 exclude_from_weight_decay=None, name="AdamWeightDecayOptimizer"):
        super().__init__(False, name)
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = exclude_from_weight_decay

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _do_use_weight_decay(self, name):
        return not any(re.search(pattern, name) for pattern in self.exclude_from_weight_decay or [])

    def _apply_dense(self, grad, var):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        next_m = self.beta_1 * m + (1.0 - self.beta_1) * grad
        next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(grad)
        update = next_m / (tf.sqrt(next_v) + self.epsilon)
        if self._do_use_weight_decay(var.op.name):
            update += self.weight_decay_rate * var
        next_var = var - self.learning_rate * update
        return tf.group(tf.assign(var, next_var), tf.assign(m, next_m), tf.assign(v, next_v))

    def _resource_apply_dense(self, grad, var):
        return self._apply_dense(grad, var)

    def _apply_sparse(self, grad, var):
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_dense(tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var))), var)


def optimizer():
    return AdamWeightDecayOptimizer(2e-3, weight_decay_rate=0.05, exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"])
