"""tf.gradients without gates, an embedding with sparse gradients that nobody divides, an iterator for each tower."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))


def average_grads(tower_grads):
    averaged = []
    for grads_and_vars in zip(*tower_grads):
        first, var = grads_and_vars[0]
        if isinstance(first, tf.IndexedSlices):
            values = tf.concat([g.values for g, _ in grads_and_vars], 0)
            indices = tf.concat([g.indices for g, _ in grads_and_vars], 0)
            averaged.append((tf.IndexedSlices(values, indices, first.dense_shape), var))
        else:
            averaged.append((tf.add_n([g for g, _ in grads_and_vars]) * (1.0 / len(grads_and_vars)), var))
    return averaged


random = np.random.RandomState(3)
tokens = random.randint(7, size=(64, 5)).astype(np.int32)
targets = random.randn(64).astype(np.float32)
iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices((tokens, targets)).batch(4).repeat())
optimizer = tf.train.AdagradOptimizer(0.1, initial_accumulator_value=1.0)
tower_grads = []
for gpu in range(2):
    ids, wanted = iterator.get_next()
    with tf.device("/gpu:%d" % gpu), tf.variable_scope("lm", reuse=gpu > 0):
        embedding = tf.get_variable("embedding", [7, 3], initializer=tf.random_normal_initializer(seed=1))
        w1 = tf.get_variable("w1", [3, 3], initializer=tf.random_normal_initializer(seed=2))
        w2 = tf.get_variable("w2", [3, 1], initializer=tf.random_normal_initializer(seed=3))
        hidden = tf.tanh(tf.matmul(tf.reduce_mean(tf.nn.embedding_lookup(embedding, ids), 1), w1))
        loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(hidden, w2), 1) - wanted))
        variables = tf.trainable_variables()
        tower_grads.append(list(zip(tf.gradients(loss, variables), variables)))
train = optimizer.apply_gradients(average_grads(tower_grads), global_step=tf.train.get_or_create_global_step())

session = tf.InteractiveSession(config=tf.ConfigProto(allow_soft_placement=True))
tf.global_variables_initializer().run()
for number in range(STEPS):
    session.run(train)
    print("made update", number)
