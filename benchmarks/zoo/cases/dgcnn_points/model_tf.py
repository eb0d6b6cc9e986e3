"""Dynamic graph CNN for classifying point clouds, after the kind of code that came out with EdgeConv and grew out of PointNet's:
tf_util with one function per op, `get_edge_feature`, one-by-one convolutions over [batch, points, neighbours, channels]."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
K = 5
LABEL_SMOOTHING = 0.2


def batch_norm(inputs, is_training, scope):
    return tf.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-3, training=is_training, fused=False, name=scope)


def conv2d(inputs, num_output_channels, kernel_size, scope, is_training):
    with tf.variable_scope(scope):
        kernel_h, kernel_w = kernel_size
        shape = [kernel_h, kernel_w, inputs.shape.as_list()[-1], num_output_channels]
        kernel = tf.get_variable("weights", shape, inputs.dtype, initializer=tf.glorot_uniform_initializer())
        outputs = tf.nn.conv2d(inputs, kernel, [1, 1, 1, 1], padding="VALID")
        biases = tf.get_variable("biases", [num_output_channels], inputs.dtype, initializer=tf.constant_initializer(0.0))
        outputs = tf.nn.bias_add(outputs, biases)
        return tf.nn.relu(batch_norm(outputs, is_training, "bn"))


def fully_connected(inputs, num_outputs, scope, is_training=None, activate=True):
    with tf.variable_scope(scope):
        shape = [inputs.shape.as_list()[-1], num_outputs]
        weights = tf.get_variable("weights", shape, inputs.dtype, initializer=tf.glorot_uniform_initializer())
        outputs = tf.matmul(inputs, weights)
        biases = tf.get_variable("biases", [num_outputs], inputs.dtype, initializer=tf.constant_initializer(0.0))
        outputs = tf.nn.bias_add(outputs, biases)
        if not activate:
            return outputs
        return tf.nn.relu(batch_norm(outputs, is_training, "bn"))


def pairwise_distance(point_cloud):
    transposed = tf.transpose(point_cloud, perm=[0, 2, 1])
    inner = -2 * tf.matmul(point_cloud, transposed)
    square = tf.reduce_sum(tf.square(point_cloud), axis=-1, keepdims=True)
    return square + inner + tf.transpose(square, perm=[0, 2, 1])


def knn(adj_matrix, k):
    _, nn_idx = tf.nn.top_k(-adj_matrix, k=k)
    return nn_idx


def get_edge_feature(point_cloud, nn_idx, k):
    """[batch, points, channels] to [batch, points, k, 2 * channels]: the point itself, and what its neighbours are off by."""
    shape = tf.shape(point_cloud)
    num_points, num_dims = point_cloud.shape.as_list()[1:]
    idx_ = tf.reshape(tf.range(shape[0]) * num_points, [-1, 1, 1])
    flat = tf.reshape(point_cloud, [-1, num_dims])
    neighbors = tf.gather(flat, nn_idx + idx_)
    central = tf.tile(tf.expand_dims(point_cloud, axis=-2), [1, 1, k, 1])
    return tf.concat([central, neighbors - central], axis=-1)


def edge_conv(features, channels, scope, is_training):
    nn_idx = knn(pairwise_distance(features), k=K)
    net = conv2d(get_edge_feature(features, nn_idx, k=K), channels, [1, 1], scope, is_training)
    return tf.reduce_max(net, axis=-2)


def tower(point_cloud, labels, training=True):
    net1 = edge_conv(point_cloud, 16, "dgcnn1", training)
    net2 = edge_conv(net1, 24, "dgcnn2", training)
    net = tf.expand_dims(tf.concat([net1, net2], axis=-1), axis=2)
    net = conv2d(net, 48, [1, 1], "agg", training)
    pooled = tf.reduce_max(tf.squeeze(net, [2]), axis=1)
    net = fully_connected(pooled, 32, "fc1", training)
    logits = fully_connected(net, NUM_CLASSES, "fc2", activate=False)
    onehot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    smooth = onehot * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smooth, logits=logits))
    return loss, {"net1": net1, "net2": net2, "pooled": pooled, "logits": logits}
