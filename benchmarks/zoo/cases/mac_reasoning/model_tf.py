"""MAC network: a recurrent cell of control, read and write units over words and a grid of features."""
import tensorflow.compat.v1 as tf

VOCAB = 18
WRD_EMB = 10
DIM = 12
NET_LENGTH = 3
ANSWERS = 5
GATE_BIAS = 1.0


def get_weight(shape, dtype, name="weights"):
    return tf.get_variable(name, shape, dtype, initializer=tf.glorot_uniform_initializer())


def get_bias(shape, dtype, name="biases"):
    return tf.get_variable(name, shape, dtype, initializer=tf.zeros_initializer())


def linear(inp, in_dim, out_dim, act=None, bias=0.0, use_bias=True, name=""):
    with tf.variable_scope("linearLayer" + name):
        W = get_weight([in_dim, out_dim], inp.dtype)
        flat = tf.reshape(inp, [-1, in_dim])
        output = tf.matmul(flat, W)
        if use_bias:
            output = output + get_bias([out_dim], inp.dtype) + bias
        if inp.shape.ndims == 3:
            output = tf.reshape(output, [-1, inp.shape.as_list()[1], out_dim])
        return act(output) if act is not None else output


def cnn(images, out_dim, name):
    with tf.variable_scope(name):
        kernel = get_weight([3, 3, images.shape.as_list()[-1], out_dim], images.dtype, "kernels")
        bias = get_bias([out_dim], images.dtype)
        return tf.nn.elu(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME") + bias)


def inter2logits(interactions, dim, name=""):
    return tf.squeeze(linear(interactions, dim, 1, use_bias=False, name="logits" + name), axis=2)


def att2smry(attention, features):
    return tf.reduce_sum(attention[:, :, None] * features, axis=-2)


def exp_mask(seq, seq_length):
    max_length = seq.shape.as_list()[1]
    mask = tf.cast(tf.logical_not(tf.sequence_mask(seq_length, max_length)), seq.dtype) * tf.constant(-1e30, seq.dtype)
    return seq + mask


class MACCell(object):
    def __init__(self, vec_questions, question_words, question_lengths, knowledge_base, memory_mask):
        self.vecQuestions = vec_questions
        self.questionCntxWords = question_words
        self.questionLengths = question_lengths
        self.knowledgeBase = knowledge_base
        self.memDpMask = memory_mask

    def control(self, control_input, prev_control):
        with tf.variable_scope("control"):
            new_cont_control = linear(tf.concat([prev_control, control_input], axis=-1), 2 * DIM, DIM, name="contControl")
            interactions = new_cont_control[:, None, :] * self.questionCntxWords
            logits = exp_mask(inter2logits(interactions, DIM), self.questionLengths)
            attention = tf.nn.softmax(logits)
            return att2smry(attention, self.questionCntxWords), attention

    def read(self, memory, control):
        with tf.variable_scope("read"):
            memory = memory * self.memDpMask
            proj_kb = linear(self.knowledgeBase, DIM, DIM, name="kbProj")
            proj_mem = linear(memory, DIM, DIM, name="memProj")
            interactions = proj_mem[:, None, :] * proj_kb
            interactions = tf.concat([interactions, proj_kb], axis=-1)
            interactions = linear(interactions, 2 * DIM, DIM, act=tf.nn.elu, name="memKbProj")
            interactions = tf.nn.elu(interactions * control[:, None, :])
            attention = tf.nn.softmax(inter2logits(interactions, DIM))
            return att2smry(attention, self.knowledgeBase)

    def write(self, memory, info, control):
        with tf.variable_scope("write"):
            new_memory = linear(tf.concat([memory, info], axis=-1), 2 * DIM, DIM, name="newMemory")
            z = tf.sigmoid(linear(control, DIM, DIM, name="gate", bias=GATE_BIAS))
            return new_memory * z + memory * (1 - z)

    def __call__(self, iteration, state):
        control, memory = state
        control_input = tf.tanh(linear(self.vecQuestions, DIM, DIM, name="controlInput"))
        control_input = linear(control_input, DIM, DIM, name="controlInput%d" % iteration)
        new_control, attention = self.control(control_input, control)
        info = self.read(memory, new_control)
        new_memory = self.write(memory, info, new_control)
        return (new_control, new_memory), attention


def encoder(questions, lengths, dtype):
    with tf.variable_scope("encoder"):
        embeddings = tf.get_variable("emb", [VOCAB, WRD_EMB], dtype, initializer=tf.random_uniform_initializer(-1.0, 1.0))
        words = tf.nn.embedding_lookup(embeddings, questions)
        cell = lambda: tf.nn.rnn_cell.BasicLSTMCell(DIM // 2)
        (out_fw, out_bw), (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
            cell(), cell(), words, sequence_length=lengths, dtype=dtype)
        return tf.concat([out_fw, out_bw], -1), tf.concat([state_fw.h, state_bw.h], -1)


def tower(questions, lengths, images, answers, memory_mask):
    dtype = images.dtype
    with tf.variable_scope("macModel"):
        words, vec_questions = encoder(questions, lengths, dtype)
        with tf.variable_scope("stem"):
            features = cnn(cnn(images, DIM, "cnn0"), DIM, "cnn1")
        knowledge_base = tf.reshape(features, [-1, 16, DIM])
        cell = MACCell(vec_questions, words, lengths, knowledge_base, memory_mask)
        batch_size = tf.shape(questions)[0]
        with tf.variable_scope("initState"):
            init_memory = tf.get_variable("initMem", [1, DIM], dtype, initializer=tf.random_normal_initializer())
        state = (vec_questions, tf.tile(init_memory, [batch_size, 1]))
        attentions = []
        for i in range(NET_LENGTH):
            with tf.variable_scope("MACCell", reuse=tf.AUTO_REUSE):
                state, attention = cell(i, state)
            attentions.append(attention)
        control, memory = state
        with tf.variable_scope("outputUnit"):
            out = tf.concat([memory, linear(vec_questions, DIM, DIM, name="outQuestion")], axis=-1)
        with tf.variable_scope("classifier"):
            hidden = linear(out, 2 * DIM, DIM, act=tf.nn.elu, name="fc0")
            logits = linear(hidden, DIM, ANSWERS, name="fc1")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=answers, logits=logits)
        return tf.reduce_mean(losses), {
            "question": vec_questions, "attention": tf.stack(attentions, 1), "control": control, "memory": memory, "logits": logits}
