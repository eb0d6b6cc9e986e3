"""DeepHit: competing risks from a shared network and one per cause, a joint distribution over causes and intervals; likelihood and
ranking loss."""
import tensorflow.compat.v1 as tf

NUM_EVENT, NUM_CATEGORY = 2, 10
H_DIM_SHARED, NUM_LAYERS_SHARED = 24, 2
H_DIM_CS, NUM_LAYERS_CS = 15, 2
ALPHA, BETA, SIGMA1 = 1.0, 0.6, 0.1
REG_W, REG_W_OUT = 2e-3, 1e-3
_EPSILON = 1e-08


def log(x):
    return tf.log(x + _EPSILON)


def l2_regularizer(scale):
    return lambda w: scale * tf.nn.l2_loss(w)


def l1_regularizer(scale):
    return lambda w: scale * tf.reduce_sum(tf.abs(w))


def create_fcnet(inputs, num_layers, h_dim, name, keep=None):
    out = inputs
    with tf.variable_scope(name):
        for layer in range(num_layers):
            out = tf.layers.dense(out, h_dim, activation=tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(),
                                  kernel_regularizer=l2_regularizer(REG_W), name="fc_%d" % layer)
            if keep is not None and layer < num_layers - 1:
                out = out * keep
    return out


def build(x, keep):
    shared_out = create_fcnet(x, NUM_LAYERS_SHARED, H_DIM_SHARED, "shared", keep)
    h = tf.concat([x, shared_out], axis=1)  # residual connection
    out = []
    for event in range(NUM_EVENT):
        out.append(create_fcnet(h, NUM_LAYERS_CS, H_DIM_CS, "cause_%d" % (event + 1)))
    out = tf.stack(out, axis=1)
    out = tf.reshape(out, [-1, NUM_EVENT * H_DIM_CS])
    out = tf.layers.dense(out, NUM_EVENT * NUM_CATEGORY, activation=tf.nn.softmax,
                          kernel_regularizer=l1_regularizer(REG_W_OUT), name="Output")
    return tf.reshape(out, [-1, NUM_EVENT, NUM_CATEGORY])


def loss_log_likelihood(out, k, mask1):
    i_1 = tf.sign(k)
    summed = tf.reduce_sum(tf.reduce_sum(mask1 * out, 2), 1, keepdims=True)
    tmp1 = i_1 * log(summed)
    tmp2 = (1. - i_1) * log(summed)
    return -tf.reduce_mean(tmp1 + 1.0 * tmp2)


def loss_ranking(out, k, t, mask2):
    eta = []
    for e in range(NUM_EVENT):
        one_vector = tf.ones_like(t)
        i_2 = tf.linalg.diag(tf.squeeze(tf.cast(tf.equal(k, e + 1), out.dtype), 1))
        tmp_e = out[:, e, :]
        r = tf.matmul(tmp_e, tf.transpose(mask2))  # r_{ij}: risk of i up to the time of j
        diag_r = tf.reshape(tf.linalg.diag_part(r), [-1, 1])
        r = tf.matmul(one_vector, tf.transpose(diag_r)) - r
        r = tf.transpose(r)  # r_{ij}: of i minus of j, at the time of i
        later = tf.nn.relu(tf.sign(tf.matmul(one_vector, tf.transpose(t)) - tf.matmul(t, tf.transpose(one_vector))))
        later = tf.matmul(i_2, later)
        eta.append(tf.reduce_mean(later * tf.exp(-r / SIGMA1), 1, keepdims=True))
    eta = tf.reduce_mean(tf.reshape(tf.stack(eta, axis=1), [-1, NUM_EVENT]), 1, keepdims=True)
    return tf.reduce_sum(eta)


def tower(x, k, t, mask1, mask2, keep):
    out = build(x, keep)
    loss_1 = loss_log_likelihood(out, k, mask1)
    loss_2 = loss_ranking(out, k, t, mask2)
    return ALPHA * loss_1 + BETA * loss_2, {"pmf": out, "likelihood": loss_1, "ranking": loss_2}
