"""Shared trunk, two tasks, weighted by learnt uncertainties."""
import tensorflow.compat.v1 as tf

L2_SCALE = 1e-3
HUBER_DELTA = 1.0


def trunk(x, training):
    with tf.variable_scope("shared"):
        for i, units in enumerate([32, 24]):
            x = tf.layers.dense(x, units, use_bias=False, name="dense_%d" % i)
            x = tf.layers.batch_normalization(x, training=training, momentum=0.9, epsilon=1e-3, name="bn_%d" % i)
            x = tf.nn.elu(x)
    return x


def tower(features, classes, values, has_value, training=True):
    shared = trunk(features, training)
    with tf.variable_scope("classification"):
        hidden = tf.layers.dense(shared, 16, activation=tf.nn.relu, name="hidden")
        logits = tf.layers.dense(hidden, 3, name="logits")
    with tf.variable_scope("regression"):
        hidden = tf.layers.dense(shared, 16, activation=tf.nn.relu, name="hidden")
        prediction = tf.squeeze(tf.layers.dense(hidden, 1, name="prediction"), 1)

    class_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits))
    error = tf.abs(values - prediction)
    quadratic = tf.minimum(error, HUBER_DELTA)
    huber = 0.5 * tf.square(quadratic) + HUBER_DELTA * (error - quadratic)
    value_loss = tf.reduce_sum(huber * has_value) / tf.maximum(tf.reduce_sum(has_value), 1.0)

    with tf.variable_scope("weighting"):
        log_var_class = tf.get_variable("log_var_class", [], features.dtype, tf.zeros_initializer())
        log_var_value = tf.get_variable("log_var_value", [], features.dtype, tf.zeros_initializer())
    loss = (tf.exp(-log_var_class) * class_loss + 0.5 * log_var_class
            + 0.5 * tf.exp(-log_var_value) * value_loss + 0.5 * log_var_value)
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
    loss += L2_SCALE * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return loss, {"shared": shared, "logits": logits, "prediction": prediction, "class_loss": class_loss,
                  "value_loss": value_loss}
