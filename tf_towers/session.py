"""Opens sessions that repeat bit for bit, and chooses the state that training starts from."""

import zlib
from typing import Any, Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from parity.trace import parse_key
from parity.trace.arrays import Array, Tensors
from tf_towers.tf_types import Graph, Session

# Of which a root is taken; mg, whose square is subtracted below that root, stays small.
NON_NEGATIVE_SLOTS = frozenset(["v", "rms", "ms", "mg", "accumulator", "accum", "accum_update", "vhat"])


def perturbed(state: Mapping[str, Any], seed: int, slots_by_name: bool = True) -> Tensors:
    """Moves an initial state away from the values that hide bugs.

    Zero biases, unit gammas, fresh statistics and empty slots make swaps and omissions invisible, so weights and
    statistics get noise of a tenth of their size and slots start as if some steps had been made.

    Args:
      state: dict of trace name (``var/…``, ``stat/…``, ``slot/…``, ``state/…``) to array.
      seed: int; the noise of a variable depends on it and on the variable's name, on nothing else.
      slots_by_name: whether a slot's name says that it is never below 0, as in TensorFlow's own optimizers. In a script's
        own an "m" may be a norm that is divided by: none starts below 0 there.

    Returns:
      A new dict, floats rounded to float32 so that every precision can start from exactly the same place. Counters
      (``state/…``) are left as they are.
    """
    return {name: _perturbed(name, np.asarray(value), seed, slots_by_name) for name, value in state.items()}


def _perturbed(name: str, value: Array, seed: int, slots_by_name: bool) -> Array:
    key = parse_key(name)
    quantity = key.quantity
    if quantity == "state" or value.dtype.kind != "f":
        return value
    # Knuth's multiplicative hash spreads seeds 0, 1, 2, ... over the 32 bits before the name's are added.
    random = np.random.RandomState((seed * 2654435761 + zlib.crc32(name.encode("utf-8"))) % 2**32)
    noise = random.standard_normal(value.shape)
    if quantity == "slot":
        # At least 1e-4: a root of something near zero would make the first update huge.
        signed = slots_by_name and key.slot not in NON_NEGATIVE_SLOTS
        moved: Any = 0.01 * noise if signed else (0.01 * (1 + np.abs(noise))) ** 2
    elif quantity == "stat" and np.all(value > 0):
        # Log-normal, so that variances stay positive: within a factor of 1.5 for two standard deviations.
        moved = value * np.exp(0.2 * noise)
    else:
        # Root mean square of the variable, and 1 for one that is all zeros, as biases are.
        scale = np.sqrt(np.mean(np.square(value, dtype=np.float64))) if value.size else 0.0
        moved = value + 0.1 * (scale or 1.0) * noise
    return moved.astype(np.float32).astype(value.dtype)


# Makes sessions whose arithmetic can be repeated.


def session(graph: Graph, towers: int, threads: int = 1) -> Session:
    """Makes a session with a virtual CPU for the variables and one for each tower.

    Args:
      graph: the graph to run.
      towers: number of towers.
      threads: of each of TensorFlow's two pools; 1 makes runs repeatable and is recorded as a fact.
    """
    config = tf.ConfigProto(
        device_count={"CPU": towers + 1},
        inter_op_parallelism_threads=threads,
        intra_op_parallelism_threads=threads,
        allow_soft_placement=True,
    )
    return tf.Session(graph=graph, config=config)
