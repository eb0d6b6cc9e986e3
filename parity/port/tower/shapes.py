"""The shapes of the outputs of a recorded graph's ops."""

import contextlib
import os
from collections.abc import Sequence

from parity.port.tower.frames import Frames
from parity.port.tower.infer import is_known
from parity.port.tower.ops import UNKNOWN
from parity.trace import SHADOW, SHADOW_FORWARD, Forward, MissingError, RecordedGraph, Trace

Shapes = dict[str, Sequence[tuple[int, ...]]]


def shapes_of(trace: Trace, graph: RecordedGraph) -> Shapes:
    """Returns by name of op the shapes of its outputs in the recorded steps, as far as they are known."""
    found: Shapes = {}
    # In a loop nothing is kept, and what is not of a known rank looks like a number.
    frames = Frames({node["name"]: node for node in graph.nodes})
    inside = {name for frame in frames.by_name.values() for name in frame.members}
    folder = os.path.join(trace.directory, SHADOW, SHADOW_FORWARD)
    for passed in _passes(folder):
        for op in (op for op in passed.ops if op.name not in inside):
            found.setdefault(op.name, [tuple(op.shape)])
    for name, outputs in graph.shapes.items():
        known = [tuple(UNKNOWN if each is None else each for each in shape or ()) for shape in outputs]
        # What the graph itself is certain of wins over one recorded step; an output that is no number was never
        # recorded.
        certain = all(shape is not None and is_known(shape) for shape in outputs)  # of whole numbers no values are kept
        if name not in found or len(known) > 1 or certain:
            found[name] = [tuple(shape) for shape in known]
    return found


def _passes(folder: str) -> list[Forward]:
    found = []
    for root, _, files in sorted(os.walk(folder)):
        if "forward.json" in files:
            # One that is there and refused ends the port with what is wrong: shapes are not guessed in its place.
            with contextlib.suppress(MissingError):
                found.append(Forward(root))
    return found
