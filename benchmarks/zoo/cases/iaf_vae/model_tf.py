"""A ResNet VAE whose posteriors are refined by inverse autoregressive flow, after the multi-GPU TensorFlow 1 code of the paper:
weight-normalised convolutions, masked ones in the flow, a bottom-up and a top-down pass, free bits, a discretised logistic, Adamax.
Maps are channels first, as there; convolutions go through channels last, for a CPU has no others."""
import numpy as np
import tensorflow.compat.v1 as tf

H_SIZE, Z_SIZE, DEPTH, IMAGE_SIZE = 6, 3, 2, 12
KL_MIN = 0.25
LEARNING_RATE = 0.002


def to_nhwc(x):
    return tf.transpose(x, (0, 2, 3, 1))


def to_nchw(x):
    return tf.transpose(x, (0, 3, 1, 2))


def split(x, sizes):
    return tf.split(x, sizes, axis=1)


def variables(filter_shape, num_filters, dtype):
    v = tf.get_variable("V", filter_shape, dtype, initializer=tf.random_normal_initializer(0, 0.05, dtype=dtype))
    g = tf.get_variable("g", [num_filters], dtype, initializer=tf.constant_initializer(-0.5))
    b = tf.get_variable("b", [num_filters], dtype, initializer=tf.zeros_initializer())
    return v, g, b


def conv2d(name, x, num_filters, filter_size=(3, 3), stride=(1, 1), mask=None):
    with tf.variable_scope(name):
        v, g, b = variables([filter_size[0], filter_size[1], int(x.shape[1]), num_filters], num_filters, x.dtype)
        if mask is not None:
            v = mask * v
        w = tf.reshape(tf.exp(g), [1, 1, 1, num_filters]) * tf.nn.l2_normalize(v, [0, 1, 2])
        out = to_nchw(tf.nn.conv2d(to_nhwc(x), w, [1, stride[0], stride[1], 1], "SAME"))
        return out + tf.reshape(b, [1, -1, 1, 1])


def deconv2d(name, x, num_filters, filter_size=(3, 3), stride=(2, 2)):
    with tf.variable_scope(name):
        channels, height, width = int(x.shape[1]), int(x.shape[2]), int(x.shape[3])
        v, g, b = variables([filter_size[0], filter_size[1], num_filters, channels], num_filters, x.dtype)
        w = tf.reshape(tf.exp(g), [1, 1, num_filters, 1]) * tf.nn.l2_normalize(v, [0, 1, 2])
        shape = tf.stack([tf.shape(x)[0], height * stride[0], width * stride[1], num_filters])
        out = tf.nn.conv2d_transpose(to_nhwc(x), w, output_shape=shape, strides=[1, stride[0], stride[1], 1], padding="SAME")
        out = to_nchw(tf.reshape(out, [-1, height * stride[0], width * stride[1], num_filters]))
        return out + tf.reshape(b, [1, -1, 1, 1])


def get_linear_ar_mask(n_in, n_out, zerodiagonal=False):
    mask = np.ones([n_in, n_out], dtype=np.float32)
    if n_out >= n_in:
        k = n_out // n_in
        for i in range(n_in):
            mask[i + 1:, i * k:(i + 1) * k] = 0
            if zerodiagonal:
                mask[i:i + 1, i * k:(i + 1) * k] = 0
    else:
        k = n_in // n_out
        for i in range(n_out):
            mask[(i + 1) * k:, i:i + 1] = 0
            if zerodiagonal:
                mask[i * k:(i + 1) * k:, i:i + 1] = 0
    return mask


def get_conv_ar_mask(h, w, n_in, n_out, zerodiagonal=False):
    l, m = (h - 1) // 2, (w - 1) // 2
    mask = np.ones([h, w, n_in, n_out], dtype=np.float32)
    mask[:l, :, :, :] = 0
    mask[l, :m, :, :] = 0
    mask[l, m, :, :] = get_linear_ar_mask(n_in, n_out, zerodiagonal)
    return mask


def ar_conv2d(name, x, num_filters, zerodiagonal):
    mask = tf.constant(get_conv_ar_mask(3, 3, int(x.shape[1]), num_filters, zerodiagonal), x.dtype)
    return conv2d(name, x, num_filters, mask=mask)


def ar_multiconv2d(name, x, context, n_h, n_out):
    with tf.variable_scope(name):
        for i, size in enumerate(n_h):
            x = ar_conv2d("layer_%d" % i, x, size, zerodiagonal=False)
            if i == 0:
                x += context
            x = tf.nn.elu(x)
        return [ar_conv2d("layer_out_%d" % i, x, size, zerodiagonal=True) for i, size in enumerate(n_out)]


def resize_nearest_neighbor(x, scale):
    size = [int(int(x.shape[2]) * scale), int(int(x.shape[3]) * scale)]
    return to_nchw(tf.image.resize_nearest_neighbor(to_nhwc(x), size))


class DiagonalGaussian(object):
    def __init__(self, mean, logvar, noise=None):
        self.mean, self.logvar = mean, logvar
        if noise is not None:
            self.sample = mean + tf.exp(0.5 * logvar) * noise

    def logps(self, sample):
        return -0.5 * (np.log(2 * np.pi) + self.logvar + tf.square(sample - self.mean) / tf.exp(self.logvar))


def discretized_logistic(mean, logscale, binsize=1 / 256.0, sample=None):
    scale = tf.exp(logscale)
    sample = (tf.floor(sample / binsize) * binsize - mean) / scale
    logp = tf.log(tf.sigmoid(sample + binsize / scale) - tf.sigmoid(sample) + 1e-7)
    return tf.reduce_sum(logp, [1, 2, 3])


