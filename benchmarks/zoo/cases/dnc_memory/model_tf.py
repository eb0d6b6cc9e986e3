"""Differentiable neural computer: an LSTM controller writes one word and reads two in each step, by content, by free space and along
the order of writing. Trained to repeat words of bits."""
import collections

import tensorflow.compat.v1 as tf

HIDDEN_SIZE = 20
MEMORY_SIZE = 8
WORD_SIZE = 6
NUM_READS = 2
NUM_WRITES = 1
CLIP_VALUE = 20
_EPSILON = 1e-6

AccessState = collections.namedtuple("AccessState", "memory read_weights write_weights usage link precedence_weights")


def _vector_norms(m):
    return tf.sqrt(tf.reduce_sum(m * m, axis=2, keepdims=True) + _EPSILON)


def cosine_weights(memory, keys, strengths):
    """Attention of each head over the rows of the memory."""
    dot = tf.matmul(keys, memory, adjoint_b=True)
    norm = tf.matmul(_vector_norms(keys), _vector_norms(memory), adjoint_b=True)
    activations = dot / (norm + _EPSILON)
    return tf.nn.softmax(activations * tf.expand_dims(tf.nn.softplus(strengths), -1))


def update_usage(state, free_gate):
    # as published, no gradient goes through what was written
    write_weights = tf.stop_gradient(state.write_weights)
    usage = state.usage + (1 - state.usage) * (1 - tf.reduce_prod(1 - write_weights, [1]))
    phi = tf.reduce_prod(1 - tf.expand_dims(free_gate, -1) * state.read_weights, [1])
    return usage * phi


def allocation(usage):
    usage = _EPSILON + (1 - _EPSILON) * usage
    sorted_nonusage, indices = tf.nn.top_k(1 - usage, k=MEMORY_SIZE)
    sorted_usage = 1 - sorted_nonusage
    sorted_allocation = sorted_nonusage * tf.cumprod(sorted_usage, axis=1, exclusive=True)
    _, inverse = tf.nn.top_k(-indices, k=MEMORY_SIZE)
    return tf.batch_gather(sorted_allocation, inverse)


def linkage(state, write_weights):
    w_i = tf.expand_dims(write_weights, 3)
    w_j = tf.expand_dims(write_weights, 2)
    link = (1 - w_i - w_j) * state.link + w_i * tf.expand_dims(state.precedence_weights, 2)
    link = tf.matrix_set_diag(link, tf.zeros_like(link[:, :, :, 0]))
    written = tf.reduce_sum(write_weights, 2, keepdims=True)
    return link, (1 - written) * state.precedence_weights + write_weights


def directional(link, read_weights, forward):
    expanded = tf.stack([read_weights] * NUM_WRITES, 1)
    return tf.transpose(tf.matmul(expanded, link, adjoint_b=forward), [0, 2, 1, 3])


def interface(h):
    def linear(first, second, name, activation=None):
        out = tf.layers.dense(h, first * second, activation=activation, name=name)
        return tf.reshape(out, [-1, first, second])

    def gates(n, name, activation=tf.sigmoid):
        return tf.layers.dense(h, n, activation=activation, name=name)

    return {
        "write_vectors": linear(NUM_WRITES, WORD_SIZE, "write_vectors"),
        "erase_vectors": linear(NUM_WRITES, WORD_SIZE, "erase_vectors", tf.sigmoid),
        "free_gate": gates(NUM_READS, "free_gate"),
        "allocation_gate": gates(NUM_WRITES, "allocation_gate"),
        "write_gate": gates(NUM_WRITES, "write_gate"),
        "read_mode": tf.nn.softmax(linear(NUM_READS, 1 + 2 * NUM_WRITES, "read_mode")),
        "write_keys": linear(NUM_WRITES, WORD_SIZE, "write_keys"),
        "write_strengths": gates(NUM_WRITES, "write_strengths", None),
        "read_keys": linear(NUM_READS, WORD_SIZE, "read_keys"),
        "read_strengths": gates(NUM_READS, "read_strengths", None),
    }


