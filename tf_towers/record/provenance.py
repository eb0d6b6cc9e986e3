"""Finds where a script's graph comes from: the lines that made its ops, and what the graph knows of their shapes."""

from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import tensorflow as real
import tensorflow.compat.v1 as tf

from parity.trace import UsersLines
from tf_towers.tf_types import Operation

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
