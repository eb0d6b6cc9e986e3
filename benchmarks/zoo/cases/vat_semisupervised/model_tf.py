"""Semi-supervised classification by virtual adversarial training and entropy minimisation: one power iteration finds the
perturbation of each unlabelled image that changes the prediction most. Only the labelled images move batch norm's statistics."""
import tensorflow.compat.v1 as tf

CLASSES = 5
XI = 1.0
EPSILON = 2.5
NUM_POWER_ITERATIONS = 1
ENTROPY_FACTOR = 0.5
BN_DECAY = 0.9


def lrelu(x, a=0.1):
    return tf.maximum(x, a * x)


def bn(x, training, name):
    return tf.layers.batch_normalization(x, momentum=BN_DECAY, epsilon=1e-5, training=training, fused=False, name=name)


def conv(x, filters, size, padding, name):
    return tf.layers.conv2d(x, filters, size, padding=padding, use_bias=False, name=name)


def forward(x, training=True, update_batch_stats=True):
    kept = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    with tf.variable_scope("cnn", reuse=tf.AUTO_REUSE):
        h = lrelu(bn(conv(x, 8, 3, "same", "c1"), training, "b1"))
        h = lrelu(bn(conv(h, 12, 3, "same", "c2"), training, "b2"))
        h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        h = lrelu(bn(conv(h, 16, 3, "valid", "c3"), training, "b3"))
        h = lrelu(bn(conv(h, 12, 1, "same", "c4"), training, "b4"))
        h = tf.reduce_mean(h, [1, 2])
        logit = tf.layers.dense(h, CLASSES, name="fc")
    if not update_batch_stats:
        del tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)[kept:]
    return logit


def kl_divergence_with_logit(q_logit, p_logit):
    q = tf.nn.softmax(q_logit)
    qlogq = tf.reduce_mean(tf.reduce_sum(q * tf.nn.log_softmax(q_logit), 1))
    qlogp = tf.reduce_mean(tf.reduce_sum(q * tf.nn.log_softmax(p_logit), 1))
    return qlogq - qlogp


def get_normalized_vector(d):
    d /= 1e-12 + tf.reduce_max(tf.abs(d), [1, 2, 3], keepdims=True)
    d /= tf.sqrt(1e-6 + tf.reduce_sum(tf.pow(d, 2.0), [1, 2, 3], keepdims=True))
    return d


def virtual_adversarial_loss(x, logit, d):
    logit_p = tf.stop_gradient(logit)
    for _ in range(NUM_POWER_ITERATIONS):
        d = XI * get_normalized_vector(d)
        logit_m = forward(x + d, update_batch_stats=False)
        dist = kl_divergence_with_logit(logit_p, logit_m)
        d = tf.stop_gradient(tf.gradients(dist, [d])[0])
    r_vadv = EPSILON * get_normalized_vector(d)
    return kl_divergence_with_logit(logit_p, forward(x + r_vadv, update_batch_stats=False)), r_vadv


def entropy_y_x(logit):
    p = tf.nn.softmax(logit)
    return -tf.reduce_mean(tf.reduce_sum(p * tf.nn.log_softmax(logit), 1))


def tower(images, labels, unlabeled, noise, training=True):
    logit = forward(images, training)
    ce_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logit, labels=labels))
    right = tf.equal(tf.argmax(logit, 1, output_type=tf.int32), labels)
    outputs = {"logit": logit, "accuracy": tf.reduce_mean(tf.cast(right, logit.dtype))}
    if not training:
        return ce_loss, outputs
    ul_logit = forward(unlabeled, update_batch_stats=False)
    vat_loss, r_vadv = virtual_adversarial_loss(unlabeled, ul_logit, noise)
    entropy_loss = entropy_y_x(ul_logit)
    outputs.update(ul_logit=ul_logit, r_vadv=r_vadv, ce_loss=ce_loss, vat_loss=vat_loss, entropy_loss=entropy_loss)
    return ce_loss + vat_loss + ENTROPY_FACTOR * entropy_loss, outputs
