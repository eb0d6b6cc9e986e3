"""Answers uses that TensorFlow itself answers with a page, or not at all."""

import contextlib
import inspect
import traceback

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.feed import EXAMPLE_WEIGHTS
from tf_towers.user_lines import users_line


def require_graph_mode(who):
    """Refuses to go on under eager execution, TensorFlow 2's default.

    Raises:
      TowerError: it is on.
    """
    if tf.executing_eagerly():
        raise TowerError(
            f"{who}: expected TensorFlow 1's graph mode, got eager execution. "
            "Call tf.disable_v2_behavior() before anything else, and leave out what turns eager execution on."
        )


def require_arguments(tower, given):
    """Refuses a tower function that cannot be called with what it will be given.

    Args:
      tower: function of the inputs by name.
      given: names of the inputs, and of the keyword that says the mode where it takes one.

    Raises:
      TowerError: it takes no argument of such a name, or needs another one.
    """
    signature, arguments = inspect.signature(tower), inspect.getfullargspec(tower)
    if EXAMPLE_WEIGHTS in given and not (EXAMPLE_WEIGHTS in arguments.args or arguments.varkw):
        raise TowerError(
            f"tower: expected an argument {EXAMPLE_WEIGHTS}, [shard], 0 where the batch was padded, got none. "
            "Take it, and weight the losses of the examples with it."
        )
    try:
        signature.bind(**dict.fromkeys(given))
    except TypeError as error:
        raise TowerError(
            f"tower: expected a function of {', '.join(sorted(given))}, got {signature}: {error}. "
            "Name its arguments as the batches name their arrays."
        ) from None


@contextlib.contextmanager
def explain_foreign_graph():
    """Turns TensorFlow's complaint about two graphs into one line that names the user's own.

    Raises:
      TowerError: instead of the ValueError, where a tower uses a variable or tensor that was made outside of it.
    """
    try:
        yield
    except ValueError as error:
        if "from the same graph" not in str(error) and "different graph" not in str(error):
            raise
        raise TowerError(
            "tower: expected the tower to make or be given all that it uses, got something of another graph at "
            f"{users_line(traceback.extract_tb(error.__traceback__))}. "
            "Make variables inside the tower function with tf.get_variable; pass tensors as inputs."
        ) from error
