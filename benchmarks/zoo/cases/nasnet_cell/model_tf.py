"""NASNet-A: a normal, a reduction and a normal cell behind a stem, an auxiliary head, drop path; after slim's nasnet_utils."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
WEIGHT_DECAY = 4e-5
BN_DECAY, BN_EPSILON = 0.9, 0.001

NORMAL = dict(
    operations=["separable_5x5_2", "separable_3x3_2", "separable_5x5_2", "separable_3x3_2", "avg_pool_3x3", "none",
                "avg_pool_3x3", "avg_pool_3x3", "separable_3x3_2", "none"],
    hiddenstate_indices=[0, 1, 1, 1, 0, 1, 1, 1, 0, 0],
    used_hiddenstates=[1, 0, 0, 0, 0, 0, 0])
REDUCTION = dict(
    operations=["separable_5x5_2", "separable_7x7_2", "max_pool_3x3", "separable_7x7_2", "avg_pool_3x3", "separable_5x5_2",
                "none", "avg_pool_3x3", "separable_3x3_2", "max_pool_3x3"],
    hiddenstate_indices=[0, 1, 0, 1, 0, 1, 3, 2, 2, 0],
    used_hiddenstates=[1, 1, 1, 0, 0, 0, 0])


def get_weights(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.variance_scaling_initializer(2.0))


def conv2d(x, filters, k, scope, stride=1, padding="SAME"):
    with tf.variable_scope(scope):
        w = get_weights("weights", [k, k, x.shape.as_list()[-1], filters], x.dtype)
        return tf.nn.conv2d(x, w, [1, stride, stride, 1], padding=padding)


def separable_conv2d(x, filters, k, scope, stride):
    with tf.variable_scope(scope):
        c = x.shape.as_list()[-1]
        depthwise = get_weights("depthwise_weights", [k, k, c, 1], x.dtype)
        pointwise = get_weights("pointwise_weights", [1, 1, c, filters], x.dtype)
        return tf.nn.separable_conv2d(x, depthwise, pointwise, [1, stride, stride, 1], padding="SAME")


def batch_norm(x, scope, is_training):
    with tf.variable_scope(scope):
        shape = [x.shape.as_list()[-1]]
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if not is_training:
            return tf.nn.batch_normalization(x, moving_mean, moving_variance, beta, gamma, BN_EPSILON)
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        for moving, value in ((moving_mean, mean), (moving_variance, variance)):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, (moving - value) * (1 - BN_DECAY)))
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BN_EPSILON)


def factorized_reduction(net, output_filters, is_training):
    path1 = tf.nn.avg_pool(net, [1, 1, 1, 1], [1, 2, 2, 1], "VALID")
    path1 = conv2d(path1, output_filters // 2, 1, "path1_conv")
    # the other path is shifted by one pixel, down and to the right
    path2 = tf.pad(net, [[0, 0], [0, 1], [0, 1], [0, 0]])[:, 1:, 1:, :]
    path2 = tf.nn.avg_pool(path2, [1, 1, 1, 1], [1, 2, 2, 1], "VALID")
    path2 = conv2d(path2, output_filters // 2, 1, "path2_conv")
    return batch_norm(tf.concat([path1, path2], 3), "final_path_bn", is_training)


class NasNetABaseCell(object):
    def __init__(self, num_filters, spec, keep, is_training):
        self._num_filters, self._spec, self._keep, self._is_training = num_filters, spec, keep, is_training

    def _reduce_prev_layer(self, prev_layer, curr_layer):
        with tf.variable_scope("prev"):
            if prev_layer.shape.as_list()[2] != curr_layer.shape.as_list()[2]:
                return factorized_reduction(tf.nn.relu(prev_layer), self._num_filters, self._is_training)
            net = conv2d(tf.nn.relu(prev_layer), self._num_filters, 1, "prev_1x1")
            return batch_norm(net, "prev_bn", self._is_training)

    def _apply_operation(self, net, operation, stride, index):
        if operation == "none":
            return net
        if "separable" in operation:
            k = int(operation.split("_")[1][0])
            for layer in range(int(operation[-1])):
                net = separable_conv2d(tf.nn.relu(net), self._num_filters, k, "separable_%dx%d_%d" % (k, k, layer + 1), stride)
                net = batch_norm(net, "bn_sep_%dx%d_%d" % (k, k, layer + 1), self._is_training)
                stride = 1
        else:
            pool = tf.nn.avg_pool if operation.startswith("avg") else tf.nn.max_pool
            net = pool(net, [1, 3, 3, 1], [1, stride, stride, 1], "SAME")
        if self._is_training:
            net = net * self._keep[:, index, None, None, None]
        return net

    def __call__(self, net, prev_layer, scope, stride=1):
        with tf.variable_scope(scope):
            prev_layer = self._reduce_prev_layer(prev_layer, net)
            net = conv2d(tf.nn.relu(net), self._num_filters, 1, "1x1")
            net = batch_norm(net, "beginning_bn", self._is_training)
            states = [net, prev_layer]
            for iteration in range(5):
                combined = []
                for side, i in (("left", 2 * iteration), ("right", 2 * iteration + 1)):
                    index = self._spec["hiddenstate_indices"][i]
                    with tf.variable_scope("comb_iter_%d/%s" % (iteration, side)):
                        combined.append(self._apply_operation(states[index], self._spec["operations"][i],
                                                              stride if index < 2 else 1, i))
                states.append(combined[0] + combined[1])
            used = self._spec["used_hiddenstates"]
            first = 1 if used[1] == 0 else 3
            return tf.concat(states[first:], 3)


def build_aux_head(net, is_training):
    with tf.variable_scope("aux_logits"):
        aux = tf.nn.avg_pool(tf.nn.relu(net), [1, 5, 5, 1], [1, 3, 3, 1], "VALID")
        aux = tf.nn.relu(batch_norm(conv2d(aux, 8, 1, "proj"), "aux_bn0", is_training))
        aux = conv2d(aux, 12, aux.shape.as_list()[1], "full", padding="VALID")
        aux = tf.nn.relu(batch_norm(aux, "aux_bn1", is_training))
        return fully_connected(tf.squeeze(aux, [1, 2]), "FC")


def fully_connected(x, scope):
    with tf.variable_scope(scope):
        w = get_weights("weights", [x.shape.as_list()[-1], NUM_CLASSES], x.dtype)
        b = tf.get_variable("biases", [NUM_CLASSES], x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(x, w, b)


def smoothed_loss(logits, labels):
    onehot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype) * 0.9 + 0.1 / NUM_CLASSES
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))


def tower(images, labels, keep, training=True):
    stem = batch_norm(conv2d(images, 8, 3, "conv0"), "conv0_bn", training)
    cell_0 = NasNetABaseCell(4, NORMAL, keep[:, 0], training)(stem, stem, "cell_0")
    cell_1 = NasNetABaseCell(8, REDUCTION, keep[:, 1], training)(cell_0, stem, "reduction_cell_0", stride=2)
    cell_2 = NasNetABaseCell(8, NORMAL, keep[:, 2], training)(cell_1, cell_0, "cell_1")
    aux_logits = build_aux_head(cell_0, training)
    with tf.variable_scope("final_layer"):
        logits = fully_connected(tf.reduce_mean(tf.nn.relu(cell_2), [1, 2]), "FC")
    loss = smoothed_loss(logits, labels) + 0.4 * smoothed_loss(aux_logits, labels)
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("weights")])
    return loss + WEIGHT_DECAY * decay, {"cell_0": cell_0, "cell_1": cell_1, "cell_2": cell_2, "logits": logits,
                                         "aux_logits": aux_logits}
