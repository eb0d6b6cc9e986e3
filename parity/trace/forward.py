"""Keeps the forward pass of one tower as data: which op comes of which, which weights it reads, and what it gives."""

import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from parity.trace.bounded import read_json
from parity.trace.description import fault_of_pass
from parity.trace.errors import MissingError, TraceError
from parity.trace.keys import trace_name
from parity.trace.reader import Trace
from parity.trace.safetensors import Path, write_json
from parity.trace.source_line import SourceLine, line_of
from parity.trace.writer import FORWARD_FILE, TraceWriter

FORWARD_FORMAT = "tower-parity-forward"
FORWARD_VERSION = 1
OF_A_PASS = (FORWARD_FORMAT, FORWARD_VERSION)
ADDED = ("lines", "operands", "laid_out")  # to the first version: of each op, in lists of their own
MOST_BYTES = (
    1 << 30
)  # of one pass: what is beyond is listed without its numbers, and a search is reports that they are unknown
LOSS = "loss"  # attribute of the op that gives what is propagated back


class LaidOut(NamedTuple):
    """The last function that put numbers elsewhere, between an op that gives them and one that takes them.

    Fields:
      kind: name of the function, e.g. "permute".
      name: path of the module that calls it.
      line: of the user's source that calls it, None where it is not known.
    """

    kind: str
    name: str
    line: Optional[SourceLine]


class Operand(NamedTuple):
    """A tensor that an op takes.

    Fields:
      place: of the argument: its number, from 0, or its name; of a list "0.1", the second of the first argument.
      name: of the variable, input or constant that it is, "" where it is none or that is not known.
      op: number of the op whose output it is, but for its layout; None where it is of no op of data.
      shape: as the op takes it.
      value: the array, None where it is the output of `op` in this shape, or not known; of a pass that was read the number
        under which it is kept.
      laid_out: how it was laid out anew before the op took it, None where it was not, or that is not known.
    """

    place: str
    name: str
    op: Optional[int]
    shape: List[int]
    value: Optional[Any] = None
    laid_out: Optional[LaidOut] = None


