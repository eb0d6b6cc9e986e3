"""A spatial transformer in front of a small convolutional classifier of cluttered digits."""
import tensorflow.compat.v1 as tf

SIZE = 24
OUT_SIZE = 16
N_CLASSES = 10


def _repeat(x, n_repeats):
    rep = tf.ones([1, n_repeats], dtype=tf.int32)
    return tf.reshape(tf.matmul(tf.reshape(x, [-1, 1]), rep), [-1])


def _interpolate(im, x, y, out_size):
    num_batch = tf.shape(im)[0]
    height, width, channels = im.shape.as_list()[1:]
    zero = tf.zeros([], dtype=tf.int32)
    max_y = tf.constant(height - 1, tf.int32)
    max_x = tf.constant(width - 1, tf.int32)

    # from [-1, 1] to pixels
    x = (x + 1.0) * width / 2.0
    y = (y + 1.0) * height / 2.0

    x0 = tf.cast(tf.floor(x), tf.int32)
    x1 = x0 + 1
    y0 = tf.cast(tf.floor(y), tf.int32)
    y1 = y0 + 1
    x0 = tf.clip_by_value(x0, zero, max_x)
    x1 = tf.clip_by_value(x1, zero, max_x)
    y0 = tf.clip_by_value(y0, zero, max_y)
    y1 = tf.clip_by_value(y1, zero, max_y)

    base = _repeat(tf.range(num_batch) * width * height, out_size * out_size)
    base_y0 = base + y0 * width
    base_y1 = base + y1 * width
    im_flat = tf.reshape(im, [-1, channels])
    ia = tf.gather(im_flat, base_y0 + x0)
    ib = tf.gather(im_flat, base_y1 + x0)
    ic = tf.gather(im_flat, base_y0 + x1)
    id_ = tf.gather(im_flat, base_y1 + x1)

    x0_f, x1_f = tf.cast(x0, x.dtype), tf.cast(x1, x.dtype)
    y0_f, y1_f = tf.cast(y0, x.dtype), tf.cast(y1, x.dtype)
    wa = tf.expand_dims((x1_f - x) * (y1_f - y), 1)
    wb = tf.expand_dims((x1_f - x) * (y - y0_f), 1)
    wc = tf.expand_dims((x - x0_f) * (y1_f - y), 1)
    wd = tf.expand_dims((x - x0_f) * (y - y0_f), 1)
    return tf.add_n([wa * ia, wb * ib, wc * ic, wd * id_])


def _meshgrid(size, dtype):
    steps = tf.linspace(tf.constant(-1.0, dtype), tf.constant(1.0, dtype), size)
    x_t = tf.matmul(tf.ones([size, 1], dtype), tf.reshape(steps, [1, size]))
    y_t = tf.matmul(tf.reshape(steps, [size, 1]), tf.ones([1, size], dtype))
    x_t_flat = tf.reshape(x_t, [1, -1])
    y_t_flat = tf.reshape(y_t, [1, -1])
    return tf.concat([x_t_flat, y_t_flat, tf.ones_like(x_t_flat)], 0)


def transformer(u, theta, out_size):
    with tf.variable_scope("SpatialTransformer"):
        num_batch = tf.shape(u)[0]
        channels = u.shape.as_list()[3]
        theta = tf.reshape(theta, [-1, 2, 3])
        grid = tf.tile(tf.expand_dims(_meshgrid(out_size, u.dtype), 0), [num_batch, 1, 1])
        t_g = tf.matmul(theta, grid)
        x_s = tf.reshape(tf.slice(t_g, [0, 0, 0], [-1, 1, -1]), [-1])
        y_s = tf.reshape(tf.slice(t_g, [0, 1, 0], [-1, 1, -1]), [-1])
        out = _interpolate(u, x_s, y_s, out_size)
        return tf.reshape(out, [-1, out_size, out_size, channels])


def weight_variable(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.random_normal_initializer(stddev=0.1))


def bias_variable(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, initializer=tf.random_normal_initializer(stddev=0.1))


def _identity(shape, dtype=None, partition_info=None):
    return tf.constant([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], dtype)


def tower(images, labels):
    dtype = images.dtype
    w_fc_loc1 = weight_variable("W_fc_loc1", [SIZE * SIZE, 20], dtype)
    b_fc_loc1 = bias_variable("b_fc_loc1", [20], dtype)
    w_fc_loc2 = tf.get_variable("W_fc_loc2", [20, 6], dtype, initializer=tf.zeros_initializer())
    b_fc_loc2 = tf.get_variable("b_fc_loc2", [6], dtype, initializer=_identity)
    h_fc_loc1 = tf.nn.tanh(tf.matmul(images, w_fc_loc1) + b_fc_loc1)
    theta = tf.nn.tanh(tf.matmul(h_fc_loc1, w_fc_loc2) + b_fc_loc2)

    x_tensor = tf.reshape(images, [-1, SIZE, SIZE, 1])
    h_trans = transformer(x_tensor, theta, OUT_SIZE)

    w_conv1 = weight_variable("W_conv1", [3, 3, 1, 12], dtype)
    b_conv1 = bias_variable("b_conv1", [12], dtype)
    h_conv1 = tf.nn.relu(tf.nn.conv2d(h_trans, w_conv1, strides=[1, 2, 2, 1], padding="SAME") + b_conv1)
    w_conv2 = weight_variable("W_conv2", [3, 3, 12, 16], dtype)
    b_conv2 = bias_variable("b_conv2", [16], dtype)
    h_conv2 = tf.nn.relu(tf.nn.conv2d(h_conv1, w_conv2, strides=[1, 2, 2, 1], padding="SAME") + b_conv2)

    flat = tf.reshape(h_conv2, [-1, 4 * 4 * 16])
    h_fc1 = tf.nn.relu(tf.matmul(flat, weight_variable("W_fc1", [4 * 4 * 16, 48], dtype))
                       + bias_variable("b_fc1", [48], dtype))
    y_logits = tf.matmul(h_fc1, weight_variable("W_fc2", [48, N_CLASSES], dtype)) \
        + bias_variable("b_fc2", [N_CLASSES], dtype)
    cross_entropy = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits_v2(logits=y_logits, labels=tf.one_hot(labels, N_CLASSES, dtype=dtype)))
    return cross_entropy, {"theta": theta, "transformed": h_trans, "logits": y_logits}
