"""Reads and writes the checkpoints of `tf.train.Saver` without the graph that they belong to."""

from tf_towers.checkpoint.convert import checkpoint_of as checkpoint_of
from tf_towers.checkpoint.convert import start_from_checkpoint as start_from_checkpoint
from tf_towers.checkpoint.read import read_checkpoint as read_checkpoint
from tf_towers.checkpoint.write import write_checkpoint as write_checkpoint
