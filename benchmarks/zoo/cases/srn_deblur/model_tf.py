"""Scale-recurrent deblurring: one encoder-decoder is run on a pyramid from coarse to fine. Each scale gets the picture
and what the scale before made of it, and a convolutional LSTM in the bottleneck carries a state along."""
import tensorflow.compat.v1 as tf

LEVELS = 3
CHANNELS = [6, 10, 14]


def variable(name, shape, dtype, initializer):
    return tf.get_variable(name, shape, dtype, initializer)


def conv(x, filters, size, scope, stride=1, activation_fn=tf.nn.relu):
    with tf.variable_scope(scope):
        w = variable('weights', [size, size, x.get_shape().as_list()[3], filters], x.dtype,
                     tf.glorot_uniform_initializer(dtype=x.dtype))
        b = variable('biases', [filters], x.dtype, tf.zeros_initializer())
        x = tf.nn.conv2d(x, w, [1, stride, stride, 1], 'SAME') + b
        return x if activation_fn is None else activation_fn(x)


def deconv(x, filters, scope):
    with tf.variable_scope(scope):
        _, h, w, c = x.get_shape().as_list()
        kernel = variable('weights', [4, 4, filters, c], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        b = variable('biases', [filters], x.dtype, tf.zeros_initializer())
        shape = tf.stack([tf.shape(x)[0], 2 * h, 2 * w, filters])
        x = tf.nn.conv2d_transpose(x, kernel, shape, [1, 2, 2, 1], 'SAME')
        x.set_shape([None, 2 * h, 2 * w, filters])
        return tf.nn.relu(x + b)


def ResnetBlock(x, filters, size, scope):
    with tf.variable_scope(scope):
        net = conv(x, filters, size, 'conv1')
        net = conv(net, filters, size, 'conv2', activation_fn=None)
        return x + net


class BasicConvLSTMCell(object):
    """The state is the cell's memory and its output in one map, memory first."""

    def __init__(self, num_features, forget_bias=1.0):
        self.num_features = num_features
        self.forget_bias = forget_bias

    def zero_state(self, batch, height, width, dtype):
        return tf.zeros(tf.stack([batch, height, width, 2 * self.num_features]), dtype)

    def __call__(self, inputs, state):
        with tf.variable_scope('LSTM'):
            c, h = tf.split(state, 2, 3)
            gates = conv(tf.concat([inputs, h], 3), 4 * self.num_features, 3, 'gates', activation_fn=None)
            i, j, f, o = tf.split(gates, 4, 3)
            new_c = c * tf.sigmoid(f + self.forget_bias) + tf.sigmoid(i) * tf.tanh(j)
            new_h = tf.tanh(new_c) * tf.sigmoid(o)
            return new_h, tf.concat([new_c, new_h], 3)


def enlarge(x):
    h, w, c = x.get_shape().as_list()[1:]
    x = tf.image.resize_nearest_neighbor(x, [2 * h, 2 * w])
    x.set_shape([None, 2 * h, 2 * w, c])
    return x


def shrink(x, factor):
    return x if factor == 1 else tf.nn.avg_pool(x, [1, factor, factor, 1], [1, factor, factor, 1], 'VALID')


def generator(inputs):
    h, w = inputs.get_shape().as_list()[1:3]
    c1, c2, c3 = CHANNELS
    coarsest = 2 ** (LEVELS - 1)
    cell = BasicConvLSTMCell(c3)
    state = cell.zero_state(tf.shape(inputs)[0], h // coarsest // 4, w // coarsest // 4, inputs.dtype)
    state.set_shape([None, h // coarsest // 4, w // coarsest // 4, 2 * c3])
    predictions = []
    pred = shrink(inputs, coarsest)
    for level in range(LEVELS):
        with tf.variable_scope('g_net', reuse=True if level > 0 else tf.AUTO_REUSE):
            blur = shrink(inputs, 2 ** (LEVELS - level - 1))
            if level > 0:
                pred = enlarge(pred)
                state = enlarge(state)
            pred = tf.stop_gradient(pred)
            net = tf.concat([blur, pred], 3)
            net = conv(net, c1, 5, 'enc1_1')
            enc1 = ResnetBlock(net, c1, 3, 'enc1_2')
            net = conv(enc1, c2, 5, 'enc2_1', stride=2)
            enc2 = ResnetBlock(net, c2, 3, 'enc2_2')
            net = conv(enc2, c3, 5, 'enc3_1', stride=2)
            net = ResnetBlock(net, c3, 3, 'enc3_2')
            net, state = cell(net, state)
            net = ResnetBlock(net, c3, 3, 'dec3_1')
            net = deconv(net, c2, 'dec2_2') + enc2
            net = ResnetBlock(net, c2, 3, 'dec2_1')
            net = deconv(net, c1, 'dec1_2') + enc1
            net = ResnetBlock(net, c1, 3, 'dec1_1')
            pred = conv(net, 3, 5, 'dec1_0', activation_fn=None)
            predictions.append(pred)
    return predictions


def tower(blurred, sharp):
    predictions = generator(blurred)
    total, outputs = 0., {}
    for i, pred in enumerate(predictions):
        target = shrink(sharp, 2 ** (LEVELS - i - 1))
        loss = tf.reduce_mean(tf.square(target - pred))
        outputs['loss_%d' % i] = loss
        outputs['out_%d' % i] = pred
        total += loss
    return total, outputs
