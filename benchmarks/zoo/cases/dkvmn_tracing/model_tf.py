"""Dynamic key-value memory network for knowledge tracing: exercises address a memory by its static keys, what was mastered is read
from its values, and each answer erases from and adds to them."""
import tensorflow.compat.v1 as tf

N_QUESTIONS = 14
MEMORY_SIZE, KEY_DIM, VALUE_DIM, FINAL_FC_DIM = 6, 5, 7, 8


def linear(x, state_dim, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        weight = tf.get_variable("weight", [x.get_shape()[-1], state_dim], x.dtype,
                                 initializer=tf.random_normal_initializer(stddev=0.3, dtype=x.dtype))
        bias = tf.get_variable("bias", [state_dim], x.dtype, initializer=tf.zeros_initializer())
        return tf.matmul(x, weight) + bias


class DKVMN(object):
    def __init__(self, key, value):
        self.key, self.value = key, value

    def attention(self, q_embedded):
        return tf.nn.softmax(tf.matmul(q_embedded, tf.transpose(self.key)))

    def read(self, weight):
        return tf.reduce_sum(self.value * tf.expand_dims(weight, 2), axis=1)

    def write(self, weight, qa_embedded, answered):
        erase = tf.sigmoid(linear(qa_embedded, VALUE_DIM, "Erase_Vector"))
        add = tf.tanh(linear(qa_embedded, VALUE_DIM, "Add_Vector"))
        weight = tf.expand_dims(weight, 2)
        new = self.value * (1 - weight * tf.expand_dims(erase, 1)) + weight * tf.expand_dims(add, 1)
        answered = tf.reshape(answered, [-1, 1, 1])
        self.value = new * answered + self.value * (1 - answered)


def tower(q_data, answer, target):
    dtype = target.dtype
    init = tf.truncated_normal_initializer(stddev=0.5, dtype=dtype)
    batch, seq_len = q_data.get_shape().as_list()
    with tf.variable_scope("Memory"):
        key = tf.get_variable("key", [MEMORY_SIZE, KEY_DIM], dtype, initializer=init)
        value = tf.get_variable("value", [MEMORY_SIZE, VALUE_DIM], dtype, initializer=init)
    with tf.variable_scope("Embedding"):
        q_embed_mtx = tf.get_variable("q_embed", [N_QUESTIONS + 1, KEY_DIM], dtype, initializer=init)
        qa_embed_mtx = tf.get_variable("qa_embed", [2 * N_QUESTIONS + 1, VALUE_DIM], dtype, initializer=init)
    memory = DKVMN(key, tf.tile(tf.expand_dims(value, 0), [tf.shape(q_data)[0], 1, 1]))
    qa_data = q_data + answer * N_QUESTIONS
    slice_q = tf.split(tf.nn.embedding_lookup(q_embed_mtx, q_data), seq_len, axis=1)
    slice_qa = tf.split(tf.nn.embedding_lookup(qa_embed_mtx, qa_data), seq_len, axis=1)

    prediction, reads, weights = [], [], []
    for i in range(seq_len):
        q = tf.squeeze(slice_q[i], 1)
        correlation_weight = memory.attention(q)
        read_content = memory.read(correlation_weight)
        memory.write(correlation_weight, tf.squeeze(slice_qa[i], 1), tf.cast(q_data[:, i] > 0, dtype))
        summary_vector = tf.tanh(linear(tf.concat([read_content, q], 1), FINAL_FC_DIM, "Summary_Vector"))
        prediction.append(linear(summary_vector, 1, "Prediction"))
        reads.append(read_content)
        weights.append(correlation_weight)
    pred_logits = tf.concat(prediction, axis=1)
    target_1d = tf.reshape(target, [-1])
    index = tf.where(tf.not_equal(target_1d, -1.0))
    filtered_target = tf.gather(target_1d, index)
    filtered_logits = tf.gather(tf.reshape(pred_logits, [-1]), index)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=filtered_logits, labels=filtered_target))
    return loss, {"correlation": tf.stack(weights, 1), "read_content": tf.stack(reads, 1), "memory": memory.value,
                  "pred": tf.sigmoid(pred_logits)}
