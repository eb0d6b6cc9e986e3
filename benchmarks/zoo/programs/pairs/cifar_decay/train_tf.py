"""Train a small CIFAR network on several towers: SGD, decayed rate, averages of the weights."""

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_integer("num_gpus", 2, "How many towers.")
tf.app.flags.DEFINE_integer("batch_size", 8, "Images of one tower.")
tf.app.flags.DEFINE_integer("max_steps", 10, "Number of updates.")

TOWER_NAME = "tower"
MOVING_AVERAGE_DECAY = 0.99
INITIAL_LEARNING_RATE = 0.1
LEARNING_RATE_DECAY_FACTOR = 0.5
STEPS_PER_DECAY = 4


def _variable_on_cpu(name, shape, initializer):
    with tf.device("/cpu:0"):
        return tf.get_variable(name, shape, initializer=initializer, dtype=tf.float32)


def _conv(x, name, size, channels):
    with tf.variable_scope(name):
        shape = [size, size, x.get_shape().as_list()[3], channels]
        kernel = _variable_on_cpu("weights", shape, tf.truncated_normal_initializer(stddev=5e-2))
        biases = _variable_on_cpu("biases", [channels], tf.constant_initializer(0.1))
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="SAME"), biases))


def _local(x, name, units):
    with tf.variable_scope(name):
        shape = [x.get_shape().as_list()[1], units]
        weights = _variable_on_cpu("weights", shape, tf.truncated_normal_initializer(stddev=0.04))
        biases = _variable_on_cpu("biases", [units], tf.constant_initializer(0.1))
        return tf.matmul(x, weights) + biases


def inference(images):
    conv1 = _conv(images, "conv1", 5, 8)
    pool1 = tf.nn.max_pool(conv1, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool1")
    norm1 = tf.nn.lrn(pool1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    conv2 = _conv(norm1, "conv2", 3, 16)
    norm2 = tf.nn.lrn(conv2, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm2")
    pool2 = tf.nn.max_pool(norm2, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool2")
    reshape = tf.reshape(pool2, [FLAGS.batch_size, -1])
    local3 = tf.nn.relu(_local(reshape, "local3", 32))
    return _local(local3, "softmax_linear", 10)


def tower_loss(images, labels):
    logits = inference(images)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(cross_entropy, name="cross_entropy")


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def inputs():
    rng = np.random.RandomState(11)
    labels = rng.randint(0, 10, size=160).astype(np.int32)
    images = rng.randn(160, 16, 16, 3).astype(np.float32) + labels[:, None, None, None].astype(np.float32) / 5.0
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.shuffle(160, seed=3).repeat().batch(FLAGS.batch_size * FLAGS.num_gpus, drop_remainder=True)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def train():
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        tf.set_random_seed(1)
        global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
        lr = tf.train.exponential_decay(
            INITIAL_LEARNING_RATE, global_step, STEPS_PER_DECAY, LEARNING_RATE_DECAY_FACTOR, staircase=False
        )
        opt = tf.train.GradientDescentOptimizer(lr)
        images, labels = inputs()
        image_splits = tf.split(images, FLAGS.num_gpus)
        label_splits = tf.split(labels, FLAGS.num_gpus)

        tower_grads = []
        with tf.variable_scope(tf.get_variable_scope()):
            for i in range(FLAGS.num_gpus):
                with tf.device("/gpu:%d" % i), tf.name_scope("%s_%d" % (TOWER_NAME, i)):
                    loss = tower_loss(image_splits[i], label_splits[i])
                    tf.get_variable_scope().reuse_variables()
                    tower_grads.append(opt.compute_gradients(loss))

        apply_gradient_op = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)
        variable_averages = tf.train.ExponentialMovingAverage(MOVING_AVERAGE_DECAY, global_step)
        with tf.control_dependencies([apply_gradient_op]):
            train_op = variable_averages.apply(tf.trainable_variables())

        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(FLAGS.max_steps):
                _, loss_value = sess.run([train_op, loss])
                print("step %d, loss = %.4f" % (step, loss_value))


def main(argv=None):
    train()


if __name__ == "__main__":
    tf.app.run()
