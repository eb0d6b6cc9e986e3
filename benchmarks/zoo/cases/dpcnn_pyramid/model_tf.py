"""Deep pyramid CNN for text categorisation: a region embedding, then pairs of pre-activated convolutions with identity shortcuts, the
length halved before every block while the number of feature maps stays."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 67
EMBEDDING_SIZE = 14
NUM_FILTERS = 20
KERNEL_SIZE = 3
NUM_CLASSES = 5
L2_REG_LAMBDA = 0.01


class DPCNN(object):
    def __init__(self, input_x, input_y, is_training):
        self.input_x, self.input_y, self.is_training = input_x, input_y, is_training
        self.dtype = input_y.dtype

    def conv(self, inputs, name):
        inputs = tf.nn.relu(inputs)
        return tf.layers.conv1d(inputs, NUM_FILTERS, KERNEL_SIZE, padding="same", name=name,
                                kernel_initializer=tf.truncated_normal_initializer(stddev=0.1, dtype=self.dtype),
                                bias_initializer=tf.constant_initializer(0.1))

    def region_embedding(self, embedded):
        with tf.variable_scope("region_embedding"):
            region = tf.layers.conv1d(embedded, NUM_FILTERS, KERNEL_SIZE, padding="valid", use_bias=False, name="conv")
            return tf.layers.batch_normalization(region, momentum=0.9, training=self.is_training, name="bn")

    def block(self, inputs, index):
        with tf.variable_scope("block_%d" % index):
            shortcut = tf.layers.max_pooling1d(inputs, pool_size=3, strides=2, padding="same")
            conv = self.conv(shortcut, "conv_0")
            conv = self.conv(conv, "conv_1")
            return conv + shortcut

    def build(self):
        with tf.variable_scope("embedding"):
            table = tf.get_variable("W", [VOCAB_SIZE, EMBEDDING_SIZE], self.dtype,
                                    initializer=tf.random_uniform_initializer(-1.0, 1.0, dtype=self.dtype))
            embedded = tf.nn.embedding_lookup(table, self.input_x)
        region = self.region_embedding(embedded)
        with tf.variable_scope("block_0"):
            x = self.conv(region, "conv_0")
            x = self.conv(x, "conv_1") + region
        self.first = x
        index = 1
        while x.get_shape().as_list()[1] > 2:
            x = self.block(x, index)
            index += 1
        pooled = tf.reduce_max(x, axis=1)
        with tf.variable_scope("output"):
            w = tf.get_variable("W", [NUM_FILTERS, NUM_CLASSES], self.dtype,
                                initializer=tf.glorot_uniform_initializer(dtype=self.dtype))
            b = tf.get_variable("b", [NUM_CLASSES], self.dtype, initializer=tf.constant_initializer(0.1))
            scores = tf.nn.xw_plus_b(pooled, w, b, name="scores")
            l2_loss = tf.nn.l2_loss(w) + tf.nn.l2_loss(b)
        losses = tf.nn.softmax_cross_entropy_with_logits(logits=scores, labels=self.input_y)
        loss = tf.reduce_mean(losses) + L2_REG_LAMBDA * l2_loss
        return loss, {"region": region, "first": self.first, "pooled": pooled, "scores": scores}


def tower(input_x, input_y, training=True):
    return DPCNN(input_x, input_y, training).build()
