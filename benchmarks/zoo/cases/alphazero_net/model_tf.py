"""Policy and value network of self-play: a residual tower with two heads, decay in the cost."""
import functools

import tensorflow.compat.v1 as tf

BOARD = 6
FILTERS = 16
BLOCKS = 2
FC_WIDTH = 16
L2_STRENGTH = 1e-3


def inference(features, training):
    my_batchn = functools.partial(tf.layers.batch_normalization, axis=-1, momentum=.95, epsilon=1e-5, center=True,
                                  scale=True, fused=False, training=training)
    my_conv2d = functools.partial(tf.layers.conv2d, filters=FILTERS, kernel_size=[3, 3], padding="same",
                                  use_bias=False)

    def my_res_layer(inputs):
        int_layer1 = my_batchn(my_conv2d(inputs))
        initial_output = tf.nn.relu(int_layer1)
        int_layer2 = my_batchn(my_conv2d(initial_output))
        output = tf.nn.relu(inputs + int_layer2)
        return output

    initial_output = tf.nn.relu(my_batchn(my_conv2d(features)))
    shared_output = initial_output
    for _ in range(BLOCKS):
        shared_output = my_res_layer(shared_output)

    # policy head
    policy_conv = tf.nn.relu(my_batchn(my_conv2d(shared_output, filters=2, kernel_size=[1, 1]),
                                       center=False, scale=False))
    logits = tf.layers.dense(tf.reshape(policy_conv, [-1, BOARD * BOARD * 2]), BOARD * BOARD + 1)
    policy_output = tf.nn.softmax(logits, name="policy_output")

    # value head
    value_conv = tf.nn.relu(my_batchn(my_conv2d(shared_output, filters=1, kernel_size=[1, 1]),
                                      center=False, scale=False))
    value_fc_hidden = tf.nn.relu(tf.layers.dense(tf.reshape(value_conv, [-1, BOARD * BOARD]), FC_WIDTH))
    value_output = tf.nn.tanh(tf.reshape(tf.layers.dense(value_fc_hidden, 1), [-1]), name="value_output")
    return policy_output, value_output, logits


def tower(pos, pi, z, training=True):
    with tf.variable_scope("dual_net"):
        policy_output, value_output, logits = inference(pos, training)
    policy_cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient(pi)))
    value_cost = tf.reduce_mean(tf.square(value_output - z))
    reg_vars = [v for v in tf.trainable_variables() if "bias" not in v.name]
    l2_cost = L2_STRENGTH * tf.add_n([tf.nn.l2_loss(v) for v in reg_vars])
    combined_cost = policy_cost + value_cost + l2_cost
    policy_entropy = -tf.reduce_mean(tf.reduce_sum(policy_output * tf.log(policy_output), axis=1))
    return combined_cost, {"logits": logits, "value": value_output, "policy_cost": policy_cost, "value_cost": value_cost,
                           "l2_cost": l2_cost, "policy_entropy": policy_entropy}
