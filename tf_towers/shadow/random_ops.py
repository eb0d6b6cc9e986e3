"""Puts recorded draws in the place of random ops inside loops and branches."""

from typing import Any, Dict, List, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import script_ops

from parity.trace import quantity_of
from parity.trace.arrays import Array, Tensors
from tf_towers.float64.errors import refuse
from tf_towers.float64.graph_def import by_name, op_def, op_of
from tf_towers.tf_types import DType, GraphDef, NodeDef

# Relative distance of float32 from float64 beyond which the draws are others. Rounding moves a loss by 2e-7, gradients
# by 6e-6 and at a depth of 40 layers by 2.5e-2, where the loss stays as near: so both have to be off.
OTHER_DRAWS = 2.0**-10


class Drawn:
    """What one random op gives in a step: one recorded draw each time it runs, in order.

    Args:
      key: trace name of the draws.
      dtype: numpy's, of what is given.
      asks_for_shape: whether the op is given the shape of its draw; else it is given what to shuffle or to choose from.
    """

    def __init__(self, key: str, dtype: Any, asks_for_shape: bool) -> None:
        self.key = key
        self.complaint = ""
        self._dtype = dtype
        self._asks_for_shape = asks_for_shape
        self._left: List[Array] = []

    def __call__(self, given: Array) -> Array:
        """Returns the next draw; `given` is the first input of the op, in most the shape that the graph asks for."""
        if not self._left:
            self.complaint = f"expected as many draws of {self.key} as were recorded, got one more requested"
            raise ValueError(self.complaint)
        if self._asks_for_shape and tuple(given) != self._left[0].shape:
            asked, drawn = tuple(int(size) for size in given), self._left[0].shape
            self.complaint = f"expected draws of {self.key} of shape {asked}, got {drawn} recorded"
            raise ValueError(self.complaint)
        return self._left.pop(0)

    def fill(self, values: Tensors) -> None:
        """Takes the draws of a step out of its recorded values, `[times, …]` under its key."""
        # (times, ...) as stacked in the order of the iterations: one array for each time the op runs
        self._left = list(np.asarray(values[self.key]).astype(self._dtype)) if self.key in values else []
        self.complaint = ""

    def check(self) -> None:
        """Refuses draws that were not asked for."""
        if self._left:
            refuse(f"expected every recorded draw of {self.key} to be requested, got {len(self._left)} that were not")


def check_draws(number: int, recorded: Tensors, computed: Tensors) -> None:
    """Refuses draws that do not give the losses and gradients that were recorded with them.

    In the wrong order, or with one of them missing, they would give others. What float32 rounds is far below the limit; a
    loss near zero may not be, so that the gradients have to be off as well.

    Args:
      number: of the step.
      recorded: dict of trace name to array, of the script's own step.
      computed: the same of the shadow's.
    """
    losses = [key for key in recorded if quantity_of(key) == "loss" and key in computed]
    gradients = [key for key in recorded if quantity_of(key) == "tower_grad" and key in computed]
    if _apart(losses, recorded, computed) > OTHER_DRAWS and _apart(gradients, recorded, computed) > OTHER_DRAWS:
        refuse(
            "expected the draws recorded inside loops to give the recorded losses and gradients, got others in step "
            f"{number}: loss {float(np.ravel(computed[losses[0]])[0]):.6g} where the script had "
            f"{float(np.ravel(recorded[losses[0]])[0]):.6g}"
        )


def _apart(keys: Sequence[str], recorded: Tensors, computed: Tensors) -> float:
    distance = sum(np.sum((np.asarray(recorded[key], np.float64) - computed[key]) ** 2) for key in keys)
    size = sum(np.sum(np.asarray(computed[key], np.float64) ** 2) for key in keys)
    return float(np.sqrt(distance / size)) if size else float(distance > 0)


def is_drawn_inside(described: Mapping[str, Any]) -> bool:
    """Tells whether a recorded value, as `RecordedGraph.runs` describes it, is of a random op inside a loop or a branch."""
    return "loop" in described


def replace_draws(definition: GraphDef, values: Mapping[str, Dict[str, Any]]) -> List[Drawn]:
    """Lets Python give the recorded draws wherever a random op inside a loop or a branch would draw, in place.

    Loops run one iteration at a time, as they did when they were recorded.

    Args:
      definition: a GraphDef, in float32 still.
      values: of a run of a `RecordedGraph`.

    Returns:
      List of `Drawn`; it has to live as long as the graph.
    """
    nodes, replaced = by_name(definition), {}
    for key, described in sorted(values.items()):
        name = op_of(described["tensor"])
        if is_drawn_inside(described) and name not in replaced:
            replaced[name] = _replace(nodes[name], key, tf.as_dtype(described["dtype"]))
    for node in definition.node if replaced else ():
        if "parallel_iterations" in node.attr:
            node.attr["parallel_iterations"].i = 1
    return list(replaced.values())


def _replace(node: NodeDef, key: str, dtype: DType) -> Drawn:
    # One input stays: it puts the op into its loop's frame, and takes it out of a branch that is not taken.
    # Of a PyFunc every input is an argument: the bounds of RandomUniformInt would be too.
    del node.input[1:]
    first = op_def(node.op).input_arg[0]
    # Its dtype is T of most ops, but T of RandomGamma is that of alpha.
    asked = node.attr[first.type_attr].type
    drawn = Drawn(key, np.float64 if dtype.is_floating else dtype.as_numpy_dtype, first.name == "shape")
    node.op = "PyFunc"
    node.attr.clear()
    node.attr["token"].s = script_ops._py_funcs.insert(drawn).encode("utf-8")
    node.attr["Tin"].list.type.append(asked)
    node.attr["Tout"].list.type.append(dtype.as_datatype_enum)
    return drawn
