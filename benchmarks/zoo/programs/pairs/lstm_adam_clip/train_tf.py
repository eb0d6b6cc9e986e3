"""Word language model on several towers: embedding, two LSTM layers, Adam, the mean gradient clipped by its norm."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

if hasattr(tf, "disable_eager_execution"):
    tf.disable_eager_execution()


class Config(object):
    """The small model."""

    vocab_size = 40
    embed_size = 12
    hidden_size = 16
    num_layers = 2
    num_steps = 7
    init_scale = 0.25
    max_grad_norm = 0.15
    learning_rate = 0.01


def lstm_layer(inputs, hidden, name):
    """BasicLSTMCell, unrolled: one kernel for input and state, gates i, j, f, o, forget bias 1."""
    batch, size = inputs[0].get_shape().as_list()
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [size + hidden, 4 * hidden], dtype=tf.float32)
        bias = tf.get_variable("bias", [4 * hidden], dtype=tf.float32, initializer=tf.zeros_initializer())
    c = h = tf.zeros([batch, hidden], dtype=tf.float32)
    outputs = []
    for x in inputs:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        outputs.append(h)
    return outputs


def model(tokens, targets, config):
    with tf.device("/cpu:0"):
        embedding = tf.get_variable("embedding", [config.vocab_size, config.embed_size], dtype=tf.float32)
        inputs = tf.nn.embedding_lookup(embedding, tokens)
    net = tf.unstack(inputs, num=config.num_steps, axis=1)
    for layer in range(config.num_layers):
        net = lstm_layer(net, config.hidden_size, "cell_%d" % layer)
    output = tf.reshape(tf.stack(net, axis=1), [-1, config.hidden_size])
    softmax_w = tf.get_variable("softmax_w", [config.hidden_size, config.vocab_size], dtype=tf.float32)
    softmax_b = tf.get_variable("softmax_b", [config.vocab_size], dtype=tf.float32)
    logits = tf.nn.xw_plus_b(output, softmax_w, softmax_b)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    return tf.reduce_mean(xent)


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(tf.convert_to_tensor(g), 0) for g, _ in grad_and_vars]
        average_grads.append((tf.reduce_mean(tf.concat(grads, 0), 0), grad_and_vars[0][1]))
    return average_grads


def batches(config, batch_size, steps):
    rng = np.random.RandomState(17)
    for _ in range(steps):
        start = rng.randint(0, config.vocab_size, size=(batch_size, 1))
        stride = rng.randint(1, 4, size=(batch_size, 1))
        words = (start + stride * np.arange(config.num_steps + 1)) % config.vocab_size
        yield words[:, :-1], words[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_gpus", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=4, help="sentences of one GPU")
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    config = Config()
    total = args.n_gpus * args.batch_size

    tf.set_random_seed(2)
    x = tf.placeholder(tf.int32, [total, config.num_steps], name="input_x")
    y = tf.placeholder(tf.int32, [total, config.num_steps], name="target_y")
    optimizer = tf.train.AdamOptimizer(config.learning_rate)
    initializer = tf.random_uniform_initializer(-config.init_scale, config.init_scale)
    losses, tower_grads = [], []
    for k in range(args.n_gpus):
        start, stop = k * args.batch_size, (k + 1) * args.batch_size
        with tf.device("/gpu:%d" % k), tf.variable_scope("lm", reuse=k > 0, initializer=initializer):
            loss = model(x[start:stop], y[start:stop], config)
            losses.append(loss)
            tower_grads.append(optimizer.compute_gradients(loss))
    grads, tvars = zip(*average_gradients(tower_grads))
    grads, norm = tf.clip_by_global_norm(grads, config.max_grad_norm)
    global_step = tf.train.get_or_create_global_step()
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)
    cost = tf.add_n(losses) / len(losses)

    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for i, (words, targets) in enumerate(batches(config, total, args.steps)):
            _, value, size = sess.run([train_op, cost, norm], {x: words, y: targets})
            print("step %d perplexity %.3f norm %.3f" % (i, np.exp(value), size))


if __name__ == "__main__":
    main()
