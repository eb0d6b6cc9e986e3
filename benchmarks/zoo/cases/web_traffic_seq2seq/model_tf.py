"""Page views by a recurrent encoder and decoder; each page's fingerprint says which days of the past to look at."""
import tensorflow.compat.v1 as tf

DEPTH, ATTENTION_DEPTH, HEADS, HORIZON = 20, 6, 2, 5
STABILITY = 0.2


def selu(x):
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * tf.where(x >= 0.0, x, alpha * tf.nn.elu(x))


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        depth = int(x.shape[-1])
        kernel = tf.get_variable('kernel', [depth, units], x.dtype, tf.variance_scaling_initializer(1.0))
        bias = tf.get_variable('bias', [units], x.dtype, tf.zeros_initializer())
        out = tf.tensordot(x, kernel, [[len(x.shape) - 1], [0]]) + bias
        return activation(out) if activation else out


def conv1d(x, filters, kernel_size, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable('kernel', [kernel_size, int(x.shape[-1]), filters], x.dtype,
                                 tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable('bias', [filters], x.dtype, tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv1d(x, kernel, stride=1, padding='SAME') + bias)


def max_pool(x):
    pooled = tf.nn.max_pool(tf.expand_dims(x, 1), [1, 1, 2, 1], [1, 1, 2, 1], padding='SAME')
    return tf.squeeze(pooled, 1)


def make_encoder(x):
    cell = tf.nn.rnn_cell.LSTMCell(DEPTH, initializer=tf.random_uniform_initializer(-0.3, 0.3))
    with tf.variable_scope('encoder'):
        return tf.nn.dynamic_rnn(cell, x, dtype=x.dtype)


def make_fingerprint(x):
    with tf.variable_scope('fingerprint'):
        net = conv1d(x, 8, 7, 'c11')
        net = conv1d(net, 8, 3, 'c12')
        net = max_pool(net)
        net = conv1d(net, 12, 3, 'c21')
        net = max_pool(net)
        width, channels = net.shape.as_list()[1:]
        net = tf.reshape(net, [-1, width * channels])
        net = dense(net, 24, 'fc_encoder', selu)
        return dense(net, 8, 'out_encoder', selu)


def attn_readout(readout, page_features):
    """Every page filters its own history: pages are channels of a depthwise convolution over days."""
    days = int(readout.shape[1])
    window = days - HORIZON + 1
    inp = tf.transpose(readout, [2, 1, 0])[:, tf.newaxis, :, :]
    logits = dense(page_features, window * HEADS, 'attn_focus')
    logits = tf.reshape(logits, [-1, window, HEADS])
    attns = tf.transpose(tf.nn.softmax(logits, axis=1), [1, 0, 2])
    averaged = tf.nn.depthwise_conv2d(inp, attns[tf.newaxis], [1, 1, 1, 1], 'VALID')
    features = tf.transpose(tf.squeeze(averaged, 1), [2, 1, 0])
    heads = [features[head::HEADS] for head in range(HEADS)]
    return tf.concat(heads, axis=-1)


def decoder(state, last, features, attention):
    with tf.variable_scope('decoder', reuse=tf.AUTO_REUSE):
        cell = tf.nn.rnn_cell.LSTMCell(DEPTH, initializer=tf.random_uniform_initializer(-0.3, 0.3))
        output, predictions = tf.expand_dims(last, -1), []
        for day in range(HORIZON):
            inputs = tf.concat([output, features[:, day], attention[:, day]], axis=1)
            hidden, state = cell(inputs, state)
            output = dense(hidden, 1, 'decoder_output_proj')
            predictions.append(output)
    return tf.concat(predictions, axis=1)


def rnn_stability_loss(rnn_output, beta):
    norms = tf.sqrt(tf.reduce_sum(tf.square(rnn_output), axis=-1))
    return beta * tf.reduce_mean(tf.square(norms[:, 1:] - norms[:, :-1]))


def smape_loss(true, predicted, weights):
    epsilon = 0.1
    true_o = tf.expm1(true)
    pred_o = tf.expm1(predicted)
    summ = tf.maximum(tf.abs(true_o) + tf.abs(pred_o) + epsilon, 0.5 + epsilon)
    smape = tf.abs(pred_o - true_o) / summ * 2.0
    n_valid = tf.reduce_sum(weights)
    return tf.reduce_sum(smape * weights) / n_valid


def tower(x, x_last, y_features, page, norm_mean, norm_std, true_y, known):
    encoded, state = make_encoder(x)
    fingerprint = make_fingerprint(x)
    readout = dense(encoded, ATTENTION_DEPTH, 'compress_readout', selu)
    attention = attn_readout(readout, tf.concat([fingerprint, page], axis=-1))
    normal = decoder(state, x_last, y_features, attention)
    predictions = normal * tf.expand_dims(norm_std, -1) + tf.expand_dims(norm_mean, -1)
    smape = smape_loss(true_y, predictions, known)
    stability = rnn_stability_loss(encoded, STABILITY)
    outputs = {'encoded': encoded, 'fingerprint': fingerprint, 'attention': attention, 'predictions': predictions,
               'smape': smape}
    return smape + stability, outputs