# Fields that came later are lists of their own in the file: who reads the first version takes each op's six, and its
# operands' five, by place.
OPERAND = Operand._fields.index("laid_out")


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
      operands: what it takes, in order, weights and constants too; empty where that was not kept.
    """

    name: str
    kind: str
    inputs: List[int]
    weights: List[str]
    shape: List[int]
    attributes: Dict[str, Any]
    line: Optional[SourceLine] = None
    operands: Tuple[Operand, ...] = ()


LINE_FIELD = ForwardOp._fields.index("line")


class Forward(object):
    """A forward pass as it was kept.

    Args:
      directory: as `write_forward` leaves it.

    Attributes:
      step, tower: whose it is.
      ops: list of `ForwardOp`, in an order of execution.

    Raises:
      MissingError: there is none.
      TraceError: it is of another format.
    """

    def __init__(self, directory: Path) -> None:
        found = _described(os.path.join(str(directory), FORWARD_FILE))
        self.step = int(found["step"])
        self.tower = str(found["tower"])
        self.ops = [
            ForwardOp(*op)._replace(line=line_of(line), operands=_operands(taken, laid_out))
            for op, line, taken, laid_out in zip(found["ops"], *(found[name] for name in ADDED))
        ]
        self._file = Trace(directory).step(self.step)
        self._known = set(self._file.names())

    def value(self, number: int) -> Optional[Any]:
        """Returns the output of an op as an array, None where it was not kept."""
        name = _key(self.tower, number)
        return self._file.read(name) if name in self._known else None

    def operand(self, number: int, place: int) -> Optional[Any]:
        """Returns what an op takes as an array, None where that is not known.

        Args:
          number: of the op.
          place: of the operand among those of the op, from 0.
        """
        operand = self.ops[number].operands[place]
        if operand.value is not None:
            name = _operand_key(self.tower, operand.value)
            return self._file.read(name) if name in self._known else None
        return reshaped(self.value(operand.op) if operand.op is not None else None, operand.shape)


def _described(path: str) -> Dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        text = f"forward: expected JSON in {path}, got {error}. Record the pass again."
        raise (MissingError if missing else TraceError)(text) from error
    if not isinstance(found, dict) or (found.get("format"), found.get("format_version")) != OF_A_PASS:
        raise TraceError(f"forward: expected the format {FORWARD_FORMAT!r} {FORWARD_VERSION} in {path}, got another.")
    ops = found.get("ops")
    if not isinstance(ops, list) or not {"step", "tower"} <= set(found):
        raise TraceError(f"forward: expected a step, a tower and ops in {path}. Record the pass again.")
    for name in ADDED:
        found[name] = found.get(name) or [None] * len(ops)  # none in what an earlier version wrote
        if not isinstance(found[name], list) or len(found[name]) != len(ops):
            count = len(found[name]) if isinstance(found[name], list) else "no list"
            raise TraceError(f"forward: expected {len(ops)} {name} in {path}, got {count}. Record it again.")
    fault = fault_of_pass(found)
    if fault:
        raise TraceError(f"forward: expected {fault} in {path}, got something else. Record it again.")
    return found


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
    for wanted in (True, False):  # layers first: without their outputs no search can say which one differs
        for number, (op, value) in enumerate(listed):
            if value is not None and bool(op.weights) == wanted and value.nbytes <= most:
                kept[number] = value
                most -= value.nbytes
    taken, operands = _kept_operands([op for op, _ in listed], most)
    writer = TraceWriter(directory, {"package": "parity"})
    writer.init({})
    named = _named(tower, kept)
    named.update((_operand_key(tower, number), value) for number, value in enumerate(taken))
    writer.step(step, named)
    writer.close()
    described = {"format": FORWARD_FORMAT, "format_version": FORWARD_VERSION, "step": step, "tower": tower}
    ops = [list(op[:LINE_FIELD]) for op, _ in listed]
    lines = [op.line for op, _ in listed]
    laid_out = [[operand.laid_out for operand in op.operands] for op, _ in listed]
    added = {"lines": lines, "operands": operands, "laid_out": laid_out}
    # Last of all, and by rename: where this file is, the arrays are.
    write_json(os.path.join(str(directory), FORWARD_FILE), dict(described, ops=ops, **added))


def _named(tower: str, values: Mapping[int, Any]) -> Dict[str, Any]:
    return {_key(tower, number): np.asarray(values[number]) for number in sorted(values)}


def reshaped(value: Optional[Any], shape: Sequence[int]) -> Optional[Any]:
    """Returns an array in another shape, None where there is none or it is of another size."""
    return value.reshape(shape) if value is not None and value.size == np.prod(shape) else None


def _operands(taken: Optional[Sequence[Any]], laid_out: Optional[Sequence[Any]]) -> Tuple[Operand, ...]:
    taken = taken or []
    return tuple(
        Operand(*each)._replace(laid_out=_laid_out(how)) for each, how in zip(taken, laid_out or [None] * len(taken))
    )


def _laid_out(known: Optional[Sequence[Any]]) -> Optional[LaidOut]:
    return LaidOut(str(known[0]), str(known[1]), line_of(known[2])) if known else None


def _kept_operands(ops: Sequence[ForwardOp], most: int) -> Tuple[List[Any], List[List[List[Any]]]]:
    """Returns the arrays to keep, each once, and by op its operands with the numbers of these."""
    arrays: List[Any] = []
    numbers: Dict[int, int] = {}
    described = []
    for op in ops:
        found = []
        for operand in op.operands:
            array = operand.value
            # By identity: a weight that many ops take is one array, and all of them are alive as long as `ops` is.
            if array is not None and id(array) not in numbers and array.nbytes <= most:
                numbers[id(array)] = len(arrays)
                arrays.append(array)
                most -= array.nbytes
            # Where there is no room for it nothing is known: it is not the output of the op in another shape.
            known = numbers.get(id(array)) if array is not None else None
            whose = operand.op if array is None or known is not None else None
            found.append(list(operand._replace(value=known, op=whose)[:OPERAND]))
        described.append(found)
    return arrays, described


def _operand_key(tower: str, number: int) -> str:
    return trace_name("act", f"operand-{number}", tower=tower)


def _key(tower: str, number: int) -> str:
    return trace_name("act", str(number), tower=tower)
