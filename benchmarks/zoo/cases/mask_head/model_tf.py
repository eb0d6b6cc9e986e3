"""Box and mask heads of Mask R-CNN with group norm, after the kind of code of tensorpack's FasterRCNN example.

The regions come pooled already: [images, regions, height, width, channels], and with their targets.
"""
import tensorflow.compat.v1 as tf

NUM_CLASS = 7  # with the background, 0
NUM_GROUPS = 4
WEIGHT_DECAY = 1e-3
BETA = 1.0 / 9


def group_norm(x, scope, epsilon=1e-5):
    _, h, w, c = x.shape.as_list()
    with tf.variable_scope(scope):
        grouped = tf.reshape(x, [-1, h, w, NUM_GROUPS, c // NUM_GROUPS])
        mean, var = tf.nn.moments(grouped, [1, 2, 4], keep_dims=True)
        shape = [1, 1, 1, NUM_GROUPS, c // NUM_GROUPS]
        beta = tf.get_variable("beta", [c], x.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [c], x.dtype, initializer=tf.ones_initializer())
        out = tf.nn.batch_normalization(grouped, mean, var, tf.reshape(beta, shape), tf.reshape(gamma, shape), epsilon)
        return tf.reshape(out, [-1, h, w, c])


def conv_gn_relu(x, channels, name):
    x = tf.layers.conv2d(x, channels, 3, padding="same", use_bias=False, name=name,
                         kernel_initializer=tf.variance_scaling_initializer(scale=2.0, mode="fan_out"))
    return tf.nn.relu(group_norm(x, name + "_gn"))


def fastrcnn_head(feature):
    with tf.variable_scope("fastrcnn"):
        for i, channels in enumerate((16, 12)):
            feature = conv_gn_relu(feature, channels, "conv%d" % i)
        _, h, w, c = feature.shape.as_list()
        hidden = tf.layers.dense(tf.reshape(feature, [-1, h * w * c]), 34, activation=tf.nn.relu, name="fc")
        classification = tf.layers.dense(hidden, NUM_CLASS, name="class",
                                         kernel_initializer=tf.random_normal_initializer(stddev=0.01))
        box_regression = tf.layers.dense(hidden, NUM_CLASS * 4, name="box",
                                         kernel_initializer=tf.random_normal_initializer(stddev=0.001))
        return classification, tf.reshape(box_regression, [-1, NUM_CLASS, 4])


def maskrcnn_head(feature):
    with tf.variable_scope("maskrcnn"):
        for i, channels in enumerate((12, 8)):
            feature = conv_gn_relu(feature, channels, "fcn%d" % i)
        feature = tf.layers.conv2d_transpose(feature, 11, 2, strides=2, activation=tf.nn.relu, name="deconv")
        return tf.layers.conv2d(feature, NUM_CLASS - 1, 1, name="conv")


def smooth_l1(x):
    absolute = tf.abs(x)
    return tf.where(absolute < BETA, 0.5 * tf.square(x) / BETA, absolute - 0.5 * BETA)


def fastrcnn_losses(labels, label_logits, deltas, box_logits):
    label_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=label_logits))
    fg_inds = tf.where(labels > 0)[:, 0]
    fg_labels = tf.gather(labels, fg_inds)
    indices = tf.stack([tf.cast(fg_inds, tf.int32), fg_labels], axis=1)
    fg_box_logits = tf.gather_nd(box_logits, indices)
    box_loss = tf.reduce_sum(smooth_l1(tf.gather(deltas, fg_inds) - fg_box_logits))
    # over all regions, not only those with an object
    return label_loss, box_loss / tf.cast(tf.shape(labels)[0], deltas.dtype)


def maskrcnn_loss(mask_logits, labels, masks):
    fg_inds = tf.where(labels > 0)[:, 0]
    fg_labels = tf.gather(labels, fg_inds)
    logits = tf.transpose(tf.gather(mask_logits, fg_inds), [0, 3, 1, 2])
    indices = tf.stack([tf.range(tf.size(fg_labels)), fg_labels - 1], axis=1)
    logits = tf.gather_nd(logits, indices)
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.gather(masks, fg_inds), logits=logits)
    return tf.reduce_mean(loss)


def tower(box_features, mask_features, gt_labels, gt_deltas, gt_masks):
    def regions(x):
        return tf.reshape(x, [-1] + x.shape.as_list()[2:])

    labels = tf.reshape(gt_labels, [-1])
    label_logits, box_logits = fastrcnn_head(regions(box_features))
    mask_logits = maskrcnn_head(regions(mask_features))
    label_loss, box_loss = fastrcnn_losses(labels, label_logits, regions(gt_deltas), box_logits)
    mask_loss = maskrcnn_loss(mask_logits, labels, regions(gt_masks))
    wd_cost = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name])
    return label_loss + box_loss + mask_loss + wd_cost, {
        "label_logits": label_logits, "box_logits": box_logits, "mask_logits": mask_logits,
        "label_loss": label_loss, "box_loss": box_loss, "mask_loss": mask_loss,
    }
