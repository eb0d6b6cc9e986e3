"""Towers on devices of their own; TensorFlow itself tells what it sent from one to another (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

tf.disable_v2_behavior()


def model(x, y, w1, w2):
    hidden = tf.tanh(tf.matmul(x, variable("w1", w1)))
    return tf.reduce_mean(tf.square(tf.matmul(hidden, variable("w2", w2))[:, 0] - y))


def variable(name, value):
    with tf.device("/cpu:0"):  # the weights' home is the host, whatever device the tower is on
        return tf.get_variable(name, np.shape(value), tf.float64, tf.constant_initializer(value))


def build(x, y, w1, w2, count, optimizer):
    tower_gradients = []
    for index, (x_shard, y_shard) in enumerate(zip(tf.split(x, count), tf.split(y, count))):
        with tf.device("/cpu:%d" % (index + 1)), tf.variable_scope("", reuse=index > 0):
            tower_gradients.append(optimizer.compute_gradients(model(x_shard, y_shard, w1, w2)))
    with tf.device("/cpu:0"):
        means = [tf.reduce_mean(tf.stack([g for g, _ in pairs]), axis=0) for pairs in zip(*tower_gradients)]
        return optimizer.apply_gradients([(mean, v) for mean, (_, v) in zip(means, tower_gradients[0])])


def measure(x, y, w1, w2, count, learning_rate, steps):
    with tf.Graph().as_default() as graph:
        inputs = tf.placeholder(tf.float64, np.shape(x)), tf.placeholder(tf.float64, np.shape(y))
        train = build(inputs[0], inputs[1], w1, w2, count, tf.train.GradientDescentOptimizer(learning_rate))
        config = tf.ConfigProto(device_count={"CPU": count + 1})
        off = rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True)  # so that names stay what they are
        config.graph_options.rewrite_options.CopyFrom(off)
        feed = {inputs[0]: x, inputs[1]: y}
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            told = tf.RunMetadata()
            session.run(train, feed, tf.RunOptions(output_partition_graphs=True), told)
            for _ in range(steps - 1):
                session.run(train, feed)
            values = session.run(tf.trainable_variables())
        homes = {v.op.name: v.device[-5:].upper() for v in tf.trainable_variables()}
        sends = [sent(graph, node) for part in told.partition_graphs for node in part.node if node.op == "_Send"]
    weight_bytes = sum(value.nbytes for value in values)
    return {"homes": homes, "sends": sends, "w1": values[0], "w2": values[1], "weight_bytes": weight_bytes}


def sent(graph, node):
    name = node.input[0] if ":" in node.input[0] else node.input[0] + ":0"
    tensor = graph.get_tensor_by_name(name)
    kind = "weights" if name.endswith("/read:0") else "gradients" if "gradients" in name else "batch"
    return {
        "from": node.attr["send_device"].s.decode()[-5:],
        "to": node.attr["recv_device"].s.decode()[-5:],
        "kind": kind,
        "name": name,
        "bytes": int(np.prod(tensor.shape.as_list()) * tensor.dtype.size),
    }