class IAFLayer(object):
    def __init__(self, downsample, top, noise):
        self.downsample, self.top, self.noise = downsample, top, noise

    def up(self, input):
        x = tf.nn.elu(input)
        x = conv2d("up_conv1", x, 2 * Z_SIZE + 2 * H_SIZE, stride=[2, 2] if self.downsample else [1, 1])
        self.qz_mean, self.qz_logsd, self.up_context, h = split(x, [Z_SIZE, Z_SIZE, H_SIZE, H_SIZE])
        if self.top:  # nothing is above to read it
            return None
        h = conv2d("up_conv3", tf.nn.elu(h), H_SIZE)
        if self.downsample:
            input = resize_nearest_neighbor(input, 0.5)
        return input + 0.1 * h

    def down(self, input):
        x = conv2d("down_conv1", tf.nn.elu(input), 4 * Z_SIZE + H_SIZE * 2)
        pz_mean, pz_logsd, rz_mean, rz_logsd, down_context, h_det = split(x, [Z_SIZE] * 4 + [H_SIZE] * 2)
        prior = DiagonalGaussian(pz_mean, 2 * pz_logsd)
        posterior = DiagonalGaussian(rz_mean + self.qz_mean, 2 * (rz_logsd + self.qz_logsd), self.noise)
        context = self.up_context + down_context

        z = posterior.sample
        logqs = posterior.logps(z)
        x = ar_multiconv2d("ar_multiconv2d", z, context, [H_SIZE, H_SIZE], [Z_SIZE, Z_SIZE])
        arw_mean, arw_logsd = x[0] * 0.1, x[1] * 0.1
        z = (z - arw_mean) / tf.exp(arw_logsd)
        logqs += arw_logsd
        kl_cost = logqs - prior.logps(z)

        kl_ave = tf.reduce_mean(tf.reduce_sum(kl_cost, [2, 3]), [0], keepdims=True)
        kl_ave = tf.maximum(kl_ave, KL_MIN)
        kl_ave = tf.tile(kl_ave, [tf.shape(input)[0], 1])
        kl_obj = tf.reduce_sum(kl_ave, [1])
        kl_cost = tf.reduce_sum(kl_cost, [1, 2, 3])

        h = tf.nn.elu(tf.concat([z, h_det], 1))
        if self.downsample:
            input = resize_nearest_neighbor(input, 2)
            h = deconv2d("down_deconv2", h, H_SIZE)
        else:
            h = conv2d("down_conv2", h, H_SIZE)
        self.z = z
        return input + 0.1 * h, kl_obj, kl_cost


def tower(x, noise_0, noise_1):
    with tf.variable_scope("model"):
        dec_log_stdv = tf.get_variable("dec_log_stdv", [], x.dtype, initializer=tf.zeros_initializer())
        data_size = tf.shape(x)[0]
        orig_x = x = tf.clip_by_value((x + 0.5) / 256.0, 0.0, 1.0) - 0.5
        layers = [IAFLayer(i > 0, i == DEPTH - 1, noise) for i, noise in enumerate([noise_0, noise_1])]
        h = conv2d("x_enc", x, H_SIZE, [5, 5], [2, 2])
        for i, layer in enumerate(layers):
            with tf.variable_scope("IAF_%d_0" % i):
                h = layer.up(h)

        # from the top down
        h_top = tf.get_variable("h_top", [H_SIZE], x.dtype, initializer=tf.zeros_initializer())
        side = IMAGE_SIZE // 2 ** len(layers)
        h = tf.tile(tf.reshape(h_top, [1, -1, 1, 1]), [data_size, 1, side, side])
        kl_cost = kl_obj = 0.0
        for i, layer in reversed(list(enumerate(layers))):
            with tf.variable_scope("IAF_%d_0" % i):
                h, cur_obj, cur_cost = layer.down(h)
                kl_obj += cur_obj
                kl_cost += cur_cost
        x = deconv2d("x_dec", tf.nn.elu(h), 3, [5, 5])
        x = tf.clip_by_value(x, -0.5 + 1 / 512.0, 0.5 - 1 / 512.0)

        log_pxz = discretized_logistic(x, dec_log_stdv, sample=orig_x)
        obj = tf.reduce_sum(kl_obj - log_pxz)
    return obj, {"z_1": layers[1].z, "z_0": layers[0].z, "x_mean": x, "log_pxz": log_pxz, "kl_cost": kl_cost}


class AdamaxOptimizer(tf.train.Optimizer):
    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, use_locking=False, name="Adamax"):
        super(AdamaxOptimizer, self).__init__(use_locking, name)
        self._lr, self._beta1, self._beta2 = learning_rate, beta1, beta2

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _apply_dense(self, grad, var):
        lr, beta1, beta2 = (tf.constant(x, var.dtype.base_dtype) for x in (self._lr, self._beta1, self._beta2))
        v, m = self.get_slot(var, "v"), self.get_slot(var, "m")
        v_t = tf.assign(v, beta1 * v + (1.0 - beta1) * grad)
        m_t = tf.assign(m, tf.maximum(beta2 * m + 1e-8, tf.abs(grad)))
        var_update = tf.assign_sub(var, lr * v_t / m_t)
        return tf.group(var_update, m_t, v_t)

    def _resource_apply_dense(self, grad, var):
        return self._apply_dense(grad, var)


def optimizer():
    return AdamaxOptimizer(LEARNING_RATE)
