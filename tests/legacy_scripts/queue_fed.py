"""Every tower takes a batch from one queue; exponential average of the loss; the loop of the first CIFAR-10 example."""

import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))


def inputs():
    random = np.random.RandomState(4)
    examples = random.randn(64, 4).astype(np.float32)
    labels = random.randint(3, size=64).astype(np.int32)
    example, label = tf.train.slice_input_producer([examples, labels], shuffle=False)
    return tf.train.batch([example, label], batch_size=4, num_threads=1, capacity=16)


def variable_on_cpu(name, shape, initializer, wd):
    with tf.device("/cpu:0"):
        var = tf.get_variable(name, shape, initializer=initializer)
    if wd:
        tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(var), wd, name="weight_loss"))
    return var


def inference(examples):
    with tf.variable_scope("softmax_linear"):
        weights = variable_on_cpu("weights", [4, 3], tf.truncated_normal_initializer(stddev=0.1, seed=8), 0.004)
        biases = variable_on_cpu("biases", [3], tf.constant_initializer(0.0), None)
        dropped = tf.nn.dropout(examples, rate=0.25, seed=9)
        return tf.add(tf.matmul(dropped, weights), biases)


def tower_loss(scope, examples, labels):
    logits = inference(examples)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    tf.add_to_collection("losses", tf.reduce_mean(xent, name="cross_entropy"))
    losses = tf.get_collection("losses", scope)
    total_loss = tf.add_n(losses, name="total_loss")
    for each in losses + [total_loss]:
        tf.summary.scalar(re.sub("tower_[0-9]*/", "", each.op.name), each)
    return total_loss


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grad = tf.reduce_mean(tf.stack([g for g, _ in grad_and_vars]), axis=0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def train():
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
        opt = tf.train.GradientDescentOptimizer(0.1)
        batch_queue = tf.FIFOQueue(8, [tf.float32, tf.int32], [[4, 4], [4]])
        tf.train.add_queue_runner(tf.train.QueueRunner(batch_queue, [batch_queue.enqueue(inputs())]))
        tower_grads = []
        with tf.variable_scope(tf.get_variable_scope()):
            for i in range(2):
                with tf.device("/gpu:%d" % i):
                    with tf.name_scope("tower_%d" % i) as scope:
                        examples, labels = batch_queue.dequeue()
                        loss = tower_loss(scope, examples, labels)
                        tf.get_variable_scope().reuse_variables()
                        tower_grads.append(opt.compute_gradients(loss))
        apply_gradient_op = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)
        variable_averages = tf.train.ExponentialMovingAverage(0.99, global_step)
        variables_averages_op = variable_averages.apply(tf.trainable_variables())
        train_op = tf.group(apply_gradient_op, variables_averages_op)
        summary_op = tf.summary.merge_all()
        init = tf.global_variables_initializer()
        sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
        sess.run(init)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        for step in range(STEPS):
            _, loss_value = sess.run([train_op, loss])
            print("step %d, loss = %.4f" % (step, loss_value))
            if step % 2 == 0:
                print("summary of %d bytes" % (len(sess.run(summary_op)) > 0))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=20)


if __name__ == "__main__":
    train()
