"""Scene text by linked pixels: a small VGG whose pool5 does not subsample and whose fc6 is dilated, scores from three
of its maps that are upsampled and added from the coarsest on, hard negative mining for the pixels, and the links."""
import tensorflow.compat.v1 as tf

NUM_CLONES = 2
NUM_NEIGHBOURS = 8
MAX_NEG_POS_RATIO = 3
PIXEL_LOSS_WEIGHT = 2.0
LINK_LOSS_WEIGHT = 1.0
WEIGHT_DECAY = 5e-4
TEXT_LABEL, BACKGROUND_LABEL = 1, 0
RGB_MEAN = [123., 117., 104.]


class PixelLinkNet(object):

    def __init__(self, images):
        self.dtype = images.dtype
        self.regularisers = []
        self.end_points = {}
        self._build(images)
        with tf.variable_scope('pixel_cls'):
            self.pixel_logits = self._fuse(2)
        with tf.variable_scope('pixel_link'):
            logits = self._fuse(2 * NUM_NEIGHBOURS)
            shape = tf.shape(logits)
            self.link_logits = tf.reshape(logits, [shape[0], shape[1], shape[2], NUM_NEIGHBOURS, 2])

    def _conv(self, x, filters, size, scope, rate=1, activation_fn=tf.nn.relu):
        with tf.variable_scope(scope):
            channels = x.get_shape().as_list()[-1]
            weights = tf.get_variable('weights', [size, size, channels, filters], self.dtype,
                                      tf.glorot_uniform_initializer(dtype=self.dtype))
            biases = tf.get_variable('biases', [filters], self.dtype, tf.zeros_initializer())
            self.regularisers.append(WEIGHT_DECAY * tf.nn.l2_loss(weights))
            x = tf.nn.convolution(x, weights, 'SAME', dilation_rate=[rate, rate])
            x = tf.nn.bias_add(x, biases)
            return x if activation_fn is None else activation_fn(x)

    def _build(self, images):
        net = (images - tf.constant(RGB_MEAN, self.dtype)) / 50.
        net = self._conv(net, 8, 3, 'conv1_1')
        net = self._conv(net, 8, 3, 'conv1_2')
        net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], 'SAME')
        net = self._conv(net, 12, 3, 'conv2_1')
        net = self._conv(net, 12, 3, 'conv2_2')
        self.end_points['conv2_2'] = net
        net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], 'SAME')
        net = self._conv(net, 16, 3, 'conv3_1')
        net = self._conv(net, 16, 3, 'conv3_2')
        self.end_points['conv3_2'] = net
        net = tf.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], 'SAME')
        net = self._conv(net, 24, 3, 'conv4_1')
        net = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], 'SAME')
        net = self._conv(net, 32, 3, 'fc6', rate=2)
        net = self._conv(net, 32, 1, 'fc7')
        self.end_points['fc7'] = net

    def _fuse(self, num_outputs):
        fused = None
        for name in ['fc7', 'conv3_2', 'conv2_2']:
            layer = self.end_points[name]
            score = self._conv(layer, num_outputs, 1, 'score_from_' + name, activation_fn=None)
            if fused is not None:
                score += tf.cast(tf.image.resize_bilinear(fused, tf.shape(layer)[1:3]), self.dtype)
            fused = score
        return fused


def hard_negatives(scores, positive, negative):
    """Of one picture: the negatives that are taken least for background."""
    n_pos = tf.reduce_sum(tf.cast(positive, tf.int32))
    n_neg = tf.cond(n_pos > 0, lambda: n_pos * MAX_NEG_POS_RATIO, lambda: tf.constant(10000))
    n_neg = tf.minimum(n_neg, tf.reduce_sum(tf.cast(negative, tf.int32)))

    def select():
        values, _ = tf.nn.top_k(-tf.boolean_mask(scores, negative), k=n_neg)
        return tf.logical_and(negative, scores <= -values[-1])

    return tf.cond(n_neg > 0, select, lambda: tf.zeros_like(negative))


def tower(images, pixel_labels, pixel_weights, link_labels):
    net = PixelLinkNet(images)
    batch_size = tf.shape(images)[0]
    flat_labels = tf.reshape(pixel_labels, [batch_size, -1])
    flat_weights = tf.reshape(pixel_weights, [batch_size, -1])
    flat_logits = tf.reshape(net.pixel_logits, [batch_size, -1, 2])
    positive = tf.equal(flat_labels, TEXT_LABEL)
    negative = tf.equal(flat_labels, BACKGROUND_LABEL)

    with tf.name_scope('pixel_cls_loss'):
        pixel_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(positive, tf.int32),
                                                                    logits=flat_logits)
        background = tf.stop_gradient(tf.nn.softmax(flat_logits)[:, :, 0])
        selected = tf.map_fn(lambda e: hard_negatives(*e), (background, positive, negative), dtype=tf.bool)
        selected = tf.cast(selected, images.dtype)
        n_pos = tf.reduce_sum(tf.cast(positive, images.dtype))
        n_neg = tf.reduce_sum(selected)
        pixel_loss = tf.reduce_sum(pixel_loss * (flat_weights + selected)) / (n_neg + n_pos)

    with tf.name_scope('pixel_link_loss'):
        link_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=link_labels, logits=net.link_logits)

        def loss_of(label):
            weights = tf.expand_dims(pixel_weights, 3) * tf.cast(tf.equal(link_labels, label), images.dtype)
            return tf.reduce_sum(link_loss * weights) / tf.reduce_sum(weights)

        link_loss = loss_of(1) + loss_of(0)

    total = PIXEL_LOSS_WEIGHT * pixel_loss + LINK_LOSS_WEIGHT * link_loss + tf.add_n(net.regularisers)
    return total / NUM_CLONES, {'pixel_logits': net.pixel_logits, 'link_logits': net.link_logits,
                                'pixel_loss': pixel_loss, 'link_loss': link_loss}
