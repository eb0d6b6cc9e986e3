"""UNREAL: an actor-critic with an LSTM whose trunk also learns by auxiliary tasks on replayed frames: pixel control by a dueling
deconvolution, value replay, and the prediction of rewards. Losses are sums over steps, as those of A3C's workers are."""
import numpy as np
import tensorflow.compat.v1 as tf

ACTION_SIZE = 4
STATE = 32
FLAT = 4 * 4 * 12
PIXEL_CHANGE_LAMBDA = 0.05
ENTROPY_BETA = 0.01


def uniform_initializer(fan_in, dtype):
    d = 1.0 / np.sqrt(fan_in)
    return tf.random_uniform_initializer(-d, d, dtype=dtype)


class UnrealModel(object):
    def __init__(self, dtype):
        self.dtype = dtype
        self.lstm_cell = tf.nn.rnn_cell.BasicLSTMCell(STATE, state_is_tuple=True)

    def _fc_variable(self, weight_shape, name):
        init = uniform_initializer(weight_shape[0], self.dtype)
        return (tf.get_variable("W_" + name, weight_shape, self.dtype, initializer=init),
                tf.get_variable("b_" + name, [weight_shape[1]], self.dtype, initializer=init))

    def _conv_variable(self, weight_shape, name, deconv=False):
        w, h = weight_shape[0], weight_shape[1]
        if deconv:
            input_channels, output_channels = weight_shape[3], weight_shape[2]
        else:
            input_channels, output_channels = weight_shape[2], weight_shape[3]
        init = uniform_initializer(input_channels * w * h, self.dtype)
        return (tf.get_variable("W_" + name, weight_shape, self.dtype, initializer=init),
                tf.get_variable("b_" + name, [output_channels], self.dtype, initializer=init))

    def _conv2d(self, x, w, stride):
        return tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding="VALID")

    def _deconv2d(self, x, w, height, width, stride):
        shape = w.get_shape().as_list()
        output_shape = tf.stack([tf.shape(x)[0], (height - 1) * stride + shape[0], (width - 1) * stride + shape[1], shape[2]])
        return tf.nn.conv2d_transpose(x, w, output_shape, strides=[1, stride, stride, 1], padding="VALID")

    def conv_layers(self, frames, reuse=None):
        with tf.variable_scope("base_conv", reuse=reuse):
            w_conv1, b_conv1 = self._conv_variable([4, 4, 3, 8], "base_conv1")
            w_conv2, b_conv2 = self._conv_variable([3, 3, 8, 12], "base_conv2")
            frames = tf.reshape(frames, [-1, 20, 20, 3])
            h_conv1 = tf.nn.relu(self._conv2d(frames, w_conv1, 2) + b_conv1)
            return tf.nn.relu(self._conv2d(h_conv1, w_conv2, 2) + b_conv2)

    def lstm_layer(self, conv_output, last_action_reward, initial_state, reuse=None):
        steps = last_action_reward.get_shape().as_list()[1]
        with tf.variable_scope("base_lstm", reuse=reuse) as scope:
            w_fc1, b_fc1 = self._fc_variable([FLAT, STATE], "base_fc1")
            conv_output_flat = tf.reshape(conv_output, [-1, FLAT])
            conv_output_fc = tf.nn.relu(tf.matmul(conv_output_flat, w_fc1) + b_fc1)
            lstm_input = tf.concat([tf.reshape(conv_output_fc, [-1, steps, STATE]), last_action_reward], 2)
            lstm_outputs, _ = tf.nn.dynamic_rnn(self.lstm_cell, lstm_input, initial_state=initial_state, dtype=self.dtype,
                                                time_major=False, scope=scope)
            return tf.reshape(lstm_outputs, [-1, STATE])

    def policy_layer(self, lstm_outputs):
        with tf.variable_scope("base_policy"):
            w_fc_p, b_fc_p = self._fc_variable([STATE, ACTION_SIZE], "base_fc_p")
            return tf.nn.softmax(tf.matmul(lstm_outputs, w_fc_p) + b_fc_p)

    def value_layer(self, lstm_outputs, reuse=None):
        with tf.variable_scope("base_value", reuse=reuse):
            w_fc_v, b_fc_v = self._fc_variable([STATE, 1], "base_fc_v")
            return tf.reshape(tf.matmul(lstm_outputs, w_fc_v) + b_fc_v, [-1])

    def pc_deconv_layers(self, lstm_outputs):
        with tf.variable_scope("pc_deconv"):
            w_fc1, b_fc1 = self._fc_variable([STATE, FLAT], "pc_fc1")
            w_deconv_v, b_deconv_v = self._conv_variable([4, 4, 1, 12], "pc_deconv_v", deconv=True)
            w_deconv_a, b_deconv_a = self._conv_variable([4, 4, ACTION_SIZE, 12], "pc_deconv_a", deconv=True)
            h_fc1 = tf.reshape(tf.nn.relu(tf.matmul(lstm_outputs, w_fc1) + b_fc1), [-1, 4, 4, 12])
            # dueling, and rectified
            h_v = tf.nn.relu(self._deconv2d(h_fc1, w_deconv_v, 4, 4, 2) + b_deconv_v)
            h_a = tf.nn.relu(self._deconv2d(h_fc1, w_deconv_a, 4, 4, 2) + b_deconv_a)
            return h_v + h_a - tf.reduce_mean(h_a, axis=3, keepdims=True)

    def rp_layer(self, conv_output):
        with tf.variable_scope("rp_fc"):
            w_fc1, b_fc1 = self._fc_variable([FLAT * 3, 3], "rp_fc1")
            return tf.nn.softmax(tf.matmul(tf.reshape(conv_output, [-1, FLAT * 3]), w_fc1) + b_fc1)


