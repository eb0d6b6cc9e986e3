"""CornerNet, one small hourglass: heatmaps, embeddings and offsets of top-left and bottom-right corners behind corner pooling."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 3
DIMS = [12, 16]
POOL_DIM = 10
PULL_WEIGHT, PUSH_WEIGHT, OFF_WEIGHT = 0.1, 0.1, 1.0


class CornerNet(object):
    def __init__(self, training):
        self.training = training

    def conv_bn(self, x, dim, k, name, strides=1, relu=True):
        with tf.variable_scope(name):
            x = tf.layers.conv2d(x, dim, k, strides=strides, padding="same", use_bias=False, name="conv")
            x = tf.layers.batch_normalization(x, training=self.training, fused=False, name="bn")
            return tf.nn.relu(x) if relu else x

    def residual(self, x, dim, name, strides=1):
        with tf.variable_scope(name):
            y = self.conv_bn(x, dim, 3, "conv_bn_relu", strides)
            y = self.conv_bn(y, dim, 3, "conv_bn", relu=False)
            if strides != 1 or x.shape[-1] != dim:
                x = self.conv_bn(x, dim, 1, "skip", strides, relu=False)
            return tf.nn.relu(x + y)

    def hourglass(self, x, n, dims, name):
        with tf.variable_scope(name):
            curr_dim, next_dim = dims[0], dims[1]
            up1 = self.residual(x, curr_dim, "up_1")
            low = self.residual(x, next_dim, "low_1", strides=2)
            if n > 1:
                low = self.hourglass(low, n - 1, dims[1:], "inner_%d" % n)
            else:
                low = self.residual(low, next_dim, "low_2")
            low = self.residual(low, curr_dim, "low_3")
            size = up1.shape.as_list()[1:3]
            return up1 + tf.image.resize_nearest_neighbor(low, size)

    @staticmethod
    def top_pool(x):
        h = x.shape.as_list()[1]
        return tf.stack([tf.reduce_max(x[:, i:], axis=1) for i in range(h)], axis=1)

    @staticmethod
    def bottom_pool(x):
        h = x.shape.as_list()[1]
        return tf.stack([tf.reduce_max(x[:, :i + 1], axis=1) for i in range(h)], axis=1)

    @staticmethod
    def left_pool(x):
        w = x.shape.as_list()[2]
        return tf.stack([tf.reduce_max(x[:, :, i:], axis=2) for i in range(w)], axis=2)

    @staticmethod
    def right_pool(x):
        w = x.shape.as_list()[2]
        return tf.stack([tf.reduce_max(x[:, :, :i + 1], axis=2) for i in range(w)], axis=2)

    def corner_module(self, x, pool1, pool2, name):
        dim = x.shape.as_list()[-1]
        with tf.variable_scope(name):
            p1 = pool1(self.conv_bn(x, POOL_DIM, 3, "p1_conv1"))
            p2 = pool2(self.conv_bn(x, POOL_DIM, 3, "p2_conv1"))
            p = self.conv_bn(p1 + p2, dim, 3, "p_conv1", relu=False)
            skip = self.conv_bn(x, dim, 1, "conv1", relu=False)
            return self.conv_bn(tf.nn.relu(p + skip), dim, 3, "conv2")

    def head(self, x, out_dim, name, bias=0.0):
        with tf.variable_scope(name):
            x = tf.layers.conv2d(x, DIMS[0], 3, padding="same", activation=tf.nn.relu, name="conv_relu")
            return tf.layers.conv2d(x, out_dim, 1, bias_initializer=tf.constant_initializer(bias), name="conv")

    def corner(self, x, pools, prefix):
        x = self.corner_module(x, pools[0], pools[1], prefix + "_pool")
        heat = self.head(x, NUM_CLASSES, prefix + "_heat", bias=-2.19)
        tag = self.head(x, 1, prefix + "_tag")
        off = self.head(x, 2, prefix + "_off")
        return heat, tag, off

    def __call__(self, images):
        x = self.conv_bn(images, 8, 7, "pre", strides=2)
        x = self.residual(x, DIMS[0], "pre_res")
        x = self.hourglass(x, 1, DIMS, "hourglass")
        x = self.conv_bn(x, DIMS[0], 3, "cnv")
        return (self.corner(x, (self.top_pool, self.left_pool), "tl"),
                self.corner(x, (self.bottom_pool, self.right_pool), "br"))


def gather_feat(feat, ind):
    shape = tf.shape(feat)
    feat = tf.reshape(feat, [shape[0], -1, feat.shape.as_list()[-1]])
    rows = tf.tile(tf.expand_dims(tf.range(shape[0]), 1), [1, tf.shape(ind)[1]])
    return tf.gather_nd(feat, tf.stack([rows, ind], axis=-1))


def focal_loss(logits, gt):
    pred = tf.clip_by_value(tf.sigmoid(logits), 1e-4, 1 - 1e-4)
    pos = tf.cast(tf.equal(gt, 1.0), gt.dtype)
    pos_loss = tf.log(pred) * tf.pow(1 - pred, 2) * pos
    neg_loss = tf.log(1 - pred) * tf.pow(pred, 2) * tf.pow(1 - gt, 4) * (1 - pos)
    return -(tf.reduce_sum(pos_loss) + tf.reduce_sum(neg_loss)) / tf.reduce_sum(pos)


def tag_loss(tag0, tag1, mask):
    num = tf.reduce_sum(mask, axis=1, keepdims=True)
    mean = (tag0 + tag1) / 2
    pull = (tf.square(tag0 - mean) + tf.square(tag1 - mean)) / (num + 1e-4)
    pull = tf.reduce_sum(pull * mask)

    pairs = tf.expand_dims(mask, 1) * tf.expand_dims(mask, 2)
    num = tf.expand_dims(num, 2)
    dist = tf.nn.relu(1 - tf.abs(tf.expand_dims(mean, 1) - tf.expand_dims(mean, 2)))
    dist = (dist - 1 / (num + 1e-4)) / ((num - 1) * num + 1e-4)
    return pull, tf.reduce_sum(dist * pairs)


def offset_loss(off, gt, mask):
    diff = tf.abs(off - gt)
    less = tf.cast(diff < 1.0, off.dtype)
    loss = less * 0.5 * tf.square(diff) + (1 - less) * (diff - 0.5)
    return tf.reduce_sum(loss * tf.expand_dims(mask, 2)) / (tf.reduce_sum(mask) + 1e-4)


def tower(images, tl_heat, br_heat, tl_inds, br_inds, tl_offs, br_offs, tag_masks, training=True):
    (heat0, tag0, off0), (heat1, tag1, off1) = CornerNet(training)(images)
    tag0 = tf.squeeze(gather_feat(tag0, tl_inds), 2)
    tag1 = tf.squeeze(gather_feat(tag1, br_inds), 2)
    off0, off1 = gather_feat(off0, tl_inds), gather_feat(off1, br_inds)

    focal = focal_loss(heat0, tl_heat) + focal_loss(heat1, br_heat)
    pull, push = tag_loss(tag0, tag1, tag_masks)
    offset = offset_loss(off0, tl_offs, tag_masks) + offset_loss(off1, br_offs, tag_masks)
    loss = (focal + PULL_WEIGHT * pull + PUSH_WEIGHT * push + OFF_WEIGHT * offset) / 2
    return loss, {"tl_heatmap": heat0, "br_heatmap": heat1, "tl_tags": tag0, "br_tags": tag1}
