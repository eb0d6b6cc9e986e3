"""The output network of a cascade of face detectors (MTCNN): one trunk for classification with hard examples, box regression and
landmarks, each over the crops that have such a label."""
import tensorflow.compat.v1 as tf

NUM_KEEP_RADIO = 0.7
WEIGHT_DECAY = 0.0005
RADIO_CLS_LOSS, RADIO_BBOX_LOSS, RADIO_LANDMARK_LOSS = 1.0, 0.5, 1.0


def prelu(inputs):
    alphas = tf.get_variable("alphas", shape=[inputs.get_shape()[-1]], dtype=inputs.dtype, initializer=tf.constant_initializer(0.25))
    pos = tf.nn.relu(inputs)
    neg = alphas * (inputs - abs(inputs)) * 0.5
    return pos + neg


def conv2d(inputs, num_outputs, kernel_size, scope, losses):
    """slim.conv2d under the network's argument scope: VALID, PReLU, l2 of the weights."""
    with tf.variable_scope(scope):
        shape = [kernel_size, kernel_size, int(inputs.get_shape()[-1]), num_outputs]
        weights = tf.get_variable("weights", shape, inputs.dtype, initializer=tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [num_outputs], inputs.dtype, initializer=tf.zeros_initializer())
        losses.append(WEIGHT_DECAY * tf.nn.l2_loss(weights))
        return prelu(tf.nn.bias_add(tf.nn.conv2d(inputs, weights, [1, 1, 1, 1], "VALID"), biases))


def max_pool2d(inputs, kernel_size, padding="VALID"):
    return tf.nn.max_pool(inputs, [1, kernel_size, kernel_size, 1], [1, 2, 2, 1], padding)


def fully_connected(inputs, num_outputs, scope, activation_fn=tf.nn.relu):
    """slim.fully_connected outside that scope: no l2, and ReLU where nothing else is said."""
    with tf.variable_scope(scope):
        weights = tf.get_variable("weights", [int(inputs.get_shape()[-1]), num_outputs], inputs.dtype,
                                  initializer=tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [num_outputs], inputs.dtype, initializer=tf.zeros_initializer())
        net = tf.nn.bias_add(tf.matmul(inputs, weights), biases)
        return net if activation_fn is None else activation_fn(net)


def cls_ohem(cls_prob, label):
    zeros = tf.zeros_like(label)
    label_filter_invalid = tf.where(tf.less(label, 0), zeros, label)
    num_cls_prob = tf.size(cls_prob)
    cls_prob_reshape = tf.reshape(cls_prob, [num_cls_prob, -1])
    label_int = tf.cast(label_filter_invalid, tf.int32)
    num_row = tf.shape(cls_prob)[0]
    row = tf.range(num_row) * 2
    label_prob = tf.squeeze(tf.gather(cls_prob_reshape, row + label_int), axis=1)
    loss = -tf.log(label_prob + 1e-10)
    valid_inds = tf.where(label < zeros, zeros, tf.ones_like(label))
    num_valid = tf.reduce_sum(valid_inds)
    keep_num = tf.cast(num_valid * NUM_KEEP_RADIO, dtype=tf.int32)
    loss = loss * valid_inds
    loss, _ = tf.nn.top_k(loss, k=keep_num)
    return tf.reduce_mean(loss)


def regression_ohem(pred, target, valid_inds):
    square_error = tf.reduce_sum(tf.square(pred - target), axis=1)
    keep_num = tf.cast(tf.reduce_sum(valid_inds), dtype=tf.int32)
    square_error = square_error * valid_inds
    _, k_index = tf.nn.top_k(square_error, k=keep_num)
    return tf.reduce_mean(tf.gather(square_error, k_index))


def bbox_ohem(bbox_pred, bbox_target, label):
    return regression_ohem(bbox_pred, bbox_target, tf.cast(tf.equal(tf.abs(label), 1), label.dtype))


def landmark_ohem(landmark_pred, landmark_target, label):
    return regression_ohem(landmark_pred, landmark_target, tf.cast(tf.equal(label, -2), label.dtype))


def cal_accuracy(cls_prob, label):
    pred = tf.argmax(cls_prob, axis=1)
    label_int = tf.cast(label, tf.int64)
    picked = tf.squeeze(tf.where(tf.greater_equal(label_int, 0)), axis=1)
    return tf.reduce_mean(tf.cast(tf.equal(tf.gather(label_int, picked), tf.gather(pred, picked)), cls_prob.dtype))


def tower(image, label, roi, landmark):
    losses, end_points = [], {}
    inputs = (image - 127.5) / 128.0
    net = conv2d(inputs, 8, 3, "conv1", losses)
    net = max_pool2d(net, 3, padding="SAME")
    net = conv2d(net, 16, 3, "conv2", losses)
    end_points["conv2"] = net
    net = max_pool2d(net, 3)
    net = conv2d(net, 16, 2, "conv3", losses)
    net = max_pool2d(net, 2, padding="SAME")
    net = conv2d(net, 24, 2, "conv4", losses)
    end_points["conv4"] = net
    fc_flatten = tf.reshape(net, [-1, 2 * 2 * 24])
    fc1 = fully_connected(fc_flatten, 40, "fc1")
    cls_prob = fully_connected(fc1, 2, "cls_fc", tf.nn.softmax)
    bbox_pred = fully_connected(fc1, 4, "bbox_fc", None)
    landmark_pred = fully_connected(fc1, 10, "landmark_fc", None)
    end_points.update(fc1=fc1, cls_prob=cls_prob, bbox_pred=bbox_pred, landmark_pred=landmark_pred)

    cls_loss = cls_ohem(cls_prob, label)
    bbox_loss = bbox_ohem(bbox_pred, roi, label)
    landmark_loss = landmark_ohem(landmark_pred, landmark, label)
    l2_loss = tf.add_n(losses)
    end_points.update(cls_loss=cls_loss, bbox_loss=bbox_loss, landmark_loss=landmark_loss, l2_loss=l2_loss,
                      accuracy=cal_accuracy(cls_prob, label))
    total = RADIO_CLS_LOSS * cls_loss + RADIO_BBOX_LOSS * bbox_loss + RADIO_LANDMARK_LOSS * landmark_loss + l2_loss
    return total, end_points
