"""PixelCNN with masked convolutions, gated residual blocks, and a discretised mixture of logistics per pixel."""
import numpy as np
import tensorflow.compat.v1 as tf

FILTERS = 12
MIXTURES = 3


def concat_elu(x):
    return tf.nn.elu(tf.concat([x, -x], axis=3))


def masked_conv2d(x, filters, size, name, mask_type="B"):
    """A pixel sees those above, those on its left and, with mask B, itself."""
    channels = x.shape.as_list()[3]
    mask = np.ones([size, size, channels, filters])
    mask[size // 2, size // 2 + (mask_type == "B"):] = 0
    mask[size // 2 + 1:] = 0
    with tf.variable_scope(name):
        w = tf.get_variable("W", [size, size, channels, filters], x.dtype,
                            initializer=tf.random_normal_initializer(stddev=0.05))
        b = tf.get_variable("b", [filters], x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.conv2d(x, w * tf.constant(mask, x.dtype), [1, 1, 1, 1], "SAME") + b


def nin(x, filters, name):
    """A network in network: a dense layer for every pixel."""
    _, height, width, channels = x.shape.as_list()
    with tf.variable_scope(name):
        w = tf.get_variable("W", [channels, filters], x.dtype, initializer=tf.random_normal_initializer(stddev=0.05))
        b = tf.get_variable("b", [filters], x.dtype, initializer=tf.zeros_initializer())
        return tf.reshape(tf.matmul(tf.reshape(x, [-1, channels]), w) + b, [-1, height, width, filters])


def gated_resnet(x, name, a=None):
    with tf.variable_scope(name):
        c1 = masked_conv2d(concat_elu(x), FILTERS, 3, "conv_1")
        if a is not None:
            c1 += nin(concat_elu(a), FILTERS, "aux")
        c2 = masked_conv2d(concat_elu(c1), 2 * FILTERS, 3, "conv_2")
        value, gate = tf.split(c2, 2, 3)
        return x + value * tf.nn.sigmoid(gate)


def model_spec(images):
    with tf.variable_scope("model"):
        ones = tf.ones_like(images[..., :1])  # so that the border can be told from black
        x = masked_conv2d(tf.concat([images, ones], 3), FILTERS, 5, "first", mask_type="A")
        u = [x]
        for i in range(2):
            u.append(gated_resnet(u[-1], "up_%d" % i))
        x = u.pop()
        x = gated_resnet(x, "down_0", a=u.pop())
        return nin(tf.nn.elu(x), 10 * MIXTURES, "out")


def log_prob_from_logits(x):
    """Numerically stable log of a softmax."""
    m = tf.reduce_max(x, -1, keepdims=True)
    return x - m - tf.log(tf.reduce_sum(tf.exp(x - m), -1, keepdims=True))


def log_sum_exp(x):
    m = tf.reduce_max(x, -1)
    return m + tf.log(tf.reduce_sum(tf.exp(x - m[..., None]), -1))


def discretized_mix_logistic(x, l):
    """Returns the log-likelihood of every pixel, of channels x rescaled to [-1, 1]."""
    _, height, width, _ = x.shape.as_list()
    logit_probs = l[..., :MIXTURES]
    l = tf.reshape(l[..., MIXTURES:], [-1, height, width, 3, 3 * MIXTURES])
    means = l[..., :MIXTURES]
    log_scales = tf.maximum(l[..., MIXTURES:2 * MIXTURES], -7.0)
    coeffs = tf.nn.tanh(l[..., 2 * MIXTURES:])
    x = tf.tile(x[..., None], [1, 1, 1, 1, MIXTURES])
    m2 = means[:, :, :, 1] + coeffs[:, :, :, 0] * x[:, :, :, 0]
    m3 = means[:, :, :, 2] + coeffs[:, :, :, 1] * x[:, :, :, 0] + coeffs[:, :, :, 2] * x[:, :, :, 1]
    means = tf.stack([means[:, :, :, 0], m2, m3], axis=3)
    centered_x = x - means
    inv_stdv = tf.exp(-log_scales)
    plus_in = inv_stdv * (centered_x + 1.0 / 255.0)
    min_in = inv_stdv * (centered_x - 1.0 / 255.0)
    cdf_delta = tf.nn.sigmoid(plus_in) - tf.nn.sigmoid(min_in)
    log_cdf_plus = plus_in - tf.nn.softplus(plus_in)  # the edge of 0, before scaling
    log_one_minus_cdf_min = -tf.nn.softplus(min_in)  # the edge of 255, before scaling
    mid_in = inv_stdv * centered_x
    log_pdf_mid = mid_in - log_scales - 2.0 * tf.nn.softplus(mid_in)
    inner = tf.where(cdf_delta > 1e-5, tf.log(tf.maximum(cdf_delta, 1e-12)), log_pdf_mid - np.log(127.5))
    log_probs = tf.where(x < -0.999, log_cdf_plus, tf.where(x > 0.999, log_one_minus_cdf_min, inner))
    log_probs = tf.reduce_sum(log_probs, 3) + log_prob_from_logits(logit_probs)
    return log_sum_exp(log_probs)


def tower(images):
    params = model_spec(images)
    log_likelihood = discretized_mix_logistic(images, params)
    loss = -tf.reduce_sum(log_likelihood)
    bits = loss / (np.log(2.0) * 3 * 64 * tf.cast(tf.shape(images)[0], images.dtype))
    return loss, {"params": params, "log_likelihood": log_likelihood, "bits_per_dim": bits}
