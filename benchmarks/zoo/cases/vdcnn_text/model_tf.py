"""Very deep convolutional network for text: characters, blocks of two temporal convolutions with batch norm and a shortcut, pooling by
halves in between, the k largest values of every channel, three dense layers."""
import tensorflow.compat.v1 as tf

ALPHABET = 31
EMBEDDING = 10
STEM = 8
FILTERS = [8, 14, 16]
K = 3
FC = 24


def he_normal():
    return tf.variance_scaling_initializer(scale=2.0, mode="fan_in", distribution="truncated_normal")


def batch_norm(inputs, training, name):
    return tf.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-5, training=training, name=name)


def convolutional_block(inputs, filters, training, name):
    with tf.variable_scope(name):
        shortcut = inputs
        if inputs.shape[-1].value != filters:
            shortcut = tf.layers.conv1d(inputs, filters, 1, use_bias=False, kernel_initializer=he_normal(), name="shortcut")
            shortcut = batch_norm(shortcut, training, "shortcut_bn")
        x = tf.layers.conv1d(inputs, filters, 3, padding="same", use_bias=False, kernel_initializer=he_normal(), name="conv_0")
        x = tf.nn.relu(batch_norm(x, training, "bn_0"))
        x = tf.layers.conv1d(x, filters, 3, padding="same", use_bias=False, kernel_initializer=he_normal(), name="conv_1")
        x = batch_norm(x, training, "bn_1")
        return tf.nn.relu(x + shortcut)


def fc(inputs, units, name, activation=None):
    return tf.layers.dense(inputs, units, activation=activation, kernel_initializer=tf.truncated_normal_initializer(stddev=0.2),
                           bias_initializer=tf.constant_initializer(0.05), name=name)


def tower(chars, labels, training=True):
    end_points = {}
    with tf.variable_scope("vdcnn"):
        with tf.variable_scope("embedding"):
            table = tf.get_variable("table", [ALPHABET, EMBEDDING], labels.dtype,
                                    initializer=tf.random_uniform_initializer(-1.0, 1.0, dtype=labels.dtype))
            x = tf.nn.embedding_lookup(table, chars)
        x = tf.layers.conv1d(x, STEM, 3, padding="same", kernel_initializer=he_normal(), name="first_conv")
        end_points["first_conv"] = x
        for i, filters in enumerate(FILTERS):
            x = convolutional_block(x, filters, training, "block_%d" % i)
            end_points["block_%d" % i] = x
            if i + 1 < len(FILTERS):
                x = tf.layers.max_pooling1d(x, pool_size=3, strides=2, padding="same")
        x = tf.transpose(x, [0, 2, 1])
        x = tf.nn.top_k(x, k=K).values
        end_points["k_max"] = x
        x = tf.reshape(x, [-1, FILTERS[-1] * K])
        x = fc(x, FC, "fc1", tf.nn.relu)
        x = fc(x, FC, "fc2", tf.nn.relu)
        logits = fc(x, labels.shape[-1].value, "fc3")
    end_points["logits"] = logits
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient(labels)))
    return loss, end_points
