"""Hierarchical recurrent encoder-decoder: words to utterances, utterances to a context, the context to the next utterance."""
import tensorflow.compat.v1 as tf

from data import TURNS, VOCABULARY, WORDS

EMBEDDING_SIZE = 10
UTTERANCE_SIZE = 14
CONTEXT_SIZE = 16
DECODER_SIZE = 14
GO = 0


class Hred(object):
    def __init__(self, dtype):
        self.dtype = dtype
        self.embeddings = tf.get_variable("embeddings", [VOCABULARY, EMBEDDING_SIZE], dtype,
                                          initializer=tf.random_normal_initializer(stddev=0.3))

    def utterance_encoder(self, words, lengths):
        with tf.variable_scope("utterance_encoder"):
            cell = tf.nn.rnn_cell.GRUCell(UTTERANCE_SIZE)
            _, state = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(self.embeddings, words), sequence_length=lengths,
                                         dtype=self.dtype)
            return state

    def context_encoder(self, utterances, turns):
        with tf.variable_scope("context_encoder"):
            cell = tf.nn.rnn_cell.GRUCell(CONTEXT_SIZE)
            outputs, _ = tf.nn.dynamic_rnn(cell, utterances, sequence_length=turns, dtype=self.dtype)
            return outputs

    def decoder(self, contexts, words):
        with tf.variable_scope("decoder"):
            initial = tf.layers.dense(contexts, DECODER_SIZE, activation=tf.nn.tanh, name="initial_state")
            embedded = tf.nn.embedding_lookup(self.embeddings, words)
            cell = tf.nn.rnn_cell.GRUCell(DECODER_SIZE)
            outputs, _ = tf.nn.dynamic_rnn(cell, embedded, initial_state=initial)
            # what a word is read from: the decoder's state and the word before
            omega = tf.layers.dense(outputs, EMBEDDING_SIZE, name="from_state")
            omega += tf.layers.dense(embedded, EMBEDDING_SIZE, use_bias=False, name="from_word")
            return tf.einsum("btd,vd->btv", omega, self.embeddings)


def tower(dialogues, lengths, turns, weights):
    model = Hred(weights.dtype)
    past, targets = dialogues[:, :-1], dialogues[:, 1:]
    utterances = model.utterance_encoder(tf.reshape(past, [-1, WORDS]), tf.reshape(lengths[:, :-1], [-1]))
    utterances = tf.reshape(utterances, [-1, TURNS - 1, UTTERANCE_SIZE])
    contexts = model.context_encoder(utterances, turns - 1)

    flat_targets = tf.reshape(targets, [-1, WORDS])
    go = tf.fill([tf.shape(flat_targets)[0], 1], GO)
    decoder_inputs = tf.concat([go, flat_targets[:, :-1]], axis=1)
    logits = model.decoder(tf.reshape(contexts, [-1, CONTEXT_SIZE]), decoder_inputs)

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat_targets, logits=logits)
    mask = tf.reshape(weights, [-1, WORDS])
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    return loss, {"utterances": utterances, "contexts": contexts,
                  "logits": tf.reshape(logits, [-1, TURNS - 1, WORDS, VOCABULARY])}
