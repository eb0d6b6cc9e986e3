"""Recurrent cells with TensorFlow's gates, and what runs them over time."""

from torch_ddp.like_tf.rnn.cells import GRUCell, LSTMCell
from torch_ddp.like_tf.rnn.dynamic import dynamic_rnn

__all__ = [
    "GRUCell",
    "LSTMCell",
    "dynamic_rnn",
]
