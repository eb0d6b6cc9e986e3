"""SEGAN: a waveform is enhanced by a convolutional autoencoder with skips and PReLU; the discriminator has virtual batch norm, whose
statistics mix those of a reference batch and those of the batch at hand; least squares and l1."""
import tensorflow.compat.v1 as tf

KWIDTH = 9
G_ENC_DEPTHS = [4, 8, 12]
D_NUM_FMAPS = [4, 6, 8]
L1_WEIGHT = 10.0


def downconv(x, output_dim, kwidth, name, bias=True, pool=2):
    with tf.variable_scope(name):
        x2d = tf.expand_dims(x, 2)
        w = tf.get_variable("W", [kwidth, 1, x.get_shape()[-1], output_dim], x.dtype,
                            initializer=tf.truncated_normal_initializer(stddev=0.15, dtype=x.dtype))
        conv = tf.nn.conv2d(x2d, w, strides=[1, pool, 1, 1], padding="SAME")
        if bias:
            b = tf.get_variable("b", [output_dim], x.dtype, initializer=tf.zeros_initializer())
            conv = tf.nn.bias_add(conv, b)
        return tf.squeeze(conv, [2])


def deconv(x, output_shape, kwidth, name, dilation=2):
    with tf.variable_scope(name):
        x2d = tf.expand_dims(x, 2)
        w = tf.get_variable("W", [kwidth, 1, output_shape[-1], x.get_shape()[-1]], x.dtype,
                            initializer=tf.truncated_normal_initializer(stddev=0.15, dtype=x.dtype))
        out = tf.nn.conv2d_transpose(x2d, w, output_shape=[output_shape[0], output_shape[1], 1, output_shape[2]],
                                     strides=[1, dilation, 1, 1], padding="SAME")
        b = tf.get_variable("b", [output_shape[-1]], x.dtype, initializer=tf.zeros_initializer())
        return tf.squeeze(tf.nn.bias_add(out, b), [2])


def prelu(x, name):
    with tf.variable_scope(name):
        alpha = tf.get_variable("alpha", x.get_shape()[-1], x.dtype, initializer=tf.constant_initializer(0.2))
        return tf.nn.relu(x) + alpha * (x - tf.abs(x)) * 0.5


def leakyrelu(x, alpha=0.3):
    return tf.maximum(x, alpha * x)


class VBN(object):
    """Virtual batch norm over the reference batch `x`."""

    def __init__(self, x, name, epsilon=1e-5):
        self.name, self.epsilon = name, epsilon
        self.batch_size = int(x.get_shape()[0])
        self.mean = tf.reduce_mean(x, [0, 1], keepdims=True)
        self.mean_sq = tf.reduce_mean(tf.square(x), [0, 1], keepdims=True)
        self.reference_output = self._normalize(x, self.mean, self.mean_sq)

    def __call__(self, x):
        new_coeff = 1.0 / (self.batch_size + 1.0)
        old_coeff = 1.0 - new_coeff
        mean = new_coeff * tf.reduce_mean(x, [0, 1], keepdims=True) + old_coeff * self.mean
        mean_sq = new_coeff * tf.reduce_mean(tf.square(x), [0, 1], keepdims=True) + old_coeff * self.mean_sq
        return self._normalize(x, mean, mean_sq)

    def _normalize(self, x, mean, mean_sq):
        with tf.variable_scope(self.name, reuse=tf.AUTO_REUSE):
            channels = x.get_shape()[-1]
            gamma = tf.get_variable("gamma", [channels], x.dtype, initializer=tf.random_normal_initializer(1.0, 0.02, dtype=x.dtype))
            beta = tf.get_variable("beta", [channels], x.dtype, initializer=tf.zeros_initializer())
        std = tf.sqrt(self.epsilon + mean_sq - tf.square(mean))
        return (x - mean) / std * tf.reshape(gamma, [1, 1, -1]) + tf.reshape(beta, [1, 1, -1])


