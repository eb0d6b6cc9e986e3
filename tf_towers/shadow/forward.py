"""Leaves the forward pass of a recorded script's first tower beside its shadow, op by op, so that layers can be compared."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Tuple

import tensorflow.compat.v1 as tf

from parity.trace import parse_key, write_forward
from parity.trace.arrays import Tensors

if TYPE_CHECKING:
    from tf_towers.shadow.program import Program


# 64 MiB for each step that is kept, two for each optimizer; write_forward keeps ops that read weights first.
BYTES_OF_A_STEP = 1 << 26


def write_passes(folder: str, steps: "Iterable[Tuple[int, Tensors, Tensors, Program]]") -> str:
    """Keeps the pass of the first tower in the first and in the last step of every optimizer, in float64.

    Args:
      folder: to make; in it a folder for every optimizer, "main" where there is one only, and in that one for every step.
      steps: yields number, state before the step, recorded values and `Program` of each.

    Returns:
      Why it could not be done, or "".
    """
    first: Dict[str, Any] = {}
    last: Dict[str, Any] = {}
    for number, state, now, program in steps:
        for section, losses in _losses(now).items():
            last[section] = (number, state, now, program, losses)
            # State and values of a step are held until all steps are through: of two steps for each optimizer, no more.
            first.setdefault(section, last[section])
    try:
        for section, one in list(first.items()) + [pair for pair in last.items() if pair[1] is not first[pair[0]]]:
            number, state, now, program, losses = one
            into = os.path.join(folder, section or "main", str(number))
            write_forward(into, number, "0", program.forward(state, now, losses), BYTES_OF_A_STEP)
    except tf.errors.OpError as error:  # e.g. an op that runs in one branch only
        return str(error).splitlines()[0]
    return ""


def _losses(values: Iterable[str]) -> Dict[str, List[str]]:
    """Returns dict of optimizer to the trace names of the first tower's losses."""
    found: Dict[str, List[str]] = {}
    for text in values:
        key = parse_key(text)
        if key.quantity == "loss" and key.tower == "0":
            found.setdefault(key.section, []).append(text)
    return found
