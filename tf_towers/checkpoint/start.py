"""Starts a training from a checkpoint."""

import numpy as np

from parity.trace import COMPUTED, parse_key
from tf_towers.checkpoint.of_trace import saved_as
from tf_towers.checkpoint.read import read_checkpoint
from tf_towers.errors import CheckpointError


def start_from_checkpoint(path, fresh, variables):
    """Returns the state that a checkpoint holds, filled up with what it does not hold, and the names of that.

    Weights and moving statistics must be there. Slots, averages, step count and other counters are taken where they are: a
    checkpoint for serving has none of them. An average that is not there starts at its weight, as in a new graph.

    Args:
      path: whatever `read_checkpoint` takes.
      fresh: dict of trace name to array, the state that the graph's initialisers make.
      variables: description of the variables, see `checkpoint_of`.

    Returns:
      A dict of trace name to array in the shapes and dtypes of `fresh`, and a sorted list of trace names.

    Raises:
      CheckpointError: it cannot be read, lacks a weight or statistic, or holds one in another shape.
    """
    found = read_checkpoint(path)
    state, missing = {}, []
    for text, value in fresh.items():
        key = parse_key(text)
        if text.endswith(tuple(COMPUTED)) or key.name.startswith("local/"):
            state[text] = value
            continue
        name = saved_as(key, variables)
        if name in found and found[name].shape == np.shape(value) and found[name].dtype != object:
            state[text] = np.asarray(found[name], np.asarray(value).dtype)
        elif name in found or key.quantity in ("var", "stat"):
            got = f"shape {list(found[name].shape)} of {found[name].dtype}" if name in found else "nothing"
            raise CheckpointError(
                f"init: expected {name} with shape {list(np.shape(value))} in the checkpoint {path}, got {got}. "
                f"Name a checkpoint of this model; it holds {', '.join(list(found)[:6])}{', ...' if len(found) > 6 else ''}."
            )
        else:
            state[text] = value
            missing.append(text)
    for text in missing:
        if text.startswith("ema/"):
            state[text] = state["var/" + text[len("ema/") :]]
    return state, sorted(missing)
