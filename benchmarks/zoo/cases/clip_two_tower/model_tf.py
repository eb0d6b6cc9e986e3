"""Contrastive pretraining of an image and a text encoder; every tower contrasts its own pairs."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCAB, CONTEXT, WIDTH, HEADS, EMBED = 40, 8, 16, 2, 12
L2 = 1e-3


def conv_bn_relu(x, filters, name, training):
    with tf.variable_scope(name):
        x = tf.layers.conv2d(x, filters, 3, strides=2, padding="same", use_bias=False, name="conv")
        x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=False, name="bn")
        return tf.nn.relu(x)


def layer_norm(x, name):
    with tf.variable_scope(name):
        size = x.shape.as_list()[-1]
        gain = tf.get_variable("gain", [size], x.dtype, initializer=tf.ones_initializer())
        bias = tf.get_variable("bias", [size], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, 1e-12)


def image_encoder(images, training):
    with tf.variable_scope("image"):
        x = conv_bn_relu(images, 12, "block1", training)
        x = conv_bn_relu(x, 24, "block2", training)
        pooled = tf.reduce_mean(x, [1, 2])
        return tf.layers.dense(pooled, EMBED, use_bias=False, name="projection")


def heads(x):
    return tf.transpose(tf.reshape(x, [-1, CONTEXT, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def attention(x, name):
    with tf.variable_scope(name):
        q = heads(tf.layers.dense(x, WIDTH, name="query"))
        k = heads(tf.layers.dense(x, WIDTH, name="key"))
        v = heads(tf.layers.dense(x, WIDTH, name="value"))
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(WIDTH // HEADS)
        future = np.triu(np.full([CONTEXT, CONTEXT], -1e9), 1)
        probs = tf.nn.softmax(scores + tf.constant(future, scores.dtype))
        context = tf.reshape(tf.transpose(tf.matmul(probs, v), [0, 2, 1, 3]), [-1, CONTEXT, WIDTH])
        return tf.layers.dense(context, WIDTH, name="output")


def text_encoder(tokens, dtype):
    with tf.variable_scope("text"):
        table = tf.get_variable("token_embedding", [VOCAB, WIDTH], dtype, tf.random_normal_initializer(stddev=0.02))
        places = tf.get_variable("positional_embedding", [CONTEXT, WIDTH], dtype,
                                 tf.random_normal_initializer(stddev=0.01))
        x = tf.gather(table, tokens) + places
        x = x + attention(layer_norm(x, "ln_1"), "attn")
        h = tf.layers.dense(layer_norm(x, "ln_2"), 2 * WIDTH, name="fc")
        h = h * tf.sigmoid(1.702 * h)
        x = x + tf.layers.dense(h, WIDTH, name="proj")
        x = layer_norm(x, "ln_final")
        end = tf.argmax(tokens, axis=-1, output_type=tf.int32)  # the end of text has the highest number
        rows = tf.range(tf.shape(tokens)[0])
        x = tf.gather_nd(x, tf.stack([rows, end], axis=1))
        projection = tf.get_variable("text_projection", [WIDTH, EMBED], dtype,
                                     tf.random_normal_initializer(stddev=WIDTH ** -0.5))
        return tf.matmul(x, projection)


def tower(images, tokens, training=True):
    dtype = images.dtype
    image_features = tf.nn.l2_normalize(image_encoder(images, training), axis=1)
    text_features = tf.nn.l2_normalize(text_encoder(tokens, dtype), axis=1)
    log_scale = tf.get_variable("logit_scale", [], dtype, initializer=tf.constant_initializer(np.log(1 / 0.07)))
    logits = tf.minimum(tf.exp(log_scale), 100.0) * tf.matmul(image_features, text_features, transpose_b=True)
    labels = tf.range(tf.shape(logits)[0])
    by_image = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    by_text = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.transpose(logits)))
    contrastive = (by_image + by_text) / 2
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.shape.ndims > 1])
    return contrastive + L2 * decay, {"image_features": image_features, "text_features": text_features,
                                      "logits": logits, "contrastive": contrastive}