class SEGAN(object):
    def __init__(self):
        self.vbns = {}
        self.end_points = {}

    def vbn(self, x, name):
        if name not in self.vbns:
            self.vbns[name] = VBN(x, name)
            return self.vbns[name].reference_output
        return self.vbns[name](x)

    def generator(self, noisy, z):
        h_i = tf.expand_dims(noisy, -1)
        skips = []
        with tf.variable_scope("g_ae"):
            for layer_idx, depth in enumerate(G_ENC_DEPTHS):
                h_i = downconv(h_i, depth, KWIDTH, "enc_{}".format(layer_idx))
                if layer_idx < len(G_ENC_DEPTHS) - 1:
                    skips.append(h_i)
                h_i = prelu(h_i, "enc_prelu_{}".format(layer_idx))
            self.end_points["code"] = h_i
            h_i = tf.concat([z, h_i], 2)
            g_dec_depths = G_ENC_DEPTHS[:-1][::-1] + [1]
            for layer_idx, depth in enumerate(g_dec_depths):
                dims = h_i.get_shape().as_list()
                h_i = deconv(h_i, [tf.shape(h_i)[0], dims[1] * 2, depth], KWIDTH, "dec_{}".format(layer_idx))
                h_i.set_shape([dims[0], dims[1] * 2, depth])
                if layer_idx < len(g_dec_depths) - 1:
                    h_i = prelu(h_i, "dec_prelu_{}".format(layer_idx))
                    h_i = tf.concat([h_i, skips[-(layer_idx + 1)]], 2)
                else:
                    h_i = tf.tanh(h_i)
        return h_i

    def discriminator(self, wave, reuse):
        hi = wave
        with tf.variable_scope("d_model", reuse=reuse):
            for block_idx, fmaps in enumerate(D_NUM_FMAPS):
                with tf.variable_scope("d_block_{}".format(block_idx)):
                    hi = downconv(hi, fmaps, KWIDTH, "downconv", bias=False)
                    hi = leakyrelu(self.vbn(hi, "d_vbn_{}".format(block_idx)))
            with tf.variable_scope("logits_conv"):
                w = tf.get_variable("W", [1, hi.get_shape()[-1], 1], hi.dtype,
                                    initializer=tf.truncated_normal_initializer(stddev=0.3, dtype=hi.dtype))
                b = tf.get_variable("b", [1], hi.dtype, initializer=tf.zeros_initializer())
                logit = tf.squeeze(tf.nn.conv1d(hi, w, stride=1, padding="SAME") + b, [2])
            return tf.layers.dense(logit, 1, name="fully_connected")


def tower(clean, noisy, ref_clean, ref_noisy, z):
    model = SEGAN()
    enhanced = model.generator(noisy, z)
    condition = tf.expand_dims(noisy, -1)
    clean = tf.expand_dims(clean, -1)
    # the first pass makes the reference statistics
    dummy = tf.concat([tf.expand_dims(ref_clean, -1), tf.expand_dims(ref_noisy, -1)], 2)
    model.discriminator(dummy, reuse=None)
    d_rl = model.discriminator(tf.concat([clean, condition], 2), reuse=True)
    d_fk = model.discriminator(tf.concat([enhanced, condition], 2), reuse=True)
    d_rl_loss = tf.reduce_mean(tf.squared_difference(d_rl, 1.0))
    d_fk_loss = tf.reduce_mean(tf.squared_difference(d_fk, 0.0))
    g_adv_loss = tf.reduce_mean(tf.squared_difference(d_fk, 1.0))
    g_l1_loss = L1_WEIGHT * tf.reduce_mean(tf.abs(enhanced - clean))
    return g_adv_loss + g_l1_loss, {"code": model.end_points["code"], "enhanced": enhanced, "d_real": d_rl, "d_fake": d_fk,
                                    "g_l1_loss": g_l1_loss, "d_loss": d_rl_loss + d_fk_loss}
