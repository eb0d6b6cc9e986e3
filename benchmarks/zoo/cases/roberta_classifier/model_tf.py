"""Sentence classifier on a RoBERTa encoder, after the kind of code that fine-tunes BERT in TF1: modeling.py and optimization.py
with RoBERTa's positions, which begin behind the padding index."""
import math
import re

import tensorflow.compat.v1 as tf

PAD_ID = 1
VOCAB_SIZE = 70
MAX_POSITIONS = 14
HIDDEN_SIZE = 24
NUM_HEADS = 3
INTERMEDIATE_SIZE = 40
NUM_LAYERS = 2
NUM_LABELS = 5

LEARNING_RATE = 2e-3
NUM_TRAIN_STEPS = 10
NUM_WARMUP_STEPS = 2
WEIGHT_DECAY = 0.01
LAYER_DECAY = 0.75


def create_initializer(initializer_range=0.02):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def gelu(x):
    cdf = 0.5 * (1.0 + tf.erf(x / math.sqrt(2.0)))
    return x * cdf


def layer_norm(x, name="LayerNorm"):
    with tf.variable_scope(name):
        size = x.shape.as_list()[-1]
        beta = tf.get_variable("beta", [size], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [size], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def embedding(input_ids, vocab_size, name, dtype):
    table = tf.get_variable(name, [vocab_size, HIDDEN_SIZE], dtype, create_initializer())
    return tf.nn.embedding_lookup(table, input_ids)


def make_positions(input_ids):
    not_pad = tf.cast(tf.not_equal(input_ids, PAD_ID), tf.int32)
    return tf.cumsum(not_pad, axis=1) * not_pad + PAD_ID


def transpose_for_scores(x, seq_length):
    x = tf.reshape(x, [-1, seq_length, NUM_HEADS, HIDDEN_SIZE // NUM_HEADS])
    return tf.transpose(x, [0, 2, 1, 3])


def attention_layer(x, input_mask):
    seq_length = x.shape.as_list()[1]
    query = tf.layers.dense(x, HIDDEN_SIZE, name="query", kernel_initializer=create_initializer())
    key = tf.layers.dense(x, HIDDEN_SIZE, name="key", kernel_initializer=create_initializer())
    value = tf.layers.dense(x, HIDDEN_SIZE, name="value", kernel_initializer=create_initializer())
    query, key, value = [transpose_for_scores(t, seq_length) for t in (query, key, value)]
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / math.sqrt(float(HIDDEN_SIZE // NUM_HEADS)))
    adder = (1.0 - input_mask[:, tf.newaxis, tf.newaxis, :]) * -10000.0
    probs = tf.nn.softmax(scores + adder)
    context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
    return tf.reshape(context, [-1, seq_length, HIDDEN_SIZE])


def transformer_layer(x, input_mask):
    with tf.variable_scope("attention"):
        with tf.variable_scope("self"):
            context = attention_layer(x, input_mask)
        with tf.variable_scope("output"):
            output = tf.layers.dense(context, HIDDEN_SIZE, name="dense", kernel_initializer=create_initializer())
            x = layer_norm(output + x)
    with tf.variable_scope("intermediate"):
        hidden = tf.layers.dense(x, INTERMEDIATE_SIZE, gelu, name="dense", kernel_initializer=create_initializer())
    with tf.variable_scope("output"):
        output = tf.layers.dense(hidden, HIDDEN_SIZE, name="dense", kernel_initializer=create_initializer())
        return layer_norm(output + x)


def layer_depth(name):
    """0 for the embeddings, 1 .. NUM_LAYERS for the encoder's, one more for what is on top of it."""
    if "embeddings" in name:
        return 0
    layer = re.search(r"layer_(\d+)/", name)
    return int(layer.group(1)) + 1 if layer else NUM_LAYERS + 1


def decay_loss():
    losses = []
    for var in tf.trainable_variables():
        if any(part in var.op.name for part in ("LayerNorm", "bias")):
            continue
        rate = WEIGHT_DECAY * LAYER_DECAY ** (NUM_LAYERS + 1 - layer_depth(var.op.name))
        losses.append(rate * tf.nn.l2_loss(var))
    return tf.add_n(losses)


def tower(input_ids, input_mask, labels):
    dtype = input_mask.dtype
    with tf.variable_scope("roberta"):
        with tf.variable_scope("embeddings"):
            x = embedding(input_ids, VOCAB_SIZE, "word_embeddings", dtype)
            x += embedding(make_positions(input_ids), MAX_POSITIONS, "position_embeddings", dtype)
            x = layer_norm(x)
        embedding_output = x
        with tf.variable_scope("encoder"):
            for i in range(NUM_LAYERS):
                with tf.variable_scope("layer_%d" % i):
                    x = transformer_layer(x, input_mask)
        with tf.variable_scope("pooler"):
            pooled = tf.layers.dense(x[:, 0], HIDDEN_SIZE, tf.tanh, name="dense", kernel_initializer=create_initializer())
    with tf.variable_scope("classifier"):
        logits = tf.layers.dense(pooled, NUM_LABELS, name="logits", kernel_initializer=create_initializer())
    log_probs = tf.nn.log_softmax(logits, axis=-1)
    one_hot_labels = tf.one_hot(labels, depth=NUM_LABELS, dtype=dtype)
    cross_entropy = tf.reduce_mean(-tf.reduce_sum(one_hot_labels * log_probs, axis=-1))
    loss = cross_entropy + decay_loss()
    return loss, {"embedding_output": embedding_output, "pooled": pooled, "logits": logits, "cross_entropy": cross_entropy}


def optimizer():
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.polynomial_decay(LEARNING_RATE, global_step, NUM_TRAIN_STEPS, end_learning_rate=0.0, power=1.0)
    steps_done = tf.cast(global_step, tf.float32)
    warmup_learning_rate = LEARNING_RATE * steps_done / NUM_WARMUP_STEPS
    is_warmup = tf.cast(steps_done < NUM_WARMUP_STEPS, tf.float32)
    learning_rate = (1.0 - is_warmup) * learning_rate + is_warmup * warmup_learning_rate
    return tf.train.AdamOptimizer(learning_rate, beta1=0.9, beta2=0.98, epsilon=1e-6)
