"""Finds where a script's graph comes from: lines, shapes, initial values, flags, collections, hyper-parameters."""

import math
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as real
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from parity.trace import UsersLines
from tf_towers.graph.update.optimizer import HYPER_PARAMETERS
from tf_towers.record.variables import Variables, hyper_parameters, learning_rate
from tf_towers.tf_types import Graph, Operation, Optimizer, Tensor

Frame = Tuple[str, int, str]  # path, line and function


def source_of(ops: Iterable[Operation]) -> Tuple[List[List[Any]], Dict[str, List[int]]]:
    """Returns ``(frames, callers)`` of ops, as in `RecordedGraph`.

    Args:
      ops: whose lines are looked up; those that were made outside of the script's own code are left out.
    """
    users = UsersLines(real, tf)
    frames: List[List[Any]] = []
    numbers: Dict[Frame, Optional[int]] = {}
    callers: Dict[str, List[int]] = {}
    for op in ops:
        stack = []
        for frame in _frames_of(op):
            if frame not in numbers:
                line = users.frame(*frame)
                numbers[frame] = None if line is None else len(frames)
                if line is not None:
                    frames.append(list(line))
            stack.append(numbers[frame])
        own = [number for number in stack if number is not None]
        if own:
            callers[op.name] = own
    return frames, callers


def _frames_of(op: Operation) -> Iterator[Frame]:
    """Yields the frames in which an op was made, outermost first.

    TensorFlow 1.15 keeps them as `_traceback` and reads the source of each frame anew where `traceback` is asked for, which
    takes six times as long.
    """
    for frame in getattr(op, "_traceback", None) or op.traceback or ():
        yield frame.filename, frame.lineno, frame.name


def shapes_of(ops: Iterable[Operation]) -> Dict[str, List[Optional[List[Optional[int]]]]]:
    """Returns dict of op name to the static shapes of its outputs, as in `RecordedGraph`."""
    return {
        op.name: [each.shape.as_list() if each.shape.ndims is not None else None for each in op.outputs]
        for op in ops
        if op.outputs
    }


def initial_values(variables: Variables) -> Dict[str, Tensor]:
    """Returns dict of trace name to the tensor that a variable's own initializer assigns."""
    found = {}
    for key, variable in variables.keys.items():
        op = getattr(variable, "initializer", None)
        # Assign of a reference and AssignVariableOp of a resource both take the value second.
        if op is not None and op.type.startswith("Assign") and len(op.inputs) > 1:
            found[key] = op.inputs[1]
    return found


def flags_of_script() -> Dict[str, Any]:
    """Returns dict of name to value of the flags of `tf.app.flags` or absl that modules of the script defined and parsed.

    Values that JSON has none for are left out.
    """
    module = sys.modules.get("absl.flags")
    if module is None or not module.FLAGS.is_parsed():
        return {}
    users = UsersLines(real, tf)
    found: Dict[str, Any] = {}
    # By module: TensorFlow and absl define dozens of flags of their own, which say nothing of the script.
    for name, flags in module.FLAGS.flags_by_module_dict().items():
        # The main module goes by the path of the script.
        path = getattr(sys.modules.get(name), "__file__", None) or name
        if name == sys.argv[0] or (path != name and users.is_users(path)):
            found.update((flag.name, flag.value) for flag in flags if _is_json(flag.value))
    return found


def _is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_json(each) and not isinstance(each, list) for each in value)
    # JSON has neither NaN nor infinity, and other readers than Python's refuse a file with them.
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))


COLLECTIONS = (
    tf.GraphKeys.LOSSES,
    tf.GraphKeys.REGULARIZATION_LOSSES,
    tf.GraphKeys.UPDATE_OPS,
    tf.GraphKeys.MOVING_AVERAGE_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
)


def collections_of(graph: Graph) -> Dict[str, List[str]]:
    """Returns dict of a collection's key to the names of its tensors and ops, of variables those of their ops."""
    found = {}
    for key in COLLECTIONS:
        # A variable's own name ends in ":0", its op's is what a trace calls it.
        named = [each.op if isinstance(each, real.Variable) else each for each in graph.get_collection(key)]
        found[key] = [each.name for each in named if isinstance(getattr(each, "name", None), str)]
    return found


def settings_of(optimizer: Optimizer) -> Dict[str, Any]:
    """Returns dict of hyper-parameter to number, or to the tensor that gives it where that is no constant."""
    found = {
        name: value
        for name, value in hyper_parameters(optimizer).items()
        if isinstance(value, (bool, float)) and math.isfinite(value)
    }
    held = {name: getattr(optimizer, attribute, None) for attribute, name in HYPER_PARAMETERS.items()}
    tensors = {name: value for name, value in held.items() if tf.is_tensor(value)}
    for name, value in dict(tensors, learning_rate=learning_rate(optimizer)).items():
        if name not in found and value is not None and not isinstance(value, real.Variable):
            constant = tensor_util.constant_value(value)
            found[name] = float(constant) if constant is not None and np.size(constant) == 1 else value
    return found