def access(h, state):
    io = interface(h)
    usage = update_usage(state, io["free_gate"])
    by_content = cosine_weights(state.memory, io["write_keys"], io["write_strengths"])
    by_space = tf.expand_dims(allocation(usage), 1)
    allocation_gate = tf.expand_dims(io["allocation_gate"], -1)
    write_gate = tf.expand_dims(io["write_gate"], -1)
    write_weights = write_gate * (allocation_gate * by_space + (1 - allocation_gate) * by_content)

    reset = tf.expand_dims(write_weights, 3) * tf.expand_dims(io["erase_vectors"], 2)
    memory = state.memory * tf.reduce_prod(1 - reset, [1])
    memory += tf.matmul(write_weights, io["write_vectors"], adjoint_a=True)

    link, precedence_weights = linkage(state, write_weights)
    by_content = cosine_weights(memory, io["read_keys"], io["read_strengths"])
    ahead = directional(link, state.read_weights, True)
    back = directional(link, state.read_weights, False)
    mode = io["read_mode"]
    read_weights = (tf.expand_dims(mode[:, :, 2 * NUM_WRITES], 2) * by_content
                    + tf.reduce_sum(tf.expand_dims(mode[:, :, NUM_WRITES:2 * NUM_WRITES], 3) * ahead, 2)
                    + tf.reduce_sum(tf.expand_dims(mode[:, :, :NUM_WRITES], 3) * back, 2))
    words = tf.matmul(read_weights, memory)
    return words, AccessState(memory, read_weights, write_weights, usage, link, precedence_weights)


def dnc(observations):
    dtype = observations.dtype
    batch = tf.shape(observations)[0]
    bits = observations.shape[2].value - 2
    controller = tf.nn.rnn_cell.LSTMCell(HIDDEN_SIZE)
    start = tf.get_variable("initial_memory", [MEMORY_SIZE, WORD_SIZE], dtype, tf.truncated_normal_initializer(stddev=0.5))
    state = AccessState(
        memory=tf.tile(tf.expand_dims(start, 0), [batch, 1, 1]),
        read_weights=tf.zeros([batch, NUM_READS, MEMORY_SIZE], dtype),
        write_weights=tf.zeros([batch, NUM_WRITES, MEMORY_SIZE], dtype),
        usage=tf.zeros([batch, MEMORY_SIZE], dtype),
        link=tf.zeros([batch, NUM_WRITES, MEMORY_SIZE, MEMORY_SIZE], dtype),
        precedence_weights=tf.zeros([batch, NUM_WRITES, MEMORY_SIZE], dtype))
    controller_state = controller.zero_state(batch, dtype)
    words = tf.zeros([batch, NUM_READS * WORD_SIZE], dtype)
    outputs = []
    for x in tf.unstack(observations, axis=1):
        with tf.variable_scope("controller", reuse=tf.AUTO_REUSE):
            h, controller_state = controller(tf.concat([x, words], 1), controller_state)
        h = tf.clip_by_value(h, -CLIP_VALUE, CLIP_VALUE)
        with tf.variable_scope("memory_access", reuse=tf.AUTO_REUSE):
            words, state = access(h, state)
        words = tf.reshape(words, [-1, NUM_READS * WORD_SIZE])
        with tf.variable_scope("output", reuse=tf.AUTO_REUSE):
            y = tf.layers.dense(tf.concat([h, words], 1), bits, name="linear")
        outputs.append(tf.clip_by_value(y, -CLIP_VALUE, CLIP_VALUE))
    return tf.stack(outputs, 1), state


def tower(observations, target, mask):
    with tf.variable_scope("dnc"):
        logits, state = dnc(observations)
    xent = tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
    loss_time_batch = tf.reduce_sum(xent, axis=2)
    loss = tf.reduce_sum(loss_time_batch * mask) / tf.cast(tf.shape(mask)[0], mask.dtype)
    wrong = tf.cast(tf.not_equal(logits > 0, target > 0.5), mask.dtype) * tf.expand_dims(mask, -1)
    return loss, {"logits": logits, "memory": state.memory, "usage": state.usage,
                  "bit_errors": tf.reduce_sum(wrong) / tf.reduce_sum(mask)}
