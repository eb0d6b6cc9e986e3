"""DenseNet with bottlenecks, by tf.layers with its default names."""
import tensorflow.compat.v1 as tf

GROWTH_K = 6
WEIGHT_DECAY = 1e-4
CLASS_NUM = 6


def conv_layer(input, filter, kernel, stride=1):
    return tf.layers.conv2d(input, filter, kernel, stride, padding='SAME', use_bias=False)


def batch_normalization(x, training):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=False)


class DenseNet:
    def __init__(self, x, training):
        self.training = training
        self.end_points = {}
        self.logits = self.dense_net(x)

    def bottleneck_layer(self, x):
        x = tf.nn.relu(batch_normalization(x, self.training))
        x = conv_layer(x, 4 * GROWTH_K, [1, 1])
        x = tf.nn.relu(batch_normalization(x, self.training))
        return conv_layer(x, GROWTH_K, [3, 3])

    def transition_layer(self, x):
        x = tf.nn.relu(batch_normalization(x, self.training))
        x = conv_layer(x, int(int(x.shape[-1]) * 0.5), [1, 1])
        return tf.layers.average_pooling2d(x, [2, 2], 2, padding='VALID')

    def dense_block(self, input_x, nb_layers, name):
        layers_concat = [input_x]
        for _ in range(nb_layers):
            layers_concat.append(self.bottleneck_layer(tf.concat(layers_concat, axis=3)))
        x = tf.concat(layers_concat, axis=3)
        self.end_points[name] = x
        return x

    def dense_net(self, input_x):
        with tf.variable_scope("densenet"):
            x = conv_layer(input_x, 2 * GROWTH_K, [3, 3])
            x = self.dense_block(x, 3, "dense_1")
            x = self.transition_layer(x)
            self.end_points["trans_1"] = x
            x = self.dense_block(x, 3, "dense_2")
            x = tf.nn.relu(batch_normalization(x, self.training))
            x = tf.reduce_mean(x, [1, 2])
            self.end_points["pooled"] = x
            return tf.layers.dense(x, CLASS_NUM)


def tower(x, label, training=True):
    net = DenseNet(x, training)
    cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=label, logits=net.logits))
    l2_loss = tf.add_n([tf.nn.l2_loss(var) for var in tf.trainable_variables()])
    return cost + l2_loss * WEIGHT_DECAY, dict(net.end_points, logits=net.logits, cost=cost)
