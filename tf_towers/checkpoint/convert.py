"""Turns a checkpoint into an initial state, and a step of a trace into a checkpoint."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from parity.trace import TensorKey, is_computed, parse_key, role_of
from parity.trace.arrays import Tensors
from parity.trace.safetensors import Path
from tf_towers.checkpoint.read import read_checkpoint
from tf_towers.errors import CheckpointError

# Starts a training from a checkpoint.


def start_from_checkpoint(
    path: Path, fresh: Mapping[str, Any], variables: Mapping[str, Dict[str, Any]]
) -> Tuple[Tensors, List[str]]:
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
        if is_computed(text) or key.name.startswith("local/"):
            state[text] = value
            continue
        name = saved_as(key, variables)
        # Of dtype object are strings: a variable of that name which is no number is another one.
        if name in found and found[name].shape == np.shape(value) and found[name].dtype != object:
            # In the graph's dtype: checkpoints hold float32, a float64 run starts from the same numbers.
            state[text] = np.asarray(found[name], np.asarray(value).dtype)
        # A slot that is there in another shape is of another model too: taken for missing it would start anew without a
        # word.
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
        key = parse_key(text)
        if key.quantity == "ema":
            # After the loop, for the weight may come behind its average in it.
            state[text] = state[str(key.of("var"))]
    return state, sorted(missing)


# Turns the state in a trace into what a checkpoint holds.


class Content(NamedTuple):
    """What a checkpoint is to hold.

    Fields:
      arrays: dict of variable name to array.
      left_out: trace names whose variables have no name that the trace tells, sorted.
    """

    arrays: Tensors
    left_out: List[str]


def checkpoint_of(
    state: Mapping[str, Any], variables: Mapping[str, Dict[str, Any]], dtype: Optional[str] = None
) -> Content:
    """Returns the `Content` of a checkpoint with a state, under the names that the graph of the trace gave its variables.

    Args:
      state: dict of trace name, e.g. "slot/m/conv1/kernel", to array, as `parity.trace.state_after` returns it.
      variables: the trace's description of its variables, as `describe_variables` made it: `dtype`, and `saved_as` for
        slots and averages. Arrays get the dtype of their variable.
      dtype: of everything that trains and of what belongs to it, instead, e.g. "float32".

    Raises:
      CheckpointError: the trace does not describe a weight that is in the state, or two names are one.
    """
    arrays: Tensors = {}
    left_out: List[str] = []
    for text, value in state.items():
        key = parse_key(text)
        if is_computed(text) or key.name.startswith("local/"):
            continue  # tensors, and local variables, which no Saver takes
        name = saved_as(key, variables)
        if name is None:
            left_out.append(text)
            continue
        described = key.quantity != "state" and (dtype or variables[key.name]["dtype"])
        array = np.asarray(value, described) if described else np.asarray(value)
        if name in arrays and not np.array_equal(arrays[name], array):
            raise CheckpointError(
                f"checkpoint: expected one array for {name}, got another for {text}. Record it again."
            )
        arrays[name] = array
    return Content(arrays, sorted(left_out))


def saved_as(key: TensorKey, variables: Mapping[str, Dict[str, Any]]) -> Optional[str]:
    """Returns the name that a checkpoint gives to what a trace calls `key`, or None where the trace does not tell.

    Args:
      key: a `TensorKey`.
      variables: see `checkpoint_of`.

    Raises:
      CheckpointError: the trace does not describe the variable.
    """
    if key.quantity == "state":
        hanging = [described.get("saved_as", {}).get(str(key)) for described in variables.values()]
        # Of a further optimizer the counters' own names, beta1_power_1, are told by the variables that it trains.
        return next(filter(None, hanging), None) if key.section else key.name
    described = variables.get(key.name)
    if described is None:
        raise CheckpointError(
            f"checkpoint: expected the trace to describe the variable {key.name}, got "
            f"{', '.join(sorted(variables)) or 'no variable'}. Use a trace in the names of the TensorFlow graph."
        )
    if key.quantity in ("var", "stat"):
        return key.name
    return described.get("saved_as", {}).get(role_of(key))
