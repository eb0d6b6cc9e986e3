"""Two towers of as many op types as one group has: `port_ops.py GROUP`. Each op is differentiated."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def weights(name, shape, value=0.4):
    draw = np.random.RandomState(len(name) + sum(map(ord, name))).uniform(value - 0.2, value + 0.2, shape)
    return tf.get_variable(name, shape, initializer=tf.constant_initializer(draw.astype("float32")))


def spread(y):
    """A number that depends on every element of a tensor, on each differently strongly."""
    return tf.reduce_mean(tf.square(y - 0.3))


def smooth(x):
    y = tf.sigmoid(x * weights("smooth", [4])) * 0.8 + 0.1  # inside (0, 1), where all of these are smooth
    functions = [tf.tan, tf.asin, tf.acos, tf.atan, tf.sinh, tf.cosh, tf.asinh, tf.atanh, tf.sin, tf.cos, tf.erf]
    functions += [tf.math.erfc, tf.lgamma, tf.exp, tf.math.expm1, tf.log, tf.math.log1p, tf.sqrt]
    functions += [tf.rsqrt, tf.square, tf.math.reciprocal, tf.nn.softplus, tf.nn.softsign, tf.tanh, tf.negative]
    return [spread(function(y)) for function in functions] + [spread(tf.acosh(y + 1.5)), spread(tf.atan2(y, y + 0.7))]


def kinked(x):
    y = x * weights("kinked", [4])
    z = y * 2.0 + x
    found = [tf.nn.relu(y), tf.nn.relu6(y * 9.0), tf.nn.elu(y), tf.nn.selu(y), tf.nn.leaky_relu(y, 0.3), tf.abs(y)]
    found += [y * tf.sign(z), y + tf.floor(z), y - tf.ceil(z), y * tf.rint(z), y + tf.round(z)]
    found += [tf.maximum(y, 0.1), tf.minimum(y, z), tf.clip_by_value(y, -0.2, 0.2)]
    chosen = tf.logical_or(tf.logical_and(tf.less(y, z), tf.greater(z, 0.0)), tf.logical_not(tf.less_equal(y, 0.2)))
    sound = tf.logical_and(tf.is_finite(y), tf.logical_not(tf.logical_or(tf.is_nan(y), tf.is_inf(z))))
    found += [tf.where(chosen, y, z), tf.where(tf.greater_equal(y, 0.1), y, tf.stop_gradient(z) * y)]
    found += [tf.where(tf.logical_and(sound, tf.not_equal(y, z)), y, z), tf.cast(tf.equal(y, z), tf.float32) + y]
    return [spread(each) for each in found]


def arithmetic(x):
    y, z = x * weights("arithmetic", [4]), x + weights("other", [4], 3.0)
    counts = tf.cast(tf.argmax(x, 1) + tf.argmin(x, 1), tf.float32)
    zero = tf.where(tf.greater(y, 0.1), z, tf.zeros_like(z))
    found = [y + z, tf.add_n([y, z, y * z]), y - z, y / (z * z + 1.0), tf.math.divide_no_nan(y, zero)]
    found += [
        y + z // 1.3,
        y * (z % 1.7),
        tf.pow(z * z + 0.1, y),
        tf.squared_difference(y, z),
        tf.nn.bias_add(y, weights("bias", [4])),
    ]
    found += [
        tf.div(y, z * z + 2.0),
        y * counts[:, None],
        tf.linalg.inv(tf.eye(4) * 2.0 + tf.matmul(y, y, transpose_a=True)),
    ]
    found += [tf.linalg.det(tf.eye(4) + tf.matmul(z, z, transpose_a=True)), tf.nn.softmax(y), tf.nn.log_softmax(z)]
    found += [y * tf.sin(tf.range(3.0, -1.0, -1.0) / 10.0)]  # a table that the script computes
    return [spread(each) for each in found] + [tf.nn.l2_loss(y)]


def reductions(x):
    y = tf.tanh(tf.reshape(tf.matmul(x, weights("kernel", [4, 12])), [-1, 3, 4]))
    found = [tf.reduce_sum(y, 1), tf.reduce_mean(y, [1, 2], keepdims=True), tf.reduce_max(y, 2), tf.reduce_min(y)]
    found += [tf.reduce_prod(y, [1, 2]), tf.reduce_prod(y + 2.0, 1, keepdims=True), tf.reduce_logsumexp(y, 1)]
    some = tf.reduce_any(tf.greater(y, 0.5), [1, 2]), tf.reduce_all(tf.greater(y, -0.5), 1)
    found += [y[:, 0, 0] * tf.cast(some[0], tf.float32), y[:, 1] * tf.cast(some[1], tf.float32)]
    found += [tf.cumsum(y, 1), tf.cumsum(y, 2, exclusive=True), tf.cumsum(y, 1, reverse=True)]
    found += [tf.cumprod(y, 2), tf.cumprod(y, 1, exclusive=True, reverse=True), tf.nn.top_k(y, 2)[0]]
    found += [tf.matmul(y, y, transpose_b=True), tf.matmul(y, y, transpose_a=True), tf.einsum("bij,bkj->bik", y, y)]
    return [spread(each) for each in found]


def rearranged(x):
    y = tf.reshape(tf.matmul(x, weights("kernel", [4, 12])), [-1, 3, 4])
    found = [tf.expand_dims(y, 1), tf.squeeze(y[:, :1], 1), tf.transpose(y, [0, 2, 1]), tf.concat([y, y * y], 2)]
    found += [tf.stack([y, tf.tanh(y)], 1), y[:, ::2, 1:-1], tf.slice(y, [0, 1, 0], [-1, 2, 3]), tf.tile(y, [1, 2, 1])]
    found += [tf.pad(y, [[0, 0], [1, 0], [0, 2]]), tf.pad(y, [[0, 0], [1, 1], [0, 0]], constant_values=0.7)]
    found += [tf.pad(y, [[0, 0], [0, 0], [2, 1]], "REFLECT"), tf.reverse(y, [1]), tf.roll(y, [1, 2], [1, 2])]
    found += [tf.broadcast_to(y[:, :1], [tf.shape(x)[0], 3, 4]) * y, tf.gather(y, [2, 0, 0], axis=1)]
    first, second, _ = tf.split(y, 3, 1)
    short, long = tf.split(y, [1, 3], 2)
    found += [first * second, long * short, tf.add_n([each * each for each in tf.unstack(y, axis=1)])]
    places = tf.argmax(x, 1, output_type=tf.int32)
    rows = tf.stack([tf.range(tf.shape(x)[0]), places], 1)
    flat = tf.reshape(y, [-1, 12])
    found += [
        tf.gather_nd(flat, rows),
        tf.scatter_nd(rows, y[:, 0, 0], [4, 4]),
        tf.unsorted_segment_sum(flat, places, 5),
    ]
    found += [tf.segment_sum(flat, [0, 0, 1, 3]), tf.one_hot(places, 12) * flat, tf.matrix_band_part(y, 1, 0)]
    found += [tf.matrix_diag(y), tf.matrix_diag_part(y), tf.boolean_mask(flat, [True, False, True, True])]
    return [spread(each) for each in found]


def images(x):
    y = tf.reshape(tf.matmul(x, weights("dense", [4, 128])), [-1, 4, 4, 8])
    kernel = tf.tanh(weights("kernel", [3, 3, 8, 6]))
    found = [tf.nn.conv2d(y, kernel, [1, 2, 2, 1], "SAME"), tf.nn.conv2d(y, kernel * 2.0, [1, 1, 1, 1], "VALID")]
    found += [tf.nn.depthwise_conv2d(y, tf.sin(weights("depthwise", [3, 3, 8, 2])), [1, 1, 1, 1], "SAME")]
    back = tf.nn.conv2d_transpose(
        tf.tanh(found[0]), tf.exp(weights("back", [3, 3, 5, 6])), [tf.shape(x)[0], 4, 4, 5], [1, 2, 2, 1]
    )
    deep = tf.reshape(y, [-1, 4, 4, 4, 2])
    deeper = tf.nn.conv3d(deep, tf.tanh(weights("deep", [2, 3, 3, 2, 3])), [1, 1, 1, 1, 1], "SAME")
    found += [back, deeper, tf.nn.max_pool(y, 3, 2, "SAME")]
    found += [tf.nn.avg_pool(y, 2, 2, "VALID"), tf.nn.lrn(y, 2, 1.0, 0.01, 0.75), tf.depth_to_space(y, 2)]
    found += [tf.space_to_depth(y, 2), tf.image.resize_bilinear(y, [7, 5]), tf.image.resize_nearest_neighbor(y, [7, 5])]
    found += [
        tf.space_to_batch_nd(y, [2, 2], [[0, 0], [1, 1]]),
        tf.batch_to_space_nd(tf.tile(y, [4, 1, 1, 1]), [2, 2], [[0, 1], [1, 0]]),
    ]
    scale = tf.exp(weights("scale", [8]))
    found += [tf.nn.fused_batch_norm(y, scale, scale * 0.5, epsilon=0.01)[0]]
    given = tf.fill([8], 0.3), tf.fill([8], 1.7)
    found += [tf.nn.fused_batch_norm(y, scale, scale * 0.5, given[0], given[1], 0.01, is_training=False)[0]]
    return [spread(each) for each in found]


def single(x):  # TensorFlow has no float64 kernels of these
    y = tf.reshape(tf.matmul(x, weights("dense", [4, 128])), [-1, 4, 4, 4, 2])
    found = [tf.nn.max_pool3d(y, [1, 3, 2, 2, 1], [1, 2, 2, 2, 1], "SAME")]
    return [spread(each) for each in [*found, tf.nn.avg_pool3d(y, [1, 2, 3, 2, 1], [1, 1, 2, 2, 1], "SAME")]]


GROUPS = {each.__name__: each for each in (smooth, kinked, arithmetic, reductions, rearranged, images, single)}


def main(group):
    x = tf.placeholder(tf.float32, [8, 4], "x")
    opt, towers = tf.train.GradientDescentOptimizer(0.0001), []
    for number, own in enumerate(tf.split(x, 2)):
        with tf.name_scope(f"tower_{number}"), tf.variable_scope("net", reuse=number > 0):
            terms = GROUPS[group](own)
            loss = tf.add_n([(0.3 + 0.1 * place) * term for place, term in enumerate(terms)])
            towers.append(opt.compute_gradients(loss))
    train = opt.apply_gradients([(tf.add_n([a, b]) / 2.0, variable) for (a, variable), (b, _) in zip(*towers)])  # noqa: B905  Python 3.7
    draw = np.random.RandomState(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(train, {x: draw.randn(8, 4)})


if __name__ == "__main__":
    main(sys.argv[1])
