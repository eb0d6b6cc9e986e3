"""Neural Turing machine with one read head and one write head, on the copy task."""
import numpy as np
import tensorflow.compat.v1 as tf

BITS = 5
LONGEST = 4
CONTROLLER_UNITS = 32
MEMORY_SIZE = 10
MEMORY_DIM = 8
SHIFT_RANGE = 1


def expand(x, dim, n):
    return tf.concat([tf.expand_dims(x, dim) for _ in range(n)], axis=dim)


def create_linear_initializer(input_size):
    return tf.truncated_normal_initializer(stddev=1.0 / np.sqrt(input_size))


def controller(x, c, h):
    with tf.variable_scope("controller", reuse=tf.AUTO_REUSE):
        n = x.shape.as_list()[1] + CONTROLLER_UNITS
        kernel = tf.get_variable("kernel", [n, 4 * CONTROLLER_UNITS], x.dtype, tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [4 * CONTROLLER_UNITS], x.dtype, tf.zeros_initializer())
    i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias), 4, axis=1)
    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
    return c, tf.sigmoid(o) * tf.tanh(c)


def addressing(k, beta, g, s, gamma, prev_memory, prev_w):
    # by content
    inner = tf.reduce_sum(prev_memory * tf.expand_dims(k, 1), axis=2)
    k_norm = tf.sqrt(tf.reduce_sum(tf.square(k), axis=1, keepdims=True))
    m_norm = tf.sqrt(tf.reduce_sum(tf.square(prev_memory), axis=2))
    similarity = inner / (k_norm * m_norm + 1e-8)
    exponential = tf.exp(beta * similarity)
    w_c = exponential / tf.reduce_sum(exponential, axis=1, keepdims=True)
    # by place: interpolation, circular convolution, sharpening
    w_g = g * w_c + (1 - g) * prev_w
    circulant = tf.concat([s[:, :SHIFT_RANGE + 1],
                           tf.zeros([tf.shape(s)[0], MEMORY_SIZE - 2 * SHIFT_RANGE - 1], s.dtype),
                           s[:, -SHIFT_RANGE:]], axis=1)
    doubled = tf.concat([tf.reverse(circulant, axis=[1]), tf.reverse(circulant, axis=[1])], axis=1)
    rows = [doubled[:, MEMORY_SIZE - i - 1:2 * MEMORY_SIZE - i - 1] for i in range(MEMORY_SIZE)]
    w_tilde = tf.reduce_sum(tf.expand_dims(w_g, 1) * tf.stack(rows, axis=1), axis=2)
    w_sharp = tf.pow(w_tilde, gamma)
    return w_sharp / tf.reduce_sum(w_sharp, axis=1, keepdims=True)


def head_parameters(parameters):
    """Splits what the controller says to one head."""
    k, beta, g, s, gamma = tf.split(parameters, [MEMORY_DIM, 1, 1, 2 * SHIFT_RANGE + 1, 1], axis=1)
    return tf.tanh(k), tf.nn.softplus(beta), tf.sigmoid(g), tf.nn.softmax(s), tf.nn.softplus(gamma) + 1


def tower(inputs, targets, mask):
    dtype = inputs.dtype
    batch = inputs.shape.as_list()[0]
    per_head = MEMORY_DIM + 1 + 1 + (2 * SHIFT_RANGE + 1) + 1
    with tf.variable_scope("ntm"):
        init_read = tf.get_variable("init_read", [MEMORY_DIM], dtype, tf.random_normal_initializer(stddev=0.5))
        init_w = [tf.get_variable("init_w_" + name, [MEMORY_SIZE], dtype, tf.random_normal_initializer(stddev=0.5))
                  for name in ("read", "write")]
        memory = tf.fill([batch, MEMORY_SIZE, MEMORY_DIM], tf.constant(0.1, dtype))
        read = expand(tf.tanh(init_read), 0, batch)
        w_read, w_write = [expand(tf.nn.softmax(w), 0, batch) for w in init_w]
        c = h = tf.zeros([batch, CONTROLLER_UNITS], dtype)
        outputs, weightings = [], []
        for t, x in enumerate(tf.unstack(inputs, axis=1)):
            c, h = controller(tf.concat([x, read], axis=1), c, h)
            with tf.variable_scope("heads", reuse=t > 0):
                parameters = tf.layers.dense(h, 2 * per_head + 2 * MEMORY_DIM,
                                             kernel_initializer=create_linear_initializer(CONTROLLER_UNITS))
            for_read, for_write, erase, add = tf.split(parameters, [per_head, per_head, MEMORY_DIM, MEMORY_DIM], axis=1)
            w_read = addressing(*head_parameters(for_read), prev_memory=memory, prev_w=w_read)
            w_write = addressing(*head_parameters(for_write), prev_memory=memory, prev_w=w_write)
            # the read is of the memory before this step's write
            read = tf.reduce_sum(memory * tf.expand_dims(w_read, 2), axis=1)
            w = tf.expand_dims(w_write, 2)
            memory = memory * (1 - tf.matmul(w, tf.expand_dims(tf.sigmoid(erase), 1)))
            memory = memory + tf.matmul(w, tf.expand_dims(tf.tanh(add), 1))
            with tf.variable_scope("output", reuse=t > 0):
                logits = tf.layers.dense(tf.concat([h, read], axis=1), BITS,
                                         kernel_initializer=create_linear_initializer(CONTROLLER_UNITS + MEMORY_DIM))
            outputs.append(logits)
            weightings.append(w_read)
    logits = tf.stack(outputs[-LONGEST:], axis=1)
    errors = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    # the cost of a sequence is summed over bits and time, as it is in bits per sequence
    loss = tf.reduce_sum(errors * tf.expand_dims(mask, 2)) / batch
    return loss, {"logits": logits, "read_weightings": tf.stack(weightings, axis=1), "memory": memory}
