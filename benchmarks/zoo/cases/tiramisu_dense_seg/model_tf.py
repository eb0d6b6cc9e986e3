"""The One Hundred Layers Tiramisu (FC-DenseNet) with tf.layers, cut to two transitions: dense blocks of BN, ReLU, 3x3 convolution;
transitions down by a 1x1 convolution and max pooling; transitions up by a strided transposed convolution of the block's new maps."""
import tensorflow.compat.v1 as tf

NUM_CLASSES, VOID = 4, 255
FIRST_CONV, GROWTH = 8, 4
LAYERS_PER_BLOCK = [2, 3]
BOTTLENECK_LAYERS = 3
WEIGHT_DECAY = 1e-3
CLASS_WEIGHTS = [0.7, 0.8, 1.6, 1.4]


class FCDenseNet(object):
    def __init__(self, training):
        self.training = training

    def bn_relu(self, x, name):
        x = tf.layers.batch_normalization(x, momentum=0.99, epsilon=1e-3, training=self.training, fused=False, name=name)
        return tf.nn.relu(x)

    def conv(self, x, filters, size, name):
        return tf.layers.conv2d(x, filters, size, padding="SAME", kernel_initializer=tf.variance_scaling_initializer(2.0), name=name)

    def layer(self, x, name):
        with tf.variable_scope(name):
            return self.conv(self.bn_relu(x, "bn"), GROWTH, 3, "conv")

    def dense_block(self, stack, layers, name):
        """Returns the whole stack, and what the block itself has made."""
        new = []
        with tf.variable_scope(name):
            for j in range(layers):
                out = self.layer(stack, "layer%d" % (j + 1))
                stack = tf.concat([stack, out], axis=3)
                new.append(out)
        return stack, tf.concat(new, axis=3)

    def transition_down(self, x, name):
        with tf.variable_scope(name):
            x = self.conv(self.bn_relu(x, "bn"), int(x.shape[-1]), 1, "conv")
            return tf.nn.max_pool2d(x, 2, 2, "SAME")

    def transition_up(self, skip, x, name):
        with tf.variable_scope(name):
            x = tf.layers.conv2d_transpose(x, int(x.shape[-1]), 3, strides=2, padding="SAME", name="deconv",
                                           kernel_initializer=tf.variance_scaling_initializer(2.0))
            return tf.concat([x, skip], axis=3)

    def __call__(self, images):
        ends, skips = {}, []
        with tf.variable_scope("tiramisu"):
            stack = self.conv(images, FIRST_CONV, 3, "conv_first")
            for i, layers in enumerate(LAYERS_PER_BLOCK):
                stack, _ = self.dense_block(stack, layers, "down%d" % i)
                skips.append(stack)
                ends["down%d" % i] = stack
                stack = self.transition_down(stack, "td%d" % i)
            _, new = self.dense_block(stack, BOTTLENECK_LAYERS, "bottleneck")
            ends["bottleneck"] = new
            for i, layers in reversed(list(enumerate(LAYERS_PER_BLOCK))):
                stack = self.transition_up(skips[i], new, "tu%d" % i)
                stack, new = self.dense_block(stack, layers, "up%d" % i)
                ends["up%d" % i] = stack if i == 0 else new
            ends["logits"] = self.conv(stack, NUM_CLASSES, 1, "logits")
        return ends


def tower(images, labels, training=True):
    ends = FCDenseNet(training)(images)
    logits = ends["logits"]
    valid = tf.cast(tf.not_equal(labels, VOID), logits.dtype)
    known = tf.where(tf.equal(labels, VOID), tf.zeros_like(labels), labels)
    weight = valid * tf.gather(tf.constant(CLASS_WEIGHTS, logits.dtype), known)
    pixels = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=known, logits=logits)
    # the median-frequency weights do not enter the divisor: it is the number of labelled pixels
    cross_entropy = tf.reduce_sum(weight * pixels) / tf.reduce_sum(valid)
    hit = tf.cast(tf.equal(tf.argmax(logits, 3, output_type=tf.int32), labels), logits.dtype)
    ends["cross_entropy"] = cross_entropy
    ends["pixel_accuracy"] = tf.reduce_sum(hit * valid) / tf.reduce_sum(valid)
    l2 = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name])
    return cross_entropy + l2, ends
