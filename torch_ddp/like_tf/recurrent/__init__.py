"""Recurrent cells as TensorFlow has them."""

from torch_ddp.like_tf.recurrent.dynamic_rnn import dynamic_rnn
from torch_ddp.like_tf.recurrent.gru_cell import GRUCell
from torch_ddp.like_tf.recurrent.lstm_cell import LSTMCell

__all__ = [
    "GRUCell",
    "LSTMCell",
    "dynamic_rnn",
]
