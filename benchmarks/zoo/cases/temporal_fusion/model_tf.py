"""Temporal fusion transformer: variable selection, an LSTM encoder and decoder that start from static context, static enrichment,
interpretable attention, gates with residuals everywhere, quantiles of the coming days. Dropout is off."""
import numpy as np
import tensorflow.compat.v1 as tf

HIDDEN = 10
NUM_HEADS = 2
PAST, FUTURE = 12, 4
SHOPS, DAYS = 6, 7
QUANTILES = [0.1, 0.5, 0.9]


def linear_layer(x, size, name, activation=None, use_bias=True):
    return tf.layers.dense(x, size, activation=activation, use_bias=use_bias, name=name)


def apply_gating_layer(x, size):
    activation_layer = linear_layer(x, size, "activation_layer")
    gated_layer = linear_layer(x, size, "gated_layer", activation=tf.sigmoid)
    return activation_layer * gated_layer


def layer_norm(x):
    with tf.variable_scope("layer_norm"):
        size = x.get_shape().as_list()[-1]
        gamma = tf.get_variable("gamma", [size], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [size], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return gamma * (x - mean) * tf.rsqrt(variance + 1e-3) + beta


def gate_add_norm(x, skip, name):
    with tf.variable_scope(name):
        return layer_norm(apply_gating_layer(x, HIDDEN) + skip)


def gated_residual_network(x, name, output_size=None, additional_context=None):
    with tf.variable_scope(name):
        if output_size is None:
            output_size, skip = HIDDEN, x
        else:
            skip = linear_layer(x, output_size, "skip")
        hidden = linear_layer(x, HIDDEN, "hidden_1")
        if additional_context is not None:
            hidden = hidden + linear_layer(additional_context, HIDDEN, "context", use_bias=False)
        hidden = tf.nn.elu(hidden)
        hidden = linear_layer(hidden, HIDDEN, "hidden_2")
        return layer_norm(apply_gating_layer(hidden, output_size) + skip)


def static_combine_and_mask(embedding):
    """embedding [batch, variables, hidden]"""
    num_static = embedding.get_shape().as_list()[1]
    with tf.variable_scope("static_selection"):
        flatten = tf.reshape(embedding, [-1, num_static * HIDDEN])
        mlp_outputs = gated_residual_network(flatten, "flat", output_size=num_static)
        sparse_weights = tf.nn.softmax(mlp_outputs)[:, :, None]
        trans = [gated_residual_network(embedding[:, i, :], "variable_%d" % i) for i in range(num_static)]
        return tf.reduce_sum(sparse_weights * tf.stack(trans, axis=1), axis=1)


def lstm_combine_and_mask(embedding, context, name):
    """embedding [batch, time, hidden, variables]"""
    _, time_steps, _, num_inputs = embedding.get_shape().as_list()
    with tf.variable_scope(name):
        flatten = tf.reshape(embedding, [-1, time_steps, HIDDEN * num_inputs])
        mlp_outputs = gated_residual_network(flatten, "flat", output_size=num_inputs, additional_context=context)
        sparse_weights = tf.expand_dims(tf.nn.softmax(mlp_outputs), axis=2)
        trans = [gated_residual_network(embedding[..., i], "variable_%d" % i) for i in range(num_inputs)]
        return tf.reduce_sum(sparse_weights * tf.stack(trans, axis=-1), axis=-1)


def interpretable_multihead_attention(x):
    d_k = HIDDEN // NUM_HEADS
    length = x.get_shape().as_list()[1]
    mask = tf.constant(np.tril(np.ones((1, length, length))), x.dtype)
    with tf.variable_scope("attention"):
        vs = linear_layer(x, d_k, "value", use_bias=False)  # one projection for all heads
        heads, attns = [], []
        for i in range(NUM_HEADS):
            qs = linear_layer(x, d_k, "query_%d" % i, use_bias=False)
            ks = linear_layer(x, d_k, "key_%d" % i, use_bias=False)
            attn = tf.matmul(qs, ks, transpose_b=True) / np.sqrt(d_k)
            attn = tf.nn.softmax(attn + (-1e9) * (1. - mask))
            heads.append(tf.matmul(attn, vs))
            attns.append(attn)
        outputs = tf.reduce_mean(tf.stack(heads), axis=0)
        return linear_layer(outputs, HIDDEN, "out", use_bias=False), tf.stack(attns, axis=1)


def build(shop, size, day, promotion, weather, history):
    dtype = history.dtype
    with tf.variable_scope("inputs"):
        shop_table = tf.get_variable("shop_embedding", [SHOPS, HIDDEN], dtype, initializer=tf.random_uniform_initializer(-0.3, 0.3))
        day_table = tf.get_variable("day_embedding", [DAYS, HIDDEN], dtype, initializer=tf.random_uniform_initializer(-0.3, 0.3))
        size_in = linear_layer(size, HIDDEN, "size")
        day_in = tf.nn.embedding_lookup(day_table, day)
        promotion_in = linear_layer(promotion[:, :, None], HIDDEN, "promotion")
        weather_in = linear_layer(weather[:, :, None], HIDDEN, "weather")
        history_in = linear_layer(history[:, :, None], HIDDEN, "history")
        static_inputs = tf.stack([size_in, tf.nn.embedding_lookup(shop_table, shop)], axis=1)
        historical_inputs = tf.stack([weather_in, promotion_in[:, :PAST], day_in[:, :PAST], history_in], axis=-1)
        future_inputs = tf.stack([promotion_in[:, PAST:], day_in[:, PAST:]], axis=-1)

    static_encoder = static_combine_and_mask(static_inputs)
    with tf.variable_scope("static_context"):
        context_variable = gated_residual_network(static_encoder, "variable_selection")[:, None]
        context_enrichment = gated_residual_network(static_encoder, "enrichment")[:, None]
        context_h = gated_residual_network(static_encoder, "state_h")
        context_c = gated_residual_network(static_encoder, "state_c")

    historical_features = lstm_combine_and_mask(historical_inputs, context_variable, "historical_selection")
    future_features = lstm_combine_and_mask(future_inputs, context_variable, "future_selection")
    state = tf.nn.rnn_cell.LSTMStateTuple(c=context_c, h=context_h)
    history_lstm, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(HIDDEN), historical_features, initial_state=state,
                                            scope="history_lstm")
    future_lstm, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(HIDDEN), future_features, initial_state=state,
                                       scope="future_lstm")
    lstm_layer = tf.concat([history_lstm, future_lstm], axis=1)
    input_embeddings = tf.concat([historical_features, future_features], axis=1)
    temporal_feature_layer = gate_add_norm(lstm_layer, input_embeddings, "lstm_gate")

    enriched = gated_residual_network(temporal_feature_layer, "static_enrichment", additional_context=context_enrichment)
    x, attn = interpretable_multihead_attention(enriched)
    x = gate_add_norm(x, enriched, "attention_gate")
    decoder = gated_residual_network(x, "position_wise")
    transformer_layer = gate_add_norm(decoder, temporal_feature_layer, "final_gate")
    return linear_layer(transformer_layer[:, PAST:], len(QUANTILES), "quantiles"), attn


def quantile_loss(y, y_pred, quantile):
    under = y - y_pred
    return quantile * tf.maximum(under, 0.) + (1. - quantile) * tf.maximum(-under, 0.)


def tower(shop, size, day, promotion, weather, history, sales):
    with tf.variable_scope("tft"):
        predictions, attn = build(shop, size, day, promotion, weather, history)
    losses = [quantile_loss(sales, predictions[..., i], q) for i, q in enumerate(QUANTILES)]
    loss = tf.reduce_mean(tf.add_n(losses))
    risk = 2. * tf.reduce_sum(losses[1]) / tf.reduce_sum(tf.abs(sales))
    return loss, {"predictions": predictions, "attention": attn, "p50_risk": risk}