def tower(base_input, base_last_action_reward, base_state_c, base_state_h, base_a, base_adv, base_r, replay_input,
          replay_last_action_reward, pc_a, pc_r, vr_r, rp_input, rp_c_target):
    model = UnrealModel(base_input.dtype)
    state = tf.nn.rnn_cell.LSTMStateTuple(base_state_c, base_state_h)
    base_outputs = model.lstm_layer(model.conv_layers(base_input), base_last_action_reward, state)
    base_pi, base_v = model.policy_layer(base_outputs), model.value_layer(base_outputs)
    # the replayed stretch always begins anew
    replay_outputs = model.lstm_layer(model.conv_layers(replay_input, reuse=True), replay_last_action_reward, None, reuse=True)
    pc_q = model.pc_deconv_layers(replay_outputs)
    vr_v = model.value_layer(replay_outputs, reuse=True)
    rp_c = model.rp_layer(model.conv_layers(rp_input, reuse=True))

    log_pi = tf.log(tf.clip_by_value(base_pi, 1e-20, 1.0))
    entropy = -tf.reduce_sum(base_pi * log_pi, axis=1)
    taken = tf.reduce_sum(tf.multiply(log_pi, tf.reshape(base_a, [-1, ACTION_SIZE])), axis=1)
    policy_loss = -tf.reduce_sum(taken * tf.reshape(base_adv, [-1]) + entropy * ENTROPY_BETA)
    # the critic's rate is half of the actor's
    value_loss = 0.5 * tf.nn.l2_loss(tf.reshape(base_r, [-1]) - base_v)
    pc_qa = tf.reduce_sum(tf.multiply(pc_q, tf.reshape(pc_a, [-1, 1, 1, ACTION_SIZE])), axis=3)
    pc_loss = PIXEL_CHANGE_LAMBDA * tf.nn.l2_loss(tf.reshape(pc_r, [-1, 10, 10]) - pc_qa)
    vr_loss = tf.nn.l2_loss(tf.reshape(vr_r, [-1]) - vr_v)
    rp_loss = -tf.reduce_sum(rp_c_target * tf.log(tf.clip_by_value(rp_c, 1e-20, 1.0)))
    total_loss = policy_loss + value_loss + pc_loss + vr_loss + rp_loss
    return total_loss, {"base_lstm": base_outputs, "pi": base_pi, "v": base_v, "pc_q": pc_q, "vr_v": vr_v, "rp_c": rp_c,
                        "policy_loss": policy_loss, "value_loss": value_loss, "pc_loss": pc_loss, "vr_loss": vr_loss, "rp_loss": rp_loss}
