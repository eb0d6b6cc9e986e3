"""An acoustic model: convolution over time and frequency, then feedforward layers with memory blocks (DFSMN)."""
import tensorflow.compat.v1 as tf

STATES, HIDDEN, PROJ, LAYERS = 10, 32, 16, 3
LEFT_ORDER, RIGHT_ORDER, LEFT_STRIDE, RIGHT_STRIDE = 4, 2, 2, 1
L2 = 2e-4


def conv_block(x, filters, name, training):
    with tf.variable_scope(name):
        kernel = tf.get_variable('kernel', [3, 3, int(x.shape[-1]), filters], x.dtype,
                                 tf.variance_scaling_initializer(2.0))
        x = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding='SAME')
        x = tf.layers.batch_normalization(x, momentum=0.9, training=training, fused=False, name='bn')
        return tf.nn.max_pool(tf.nn.relu(x), [1, 1, 2, 1], [1, 1, 2, 1], padding='SAME')


def affine(x, units, name, use_bias=True, activation=None):
    with tf.variable_scope(name):
        kernel = tf.get_variable('kernel', [int(x.shape[-1]), units], x.dtype, tf.variance_scaling_initializer(1.5))
        x = tf.tensordot(x, kernel, [[2], [0]])
        if use_bias:
            x = x + tf.get_variable('bias', [units], x.dtype, tf.zeros_initializer())
        return activation(x) if activation else x


def memory_block(p, mask, former):
    """p_t, its own past (itself among it) and its future, filter by filter; and the memory of the layer below."""
    with tf.variable_scope('memory'):
        left = tf.get_variable('left_filter', [LEFT_ORDER, 1, PROJ, 1], p.dtype, tf.random_normal_initializer(stddev=0.3))
        right = tf.get_variable('right_filter', [RIGHT_ORDER, 1, PROJ, 1], p.dtype,
                                tf.random_normal_initializer(stddev=0.3))
        p = p * mask
        past = tf.pad(p, [[0, 0], [(LEFT_ORDER - 1) * LEFT_STRIDE, 0], [0, 0]])
        future = tf.pad(p, [[0, 0], [0, RIGHT_ORDER * RIGHT_STRIDE], [0, 0]])[:, RIGHT_STRIDE:]
        past = tf.nn.depthwise_conv2d(past[:, :, tf.newaxis], left, [1, 1, 1, 1], 'VALID', dilations=[LEFT_STRIDE, 1])
        future = tf.nn.depthwise_conv2d(future[:, :, tf.newaxis], right, [1, 1, 1, 1], 'VALID',
                                        dilations=[RIGHT_STRIDE, 1])
        memory = p + tf.squeeze(past, 2) + tf.squeeze(future, 2)
        if former is not None:
            memory = memory + former
        return memory


def tower(frames, lengths, senones, training=True):
    dtype = frames.dtype
    steps = int(frames.shape[1])
    mask = tf.sequence_mask(lengths, steps, dtype=dtype)
    with tf.variable_scope('acoustic'):
        x = conv_block(frames[..., tf.newaxis], 6, 'conv1', training)
        x = conv_block(x, 8, 'conv2', training)
        bands, channels = x.shape.as_list()[2:]
        x = tf.reshape(x, [-1, steps, bands * channels])
        x = affine(x, HIDDEN, 'input', activation=tf.nn.relu)
        memory = None
        for i in range(LAYERS):
            with tf.variable_scope('dfsmn_%d' % i):
                p = affine(x, PROJ, 'projection', use_bias=False)
                memory = memory_block(p, mask[..., tf.newaxis], memory)
                x = affine(memory, HIDDEN, 'expansion', activation=tf.nn.relu)
        logits = affine(x, STATES, 'output')
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=senones, logits=logits)
    cross_entropy = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    kernels = [v for v in tf.trainable_variables('acoustic') if 'kernel' in v.name]
    loss = cross_entropy + L2 * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return loss, {'memory': memory, 'logits': logits, 'cross_entropy': cross_entropy}
