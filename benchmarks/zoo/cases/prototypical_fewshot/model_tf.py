"""Prototypical network: one episode a tower, support and query pictures embedded in one pass."""
import tensorflow.compat.v1 as tf

H_DIM = 16
Z_DIM = 16


def conv_block(inputs, out_channels, training, name):
    with tf.variable_scope(name):
        conv = tf.layers.conv2d(inputs, out_channels, kernel_size=3, padding="SAME", name="conv")
        conv = tf.layers.batch_normalization(conv, momentum=0.9, epsilon=1e-3, center=True, scale=True,
                                             training=training, fused=False, name="bn")
        conv = tf.nn.relu(conv)
        conv = tf.layers.max_pooling2d(conv, 2, 2)
        return conv


def encoder(x, h_dim, z_dim, training):
    with tf.variable_scope("encoder"):
        net = conv_block(x, h_dim, training, name="conv_1")
        net = conv_block(net, h_dim, training, name="conv_2")
        net = conv_block(net, z_dim, training, name="conv_3")
        net = tf.layers.flatten(net)
        return net


def euclidean_distance(a, b):
    # a.shape = N x D, b.shape = M x D
    N, D = tf.shape(a)[0], a.shape.as_list()[1]
    M = tf.shape(b)[0]
    a = tf.tile(tf.expand_dims(a, axis=1), (1, M, 1))
    b = tf.tile(tf.expand_dims(b, axis=0), (N, 1, 1))
    return tf.reduce_mean(tf.square(a - b), axis=2)


def tower(support, query, training=True):
    num_classes = tf.shape(support)[0]
    num_support = support.shape.as_list()[1]
    num_queries = query.shape.as_list()[1]
    im_shape = support.shape.as_list()[2:]
    x = tf.reshape(support, [-1] + im_shape)
    q = tf.reshape(query, [-1] + im_shape)

    emb = encoder(tf.concat([x, q], axis=0), H_DIM, Z_DIM, training)
    emb_dim = emb.shape.as_list()[-1]
    emb_x, emb_q = tf.split(emb, [num_classes * num_support, num_classes * num_queries], axis=0)
    emb_x = tf.reduce_mean(tf.reshape(emb_x, [-1, num_support, emb_dim]), axis=1)
    dists = euclidean_distance(emb_q, emb_x)

    y = tf.tile(tf.expand_dims(tf.range(num_classes), axis=-1), (1, num_queries))
    y_one_hot = tf.one_hot(y, depth=num_classes, dtype=dists.dtype)
    log_p_y = tf.reshape(tf.nn.log_softmax(-dists), [-1, num_queries, num_classes])
    ce_loss = -tf.reduce_mean(tf.reshape(tf.reduce_sum(tf.multiply(y_one_hot, log_p_y), axis=-1), [-1]))
    correct = tf.equal(tf.argmax(log_p_y, axis=-1, output_type=tf.int32), y)
    acc = tf.reduce_mean(tf.cast(correct, dists.dtype))
    return ce_loss, {"dists": dists, "acc": acc}
