"""An embedding of pictures for retrieval, trained with the n-pairs loss as tf.contrib's metric learning has it: similarities of all
anchors with all positives of the batch, pairs of one label sharing the target, and l2 on the embeddings themselves."""
import tensorflow.compat.v1 as tf

FILTERS = [8, 16, 24]
EMBEDDING_SIZE = 16
REG_LAMBDA = 0.02


def conv_bn_relu(net, filters, training, name):
    with tf.variable_scope(name):
        net = tf.layers.conv2d(net, filters, 3, padding="same", use_bias=False, name="conv",
                               kernel_initializer=tf.variance_scaling_initializer(2.0))
        net = tf.layers.batch_normalization(net, momentum=0.9, epsilon=1e-3, training=training, name="bn", fused=False)
        return tf.nn.relu(net)


def embed(images, training):
    net = images
    with tf.variable_scope("embedder"):
        for i, filters in enumerate(FILTERS):
            net = conv_bn_relu(net, filters, training, "block%d" % (i + 1))
            if i < 2:
                net = tf.layers.max_pooling2d(net, 3, 2, padding="same")
        net = tf.reduce_mean(net, [1, 2], name="pool")
        return tf.layers.dense(net, EMBEDDING_SIZE, name="embedding")


def npairs_loss(labels, embeddings_anchor, embeddings_positive, reg_lambda):
    reg_anchor = tf.reduce_mean(tf.reduce_sum(tf.square(embeddings_anchor), 1))
    reg_positive = tf.reduce_mean(tf.reduce_sum(tf.square(embeddings_positive), 1))
    l2loss = 0.25 * reg_lambda * (reg_anchor + reg_positive)
    similarity = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    labels = tf.reshape(labels, [-1, 1])
    remapped = tf.cast(tf.equal(labels, tf.transpose(labels)), similarity.dtype)
    remapped /= tf.reduce_sum(remapped, 1, keepdims=True)
    xent = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=remapped, logits=similarity))
    return l2loss, xent, similarity


def tower(anchor, positive, label, training=True):
    embeddings = embed(tf.concat([anchor, positive], 0), training)
    first, second = tf.split(embeddings, 2)
    l2loss, xent, similarity = npairs_loss(label, first, second, REG_LAMBDA)
    return l2loss + xent, {"embeddings": first, "similarity": similarity, "xent": xent, "l2loss": l2loss}
