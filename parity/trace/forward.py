"""Keeps the forward pass of one tower as data: which op comes of which, which weights it reads, and what it gives."""

import json
import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.reader import Trace
from parity.trace.source_line import SourceLine
from parity.trace.tensors import Path, write_json
from parity.trace.writer import TraceWriter

FORWARD_FORMAT = "tower-parity-forward"
FORWARD_VERSION = 1
FORWARD_FILE = "forward.json"
MOST_BYTES = 1 << 30


class ForwardOp(NamedTuple):
    """One op of a forward pass.

    Fields:
      name: of the op in its graph, or the path of the module that calls it.
      kind: of the op, e.g. "Conv2D", or the function's name, e.g. "conv2d".
      inputs: numbers of the earlier ops of this list whose output it takes; of data only.
      weights: sorted names of the variables that it reads, also through what is computed of variables alone.
      shape: of its output.
      attributes: of the op, JSON values: strides, padding, epsilon.
      line: of the user's source that it comes of, None where it is not known.
    """

    name: str
    kind: str
    inputs: List[int]
    weights: List[str]
    shape: List[int]
    attributes: Dict[str, Any]
    line: Optional[SourceLine] = None


LINE = ForwardOp._fields.index("line")  # kept beside the rest: who reads the first version knows six fields


class Forward(object):
    """A forward pass as it was kept.

    Args:
      directory: as `write_forward` leaves it.

    Attributes:
      step, tower: whose it is.
      ops: list of `ForwardOp`, in an order of execution.

    Raises:
      TraceError: there is none, or it is of another format.
    """

    def __init__(self, directory: Path) -> None:
        path = os.path.join(str(directory), FORWARD_FILE)
        try:
            with open(path, "rb") as file:
                found = json.loads(file.read().decode("utf-8"))
        except (OSError, ValueError) as error:
            raise TraceError(f"forward: expected JSON in {path}, got {error}. Record the pass again.") from error
        if (found.get("format"), found.get("format_version")) != (FORWARD_FORMAT, FORWARD_VERSION):
            raise TraceError(
                f"forward: expected the format {FORWARD_FORMAT!r} {FORWARD_VERSION} in {path}, got another."
            )
        self.step = int(found["step"])
        self.tower = str(found["tower"])
        lines = found.get("lines") or [None] * len(found["ops"])  # none in what an earlier version wrote
        self.ops = [
            ForwardOp(*each)._replace(line=SourceLine(*line) if line else None)
            for each, line in zip(found["ops"], lines)
        ]
        self._file = Trace(directory).step(self.step)
        self._known = set(self._file.names())

    def value(self, number: int) -> Optional[Any]:
        """Returns the output of an op as an array, None where it was not kept."""
        name = _key(self.tower, number)
        return self._file.read(name) if name in self._known else None


def write_forward(
    directory: Path, step: int, tower: str, passed: Iterable[Tuple[ForwardOp, Optional[Any]]], most: int = MOST_BYTES
) -> None:
    """Keeps a forward pass.

    Args:
      directory: folder to make.
      step: its number.
      tower: its name.
      passed: of each op, in an order of execution, what it is and its output, an array, or None where it is not known.
      most: bytes of outputs to keep. What would exceed them is left out, of ops without weights first.
    """
    listed = list(passed)
    kept: Dict[int, Any] = {}
    for wanted in (True, False):
        for number, (op, value) in enumerate(listed):
            if value is not None and bool(op.weights) == wanted and value.nbytes <= most:
                kept[number] = value
                most -= value.nbytes
    writer = TraceWriter(directory, {"package": "parity"})
    writer.init({})
    writer.step(step, _named(tower, kept))
    writer.close()
    described = {"format": FORWARD_FORMAT, "format_version": FORWARD_VERSION, "step": step, "tower": tower}
    ops = [list(op[:LINE]) for op, _ in listed]
    lines = [op.line for op, _ in listed]
    write_json(os.path.join(str(directory), FORWARD_FILE), dict(described, ops=ops, lines=lines))


def _named(tower: str, values: Mapping[int, Any]) -> Dict[str, Any]:
    return {_key(tower, number): np.asarray(values[number]) for number in sorted(values)}


def _key(tower: str, number: int) -> str:
    return f"act/{tower}/{number}"
