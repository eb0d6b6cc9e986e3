"""Embeddings of pictures by a lifted structured loss over the examples of a tower."""
import tensorflow.compat.v1 as tf

EMBEDDING_SIZE = 16
MARGIN = 1.0
WEIGHT_DECAY = 1e-3
BATCH_NORM = dict(momentum=0.95, epsilon=1e-3)


def conv_bn(x, filters, size, name, training, padding='SAME'):
    with tf.variable_scope(name):
        x = tf.layers.conv2d(x, filters, size, padding=padding, use_bias=False,
                             kernel_initializer=tf.variance_scaling_initializer(2.0, dtype=x.dtype), name='conv')
        x = tf.layers.batch_normalization(x, training=training, name='bn', **BATCH_NORM)
        return tf.nn.relu(x)


def embed(images, training):
    net = (images - 127.5) / 128.0
    net = conv_bn(net, 8, 5, 'conv1', training)
    net = tf.layers.max_pooling2d(net, 3, 2, padding='SAME')
    net = conv_bn(net, 16, 3, 'conv2', training)
    net = tf.layers.average_pooling2d(net, 3, 2, padding='SAME')
    net = conv_bn(net, 24, 3, 'conv3', training, padding='VALID')
    net = tf.reduce_mean(net, [1, 2])
    return tf.layers.dense(net, EMBEDDING_SIZE, use_bias=False, name='embedding',
                           kernel_initializer=tf.glorot_uniform_initializer(dtype=net.dtype))


def pairwise_distance(feature):
    squares = tf.reduce_sum(tf.square(feature), axis=1, keepdims=True)
    squared = squares + tf.transpose(squares) - 2.0 * tf.matmul(feature, feature, transpose_b=True)
    squared = tf.maximum(squared, 0.0)
    error_mask = tf.cast(tf.less_equal(squared, 0.0), feature.dtype)
    distances = tf.sqrt(squared + error_mask * 1e-16) * (1.0 - error_mask)
    off_diagonal = 1.0 - tf.eye(tf.shape(feature)[0], dtype=feature.dtype)
    return distances * off_diagonal


def lifted_struct_loss(labels, embeddings, margin):
    dtype = embeddings.dtype
    labels = tf.reshape(labels, [-1, 1])
    distances = pairwise_distance(embeddings)
    adjacency = tf.equal(labels, tf.transpose(labels))
    mask = tf.cast(tf.logical_not(adjacency), dtype)
    batch_size = tf.size(labels)

    diff = margin - distances
    row_minimums = tf.reduce_min(diff, 1, keepdims=True)
    row_negative_maximums = tf.reduce_max((diff - row_minimums) * mask, 1, keepdims=True) + row_minimums
    max_elements = tf.maximum(row_negative_maximums, tf.transpose(row_negative_maximums))
    diff_tiled = tf.tile(diff, [batch_size, 1])
    mask_tiled = tf.tile(mask, [batch_size, 1])
    max_elements_vect = tf.reshape(tf.transpose(max_elements), [-1, 1])
    exp_left = tf.reduce_sum(tf.exp(diff_tiled - max_elements_vect) * mask_tiled, 1, keepdims=True)
    exp_left = tf.reshape(exp_left, [batch_size, batch_size])
    loss_mat = max_elements + tf.log(exp_left + tf.transpose(exp_left))
    loss_mat += distances

    mask_positives = tf.cast(adjacency, dtype) - tf.eye(batch_size, dtype=dtype)
    num_positives = tf.reduce_sum(mask_positives) / 2.0
    return 0.25 * tf.reduce_sum(tf.square(tf.maximum(loss_mat * mask_positives, 0.0))) / num_positives


def tower(images, labels, training=True):
    embeddings = embed(images, training)
    lifted = lifted_struct_loss(labels, embeddings, MARGIN)
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith('kernel')]
    decay = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return lifted + decay, {'embeddings': embeddings, 'lifted': lifted}
