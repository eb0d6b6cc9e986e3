"""x-vector: a TDNN over frames, statistics pooling, two segment layers and an additive-margin softmax over speakers."""
import tensorflow.compat.v1 as tf

NUM_SPEAKERS = 12
AMSOFTMAX_SCALE = 15.0
AMSOFTMAX_MARGIN = 0.2
VAR_FLOOR = 1e-5
WEIGHT_L2 = 2e-3


def _bn_relu(x, training):
    x = tf.layers.batch_normalization(x, momentum=0.95, epsilon=1e-3, training=training, name="bn")
    return tf.nn.relu(x)


def tdnn_layer(x, units, context, dilation, name, training):
    with tf.variable_scope(name):
        x = tf.layers.conv1d(x, units, context, padding="valid", dilation_rate=dilation, name="affine")
        return _bn_relu(x, training)


def statistics_pooling(x):
    mean = tf.reduce_mean(x, axis=1)
    variance = tf.reduce_mean(tf.squared_difference(x, tf.expand_dims(mean, 1)), axis=1)
    return tf.concat([mean, tf.sqrt(variance + VAR_FLOOR)], axis=1)


def additive_margin_softmax(features, labels):
    with tf.variable_scope("softmax"):
        w = tf.get_variable("output/kernel", [features.shape.as_list()[-1], NUM_SPEAKERS], features.dtype,
                            initializer=tf.glorot_uniform_initializer())
    cosine = tf.matmul(tf.nn.l2_normalize(features, axis=1), tf.nn.l2_normalize(w, axis=0))
    onehot = tf.one_hot(labels, NUM_SPEAKERS, dtype=features.dtype)
    logits = AMSOFTMAX_SCALE * (cosine - AMSOFTMAX_MARGIN * onehot)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    return cosine, tf.reduce_mean(losses)


def tower(features, speakers, training=True):
    end_points = {}
    with tf.variable_scope("tdnn"):
        # cepstral mean normalisation over the chunk
        x = features - tf.reduce_mean(features, axis=1, keepdims=True)
        x = tdnn_layer(x, 32, 5, 1, "tdnn1", training)
        x = tdnn_layer(x, 32, 3, 2, "tdnn2", training)
        x = tdnn_layer(x, 32, 3, 3, "tdnn3", training)
        with tf.variable_scope("tdnn4"):
            x = _bn_relu(tf.layers.dense(x, 32, name="affine"), training)
        with tf.variable_scope("tdnn5"):
            x = _bn_relu(tf.layers.dense(x, 48, name="affine"), training)
        end_points["frames"] = x
        x = statistics_pooling(x)
        end_points["pooled"] = x
        with tf.variable_scope("tdnn6"):
            x = tf.layers.dense(x, 32, name="affine")
            end_points["xvector"] = x
            x = _bn_relu(x, training)
        with tf.variable_scope("tdnn7"):
            x = tf.layers.dense(x, 24, name="affine")
    cosine, classification = additive_margin_softmax(x, speakers)
    end_points["cosine"] = cosine
    end_points["classification"] = classification
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return classification + WEIGHT_L2 * l2, end_points
