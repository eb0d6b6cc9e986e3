"""Place recognition from point clouds: PointNet features, NetVLAD, context gating, lazy quadruplet loss."""
import tensorflow.compat.v1 as tf

POSITIVES = 2
NEGATIVES = 3
FEATURE_SIZE = 24
CLUSTER_SIZE = 6
OUTPUT_DIM = 16
MARGIN_1 = 0.5
MARGIN_2 = 0.2
BN_DECAY = 0.95


def conv2d(inputs, num_output_channels, kernel_size, scope):
    with tf.variable_scope(scope):
        shape = list(kernel_size) + [inputs.shape.as_list()[-1], num_output_channels]
        kernel = tf.get_variable("weights", shape, inputs.dtype, tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [num_output_channels], inputs.dtype, tf.zeros_initializer())
        outputs = tf.nn.conv2d(inputs, kernel, [1, 1, 1, 1], padding="VALID")
        return tf.nn.relu(tf.nn.bias_add(outputs, biases))


def input_transform_net(point_cloud):
    """A 3 by 3 matrix for each cloud, the identity and what is learnt."""
    num_points = point_cloud.shape.as_list()[1]
    with tf.variable_scope("transform_net1"):
        net = conv2d(tf.expand_dims(point_cloud, -1), 16, [1, 3], "tconv1")
        net = conv2d(net, 16, [1, 1], "tconv2")
        net = tf.nn.max_pool(net, [1, num_points, 1, 1], [1, 2, 2, 1], padding="VALID")
        net = tf.reshape(net, [-1, 16])
        with tf.variable_scope("transform_XYZ"):
            weights = tf.get_variable("weights", [16, 9], net.dtype, tf.random_normal_initializer(stddev=0.05))
            biases = tf.get_variable("biases", [9], net.dtype, tf.zeros_initializer())
            biases = biases + tf.constant([1, 0, 0, 0, 1, 0, 0, 0, 1], net.dtype)
            transform = tf.nn.bias_add(tf.matmul(net, weights), biases)
        return tf.reshape(transform, [-1, 3, 3])


def batch_norm(x, is_training, scope):
    return tf.layers.batch_normalization(x, momentum=BN_DECAY, training=is_training, name=scope)


def context_gating(input_layer, is_training):
    dim = input_layer.shape.as_list()[1]
    gating_weights = tf.get_variable("gating_weights", [dim, dim], input_layer.dtype,
                                     tf.random_normal_initializer(stddev=dim ** -0.5))
    gates = tf.matmul(input_layer, gating_weights)
    gates = tf.sigmoid(batch_norm(gates, is_training, "gating_bn"))
    return tf.multiply(input_layer, gates)


def net_vlad(features, max_samples, is_training):
    dtype = features.dtype
    normal = tf.random_normal_initializer(stddev=FEATURE_SIZE ** -0.5)
    with tf.variable_scope("vlad"):
        reshaped_input = tf.reshape(features, [-1, FEATURE_SIZE])
        cluster_weights = tf.get_variable("cluster_weights", [FEATURE_SIZE, CLUSTER_SIZE], dtype, normal)
        activation = batch_norm(tf.matmul(reshaped_input, cluster_weights), is_training, "cluster_bn")
        activation = tf.reshape(tf.nn.softmax(activation), [-1, max_samples, CLUSTER_SIZE])

        a_sum = tf.reduce_sum(activation, -2, keepdims=True)
        cluster_weights2 = tf.get_variable("cluster_weights2", [1, FEATURE_SIZE, CLUSTER_SIZE], dtype, normal)
        a = tf.multiply(a_sum, cluster_weights2)

        activation = tf.transpose(activation, [0, 2, 1])
        vlad = tf.matmul(activation, tf.reshape(reshaped_input, [-1, max_samples, FEATURE_SIZE]))
        vlad = tf.transpose(vlad, [0, 2, 1])
        vlad = tf.subtract(vlad, a)
        vlad = tf.nn.l2_normalize(vlad, 1)
        vlad = tf.reshape(vlad, [-1, CLUSTER_SIZE * FEATURE_SIZE])
        vlad = tf.nn.l2_normalize(vlad, 1)

        hidden1_weights = tf.get_variable("hidden1_weights", [CLUSTER_SIZE * FEATURE_SIZE, OUTPUT_DIM], dtype,
                                          tf.random_normal_initializer(stddev=CLUSTER_SIZE ** -0.5))
        hidden = batch_norm(tf.matmul(vlad, hidden1_weights), is_training, "bn")
        return vlad, tf.nn.l2_normalize(context_gating(hidden, is_training), 1)


def best_pos_distance(query, pos_vecs):
    return tf.reduce_min(tf.reduce_sum(tf.squared_difference(pos_vecs, query), 2), 1)


def lazy_quadruplet_loss(q_vec, pos_vecs, neg_vecs, other_neg):
    """Hinges of the hardest negative, seen from the query and from a place that is far from all others."""
    best_pos = tf.expand_dims(best_pos_distance(q_vec, pos_vecs), 1)
    zero = tf.zeros_like(best_pos)
    to_query = tf.reduce_sum(tf.squared_difference(neg_vecs, q_vec), 2)
    triplet_loss = tf.reduce_mean(tf.reduce_max(tf.maximum(MARGIN_1 + best_pos - to_query, zero), 1))
    to_other = tf.reduce_sum(tf.squared_difference(neg_vecs, other_neg), 2)
    second_loss = tf.reduce_mean(tf.reduce_max(tf.maximum(MARGIN_2 + best_pos - to_other, zero), 1))
    return triplet_loss, second_loss


def tower(clouds, training=True):
    _, tuples, num_points, _ = clouds.shape.as_list()
    with tf.variable_scope("query_triplets"):
        point_cloud = tf.reshape(clouds, [-1, num_points, 3])
        transform = input_transform_net(point_cloud)
        transformed = tf.matmul(point_cloud, transform)
        net = conv2d(tf.expand_dims(transformed, -1), 16, [1, 3], "conv1")
        net = conv2d(net, FEATURE_SIZE, [1, 1], "conv2")
        features = tf.reshape(net, [-1, num_points, FEATURE_SIZE])
        vlad, output = net_vlad(features, num_points, training)
        output = tf.reshape(output, [-1, tuples, OUTPUT_DIM])
    parts = tf.split(output, [1, POSITIVES, NEGATIVES, 1], 1)
    triplet_loss, second_loss = lazy_quadruplet_loss(*parts)
    return triplet_loss + second_loss, {
        "transform": transform, "transformed": transformed, "features": features, "vlad": vlad, "output": output,
        "triplet_loss": triplet_loss, "second_loss": second_loss}
