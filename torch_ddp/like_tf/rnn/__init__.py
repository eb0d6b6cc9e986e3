"""Recurrent cells with TensorFlow's gates, and what runs them over time."""

from torch_ddp.like_tf.rnn.cells import BasicRNNCell, GRUBlockCell, GRUCell, LSTMCell
from torch_ddp.like_tf.rnn.dynamic import bidirectional_dynamic_rnn, dynamic_rnn
from torch_ddp.like_tf.rnn.wrappers import DropoutWrapper, MultiRNNCell

__all__ = [
    "BasicRNNCell",
    "DropoutWrapper",
    "GRUBlockCell",
    "GRUCell",
    "LSTMCell",
    "MultiRNNCell",
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
]
