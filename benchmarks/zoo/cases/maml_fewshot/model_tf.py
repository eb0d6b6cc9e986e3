"""Model-agnostic meta-learning with strided convolutions: for each task two steps of gradient descent on its few examples, and the
loss on other examples behind them, through the steps. The shifts of batch norm are learned, but not adapted."""
import tensorflow.compat.v1 as tf

WAYS = 3
FILTERS = 8
UPDATE_LR = 0.4
NUM_UPDATES = 2
BLOCKS = 3


class MAML(object):
    def __init__(self, channels, dtype):
        self.channels = channels
        self.dtype = dtype
        self.weights = self.construct_conv_weights()
        self.betas = [tf.get_variable("BatchNorm%d/beta" % i, [FILTERS], dtype, tf.zeros_initializer()) for i in range(BLOCKS)]

    def construct_conv_weights(self):
        weights = {}
        conv_initializer = tf.glorot_uniform_initializer()
        previous = self.channels
        for i in range(BLOCKS):
            name = "conv%d" % (i + 1)
            weights[name] = tf.get_variable(name, [3, 3, previous, FILTERS], self.dtype, conv_initializer)
            previous = FILTERS
        weights["w5"] = tf.get_variable("w5", [FILTERS, WAYS], self.dtype, tf.random_normal_initializer(stddev=0.5))
        weights["b5"] = tf.get_variable("b5", [WAYS], self.dtype, tf.zeros_initializer())
        return weights

    def conv_block(self, inp, kernel, beta):
        conv_output = tf.nn.conv2d(inp, kernel, [1, 2, 2, 1], "SAME")
        # not tf.nn.moments, which takes the mean for a constant: that is felt in second derivatives
        mean = tf.reduce_mean(conv_output, [0, 1, 2])
        variance = tf.reduce_mean(tf.square(conv_output - mean), [0, 1, 2])
        return tf.nn.relu(tf.nn.batch_normalization(conv_output, mean, variance, beta, None, 0.001))

    def forward_conv(self, inp, weights):
        hidden = inp
        for i in range(BLOCKS):
            hidden = self.conv_block(hidden, weights["conv%d" % (i + 1)], self.betas[i])
        hidden = tf.reduce_mean(hidden, [1, 2])
        return tf.matmul(hidden, weights["w5"]) + weights["b5"]

    def xent(self, pred, label):
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=pred, labels=tf.one_hot(label, WAYS, dtype=self.dtype)))

    def task_metalearn(self, inp):
        inputa, labela, inputb, labelb = inp
        fast_weights = dict(self.weights)
        task_outputa, task_lossa = None, None
        for _ in range(NUM_UPDATES):
            output = self.forward_conv(inputa, fast_weights)
            loss = self.xent(output, labela)
            if task_outputa is None:
                task_outputa, task_lossa = output, loss
            grads = tf.gradients(loss, list(fast_weights.values()))
            gradients = dict(zip(fast_weights.keys(), grads))
            fast_weights = {key: fast_weights[key] - UPDATE_LR * gradients[key] for key in fast_weights}
        task_outputb = self.forward_conv(inputb, fast_weights)
        return task_outputa, task_lossa, task_outputb, self.xent(task_outputb, labelb)


def tower(inputa, labela, inputb, labelb):
    dtype = inputa.dtype
    with tf.variable_scope("model"):
        learner = MAML(inputa.shape[-1].value, dtype)
        outputa, lossesa, outputb, lossesb = tf.map_fn(
            learner.task_metalearn, (inputa, labela, inputb, labelb), dtype=(dtype, dtype, dtype, dtype))
    tasks = tf.cast(tf.shape(inputa)[0], dtype)
    total_loss1 = tf.reduce_sum(lossesa) / tasks
    total_loss2 = tf.reduce_sum(lossesb) / tasks
    right = tf.equal(tf.argmax(outputb, -1, output_type=tf.int32), labelb)
    return total_loss2, {"outputa": outputa, "outputb": outputb, "pre_update_loss": total_loss1,
                         "post_update_accuracy": tf.reduce_mean(tf.cast(right, dtype))}
