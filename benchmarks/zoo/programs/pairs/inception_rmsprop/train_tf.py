"""Inception-like network on several towers: RMSProp with a large epsilon, smoothed labels, a second head."""

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_integer("num_gpus", 2, "")
tf.app.flags.DEFINE_integer("batch_size", 12, "Images of all towers together.")
tf.app.flags.DEFINE_integer("max_steps", 9, "")
tf.app.flags.DEFINE_float("initial_learning_rate", 0.1, "")
tf.app.flags.DEFINE_float("learning_rate_decay_factor", 0.16, "")

RMSPROP_DECAY = 0.9
RMSPROP_MOMENTUM = 0.9
RMSPROP_EPSILON = 1.0
NUM_CLASSES = 7
SMOOTHING = 0.1


def conv2d(x, filters, ksize, scope, stride=1, padding="SAME"):
    with tf.variable_scope(scope), tf.device("/cpu:0"):
        shape = [ksize[0], ksize[1], int(x.shape[3]), filters]
        weights = tf.get_variable("weights", shape, tf.float32, tf.truncated_normal_initializer(stddev=0.1))
        biases = tf.get_variable("biases", [filters], tf.float32, tf.zeros_initializer())
    return tf.nn.relu(tf.nn.conv2d(x, weights, [1, stride, stride, 1], padding) + biases, name=scope)


def fc(x, units, scope):
    with tf.variable_scope(scope), tf.device("/cpu:0"):
        weights = tf.get_variable("weights", [int(x.shape[1]), units], tf.float32, tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [units], tf.float32, tf.zeros_initializer())
    return tf.nn.xw_plus_b(x, weights, biases)


def mixed(x, scope):
    with tf.variable_scope(scope):
        branch1x1 = conv2d(x, 4, (1, 1), "b0_1x1")
        branch7 = conv2d(x, 3, (1, 1), "b1_1x1")
        branch7 = conv2d(conv2d(branch7, 3, (1, 5), "b1_1x5"), 6, (5, 1), "b1_5x1")
        pool = tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
        branch_pool = conv2d(pool, 4, (1, 1), "b2_1x1")
        return tf.concat([branch1x1, branch7, branch_pool], axis=3)


def inference(images):
    net = conv2d(images, 8, (3, 3), "conv0", stride=2, padding="VALID")
    net = mixed(net, "mixed0")
    with tf.variable_scope("aux_logits"):
        aux = tf.nn.avg_pool(net, [1, 5, 5, 1], [1, 3, 3, 1], "VALID")
        aux = conv2d(aux, 4, (1, 1), "proj")
        aux_logits = fc(tf.reshape(aux, [-1, 4]), NUM_CLASSES, "fc")
    net = mixed(net, "mixed1")
    return fc(tf.reduce_mean(net, [1, 2]), NUM_CLASSES, "logits"), aux_logits


def tower_loss(images, labels):
    logits, aux_logits = inference(images)
    on, off = 1.0 - SMOOTHING + SMOOTHING / NUM_CLASSES, SMOOTHING / NUM_CLASSES
    dense = tf.one_hot(labels, NUM_CLASSES, on_value=on, off_value=off, dtype=tf.float32)
    main = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=dense, logits=logits))
    aux = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=dense, logits=aux_logits))
    return tf.add_n([main, 0.4 * aux], name="total_loss")


def average_gradients(tower_grads):
    average = []
    for grad_and_vars in zip(*tower_grads):
        grads = []
        for g, _ in grad_and_vars:
            grads.append(tf.expand_dims(g, 0))
        grad = tf.concat(axis=0, values=grads)
        average.append((tf.reduce_mean(grad, 0), grad_and_vars[0][1]))
    return average


def main(_):
    assert FLAGS.batch_size % FLAGS.num_gpus == 0
    tf.set_random_seed(21)
    images = tf.placeholder(tf.float32, [FLAGS.batch_size, 15, 15, 3], name="images")
    labels = tf.placeholder(tf.int32, [FLAGS.batch_size], name="labels")
    global_step = tf.Variable(0, name="global_step", trainable=False, dtype=tf.int64)
    lr = tf.train.exponential_decay(
        FLAGS.initial_learning_rate, global_step, 3, FLAGS.learning_rate_decay_factor, staircase=True
    )
    opt = tf.train.RMSPropOptimizer(lr, RMSPROP_DECAY, momentum=RMSPROP_MOMENTUM, epsilon=RMSPROP_EPSILON)
    images_splits = tf.split(axis=0, num_or_size_splits=FLAGS.num_gpus, value=images)
    labels_splits = tf.split(axis=0, num_or_size_splits=FLAGS.num_gpus, value=labels)
    tower_grads, reuse = [], None
    for i in range(FLAGS.num_gpus):
        with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i) as scope:
            with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
                loss = tower_loss(images_splits[i], labels_splits[i])
            reuse = True
            tower_grads.append(opt.compute_gradients(loss))
            print("built", scope)
    train_op = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)

    rng = np.random.RandomState(8)
    prototypes = rng.randn(NUM_CLASSES, 15, 15, 3)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.max_steps):
            y = rng.randint(0, NUM_CLASSES, FLAGS.batch_size)
            x = prototypes[y] + 0.3 * rng.randn(FLAGS.batch_size, 15, 15, 3)
            _, loss_value = sess.run([train_op, loss], feed_dict={images: x, labels: y})
            assert not np.isnan(loss_value), "Model diverged with loss = NaN"
            print("step %d, loss = %.4f" % (step, loss_value))


if __name__ == "__main__":
    tf.app.run()
