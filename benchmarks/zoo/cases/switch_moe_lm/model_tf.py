"""Language model with a switch layer: every token goes to one expert, as far as the expert has room."""
import tensorflow.compat.v1 as tf

VOCAB = 40
LENGTH = 12
D_MODEL = 16
D_KV = 8
HEADS = 2
D_FF = 32
NUM_EXPERTS = 4
D_EXPERT = 24
CAPACITY_FACTOR = 1.25
LOSS_COEF = 1e-2
Z_LOSS = 1e-3


def _weight(name, shape, dtype, stddev):
    return tf.get_variable(name, shape, dtype, initializer=tf.truncated_normal_initializer(stddev=stddev))


def layer_norm(x, name):
    """No mean is subtracted and nothing added."""
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", [D_MODEL], x.dtype, initializer=tf.ones_initializer())
        variance = tf.reduce_mean(tf.square(x), axis=-1, keepdims=True)
        return x * tf.rsqrt(variance + 1e-6) * scale


def self_attention(x, nonpadding, name="SelfAttention"):
    with tf.variable_scope(name):
        q = _weight("q", [D_MODEL, HEADS, D_KV], x.dtype, (D_MODEL * D_KV) ** -0.5)
        k = _weight("k", [D_MODEL, HEADS, D_KV], x.dtype, D_MODEL ** -0.5)
        v = _weight("v", [D_MODEL, HEADS, D_KV], x.dtype, D_MODEL ** -0.5)
        o = _weight("o", [HEADS, D_KV, D_MODEL], x.dtype, (HEADS * D_KV) ** -0.5)
        q, k, v = [tf.einsum("btd,dhk->bhtk", x, w) for w in (q, k, v)]
        # the scale is in q's initializer
        logits = tf.einsum("bhqk,bhmk->bhqm", q, k)
        visible = tf.matrix_band_part(tf.ones([LENGTH, LENGTH], x.dtype), -1, 0) * nonpadding[:, None, None, :]
        logits += (1.0 - visible) * -1e9
        return tf.einsum("bhqk,hkd->bqd", tf.einsum("bhqm,bhmk->bhqk", tf.nn.softmax(logits), v), o)


def dense_relu_dense(x, d_ff):
    wi = _weight("wi", [D_MODEL, d_ff], x.dtype, D_MODEL ** -0.5)
    wo = _weight("wo", [d_ff, D_MODEL], x.dtype, d_ff ** -0.5)
    return tf.tensordot(tf.nn.relu(tf.tensordot(x, wi, 1)), wo, 1)


def switch_gating(x, nonpadding):
    """Returns the tensors that send tokens to places of experts and bring them back, and the losses."""
    router = _weight("router", [D_MODEL, NUM_EXPERTS], x.dtype, D_MODEL ** -0.5)
    gate_logits = tf.tensordot(x, router, 1)
    raw_gates = tf.nn.softmax(gate_logits)
    expert_capacity = max(1, int(LENGTH * CAPACITY_FACTOR / NUM_EXPERTS))
    expert_gate = tf.reduce_max(raw_gates, axis=-1)
    expert_mask = tf.one_hot(tf.argmax(raw_gates, axis=-1), NUM_EXPERTS, dtype=x.dtype)

    density = tf.reduce_mean(expert_mask, axis=1)
    density_proxy = tf.reduce_mean(raw_gates, axis=1)
    balance = tf.reduce_mean(density_proxy * density) * float(NUM_EXPERTS * NUM_EXPERTS)
    z_loss = tf.reduce_mean(tf.square(tf.reduce_logsumexp(gate_logits, axis=-1)))

    expert_mask *= nonpadding[:, :, None]
    position_in_expert = tf.cumsum(expert_mask, axis=1, exclusive=True) * expert_mask
    expert_mask *= tf.cast(tf.less(position_in_expert, float(expert_capacity)), x.dtype)
    expert_mask_flat = tf.reduce_sum(expert_mask, axis=-1)
    position = tf.cast(tf.reduce_sum(position_in_expert, axis=-1), tf.int32)
    dispatch = expert_mask[:, :, :, None] * tf.one_hot(position, expert_capacity, dtype=x.dtype)[:, :, None, :]
    combine = dispatch * (expert_gate * expert_mask_flat)[:, :, None, None]
    return dispatch, combine, balance, z_loss


def switch_layer(x, nonpadding):
    with tf.variable_scope("Switch"):
        dispatch, combine, balance, z_loss = switch_gating(x, nonpadding)
        expert_inputs = tf.einsum("btec,btd->ebcd", dispatch, x)
        expert_outputs = []
        for e in range(NUM_EXPERTS):
            with tf.variable_scope("expert_%d" % e):
                expert_outputs.append(dense_relu_dense(expert_inputs[e], D_EXPERT))
        return tf.einsum("btec,ebcd->btd", combine, tf.stack(expert_outputs)), balance, z_loss


def tower(inputs, targets, nonpadding):
    dtype = nonpadding.dtype
    with tf.variable_scope("decoder"):
        embedding = _weight("embedding", [VOCAB, D_MODEL], dtype, 1.0)
        positional = _weight("positional", [LENGTH, D_MODEL], dtype, 0.1)
        x = tf.gather(embedding, inputs) + positional
        with tf.variable_scope("block_000"):
            x += self_attention(layer_norm(x, "attention_norm"), nonpadding)
            with tf.variable_scope("DenseReluDense"):
                x += dense_relu_dense(layer_norm(x, "norm"), D_FF)
        first = x
        with tf.variable_scope("block_001"):
            x += self_attention(layer_norm(x, "attention_norm"), nonpadding)
            y, balance, z_loss = switch_layer(layer_norm(x, "switch_norm"), nonpadding)
            x += y
        hidden = layer_norm(x, "final_layer_norm")
        logits = tf.einsum("btd,vd->btv", hidden * D_MODEL ** -0.5, embedding)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    xent = tf.reduce_sum(losses * nonpadding) / tf.reduce_sum(nonpadding)
    loss = xent + LOSS_COEF * balance + Z_LOSS * z_loss
    return loss, {"first": first, "hidden": hidden, "logits": logits, "cross_entropy": xent, "balance": balance}
