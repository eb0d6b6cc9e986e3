"""Writes a trace: what one side of a comparison did, step by step."""

import os
import platform
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

import numpy as np

from parity.trace.arrays import Array, Tensors, norm_of_difference
from parity.trace.errors import TraceError
from parity.trace.graph import GRAPH_FILE
from parity.trace.keys import ROW_INDICES, ROW_VALUES
from parity.trace.ownership import Ownership
from parity.trace.safetensors import Path, TensorFile, write_json, write_tensors

if TYPE_CHECKING:
    from parity.trace.reader import Trace

FORMAT = "tower-parity-trace"
FORMAT_VERSION = 1
TRACE_FILE = "trace.json"
SHADOW = "shadow"
SHADOW_FILE = "shadow.json"
FORWARD_FILE = "forward.json"
# Folders of the shadow. They are on disk in golden traces, so they keep their spelling while the symbols may change.
SHADOW_FREE = "free"  # a free run in float64, which starts from the first recorded state alone
SHADOW_SPREAD = "spread"  # how far one ulp of the first state carries in that run
# The steps at non-differentiable points from perturbed weights, with a `free` and a `spread` of their own in it.
SHADOW_TIES = "aside"
SHADOW_TIES_OF_INPUTS = "aside_with_inputs"  # the same with zeros of weights and inputs perturbed too
SHADOW_OTHER_ORDER = "other_order"  # steps of a script that races for a counter, the other way round
SHADOW_EMPTY = "empty"  # how far rounding moves updates by structurally zero gradients
SHADOW_FORWARD = "forward"  # the forward pass of the first tower, by optimizer and step


class TraceWriter(object):
    """Writes one trace directory; `close` marks it complete.

    The directory holds ``trace.json``, ``init.safetensors`` and ``step-000000.safetensors``, ... Every file appears by
    rename, and ``trace.json`` says ``complete: true`` only once everything else is in place, so a run that is killed
    half-way leaves a trace that says so.

    The trace belongs to the process that makes the writer, until it is closed: another that writes there is refused, and in
    a process that is forked from it all methods do nothing.

    Args:
      directory: made if missing; an older trace in it is removed first.
      producer: dict with the writing package's name and version and its framework's.
      facts: dict of everything that may differ between two runs on purpose (JSON values).
      variables: dict of variable name to dict with `shape` (list), `dtype`, `kind` ("weight", "statistic"), and
        whatever else is known of it: `placement`, `use`. Their order, in which the model was made, is kept.
      activations: names of the recorded activations in order of execution.

    Raises:
      TraceError: `directory` exists and is something other than a trace, or another process writes to it.
    """

    def __init__(
        self,
        directory: Path,
        producer: Mapping[str, Any],
        facts: Optional[Mapping[str, Any]] = None,
        variables: Optional[Mapping[str, Dict[str, Any]]] = None,
        activations: Iterable[str] = (),
    ) -> None:
        self.directory = str(directory)
        self._ownership = Ownership(directory)
        clear_trace(self.directory)
        self._steps: List[int] = []
        self._meta: Dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "producer": dict(producer, python=platform.python_version(), numpy=np.__version__),
            "facts": dict(facts or {}),
            "variables": dict(variables or {}),
            # JSON is written with sorted keys; the order in which a model was made is what names are guessed by.
            "variable_order": list(variables or {}),
            "activations": list(activations),
        }
        self._save(complete=False)  # first of all: a run that is killed from here on has left a trace that says so

    def init(self, tensors: Mapping[str, Any]) -> None:
        """Writes the state before the first step: dict of name to array."""
        if self._ownership.held:
            write_tensors(os.path.join(self.directory, "init.safetensors"), tensors)

    def step(self, number: int, tensors: Mapping[str, Any]) -> None:
        """Writes one step's quantities: dict of name to array; `number` counts from 0."""
        if not self._ownership.held:
            return
        write_tensors(os.path.join(self.directory, step_file(number)), tensors)
        self._steps.append(number)

    def take_step(self, number: int, path: Path) -> None:
        """Takes the file of a step out of another trace on the same disk, by rename: nothing is copied."""
        if not self._ownership.held:
            return
        os.replace(str(path), os.path.join(self.directory, step_file(number)))
        self._steps.append(number)

    def close(self, **facts: Any) -> None:
        """Marks the trace complete, adding `facts` that became known on the way."""
        self._meta["facts"].update(facts)
        self._save(complete=True)
        self._ownership.release()

    def add_facts(self, **facts: Any) -> None:
        """Adds `facts` to a trace that stays incomplete: what is known of a run that did not end well."""
        self._meta["facts"].update(facts)
        self._save(complete=False)

    def _save(self, complete: bool) -> None:
        if not self._ownership.held:
            return
        meta = dict(self._meta, steps=len(self._steps), step_numbers=self._steps, complete=complete)
        write_json(os.path.join(self.directory, TRACE_FILE), meta)


class RunWriter(object):
    """Leaves what is asked for of a run.

    Args:
      writer: of its trace.
      written: numbers of the steps whose tensors are written; None for all.
      measured_from: a trace of the same steps: written is the distance of each tensor from the one of this name there, a
        float64 number, and nothing of the tensor itself. Sparse gradients are written as they are, for their rows may come
        in any order.
      initial: whether the state before the first step is written.

    Attributes:
      initial: as given.
    """

    def __init__(
        self,
        writer: TraceWriter,
        written: Optional[Sequence[int]] = None,
        measured_from: "Optional[Trace]" = None,
        initial: bool = True,
    ) -> None:
        self._writer, self._written, self._from, self.initial = writer, written, measured_from, initial

    @classmethod
    def of(cls, writer: TraceWriter, arguments: Mapping[str, Any], opened: "Callable[[str], Trace]") -> "RunWriter":
        """Returns what leaves the part of a run that the arguments of its request ask for; `opened` reads a trace."""
        known = arguments.get("measured_from")
        initial = arguments.get("initial", True)
        return cls(writer, arguments.get("written"), opened(known) if known else None, initial)

    def init(self, tensors: Mapping[str, Any]) -> None:
        """Writes the state before the first step, where it is asked for: dict of trace name to array."""
        if not self.initial:
            self._writer.init({})
        else:
            self._writer.init(tensors if self._from is None else distances(tensors, self._from.init()))

    def step(self, number: int, tensors: Mapping[str, Any]) -> None:
        """Writes a step's quantities, where it is asked for: dict of trace name to array."""
        if self._written is None or number in self._written:
            self._writer.step(number, tensors if self._from is None else distances(tensors, self._from.step(number)))


def distances(tensors: Mapping[str, Any], reference: TensorFile) -> Tensors:
    """Returns the distance of each tensor from another of its name, in float64, infinite where the shapes differ.

    Args:
      tensors: dict of trace name to array; the rows of sparse gradients are returned as they are.
      reference: of the same names; what is not there is left out.
    """
    found = {}
    for name, value in tensors.items():
        if name.endswith((ROW_VALUES, ROW_INDICES)):
            found[name] = np.asarray(value)
        elif name in reference:
            found[name] = np.array(_distance(np.asarray(value), reference.read(name)), np.float64)
    return found


def _distance(one: Array, other: Array) -> float:
    return norm_of_difference(one, other) if one.shape == other.shape else float("inf")


def clear_trace(directory: str) -> None:
    """Makes a folder for a trace, and removes an older one in it.

    Raises:
      TraceError: there is something other than a trace.
    """
    if not os.path.isdir(directory):
        os.makedirs(directory)
        return
    # A mistyped --out may name a folder with somebody's work: only what a trace is made of is ever removed.
    if os.listdir(directory) and not _is_trace(directory):
        raise TraceError(
            f"trace: expected an empty folder or an older trace at {directory}, got other files. Name another folder."
        )
    _remove_files(directory)


# ".part" is what a writer left that was killed before its rename.
_FILE_OF_A_TRACE = re.compile(
    r"(?:{}|(?:init|step-[0-9]{{6,}})\.safetensors)(?:(?:\.[0-9a-f]{{32}})?\.part)?".format(
        "|".join(map(re.escape, (TRACE_FILE, GRAPH_FILE, SHADOW_FILE, FORWARD_FILE)))
    )
)


def _is_trace(directory: str) -> bool:
    path = os.path.join(directory, TRACE_FILE)
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return b'"%s"' % FORMAT.encode("ascii") in file.read()


def _remove_files(directory: str) -> None:
    """Removes the files of a trace and of its shadow, whose folders go where they are empty then."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and not os.path.islink(path):
            # A trace of a port has its passes beside it, without a shadow around them.
            if (name == SHADOW and _is_trace(path)) or name == SHADOW_FORWARD:
                _remove_shadow(path)
        elif _FILE_OF_A_TRACE.fullmatch(name):
            os.remove(path)


def _remove_shadow(directory: str) -> None:
    # From the bottom up, so that a folder is empty when it is looked at. Links are not followed.
    for folder, _, _ in os.walk(directory, topdown=False):
        _remove_files(folder)
        if not os.listdir(folder):
            os.rmdir(folder)


def step_file(number: int) -> str:
    """Returns the file name of a step: "step-000007.safetensors"."""
    return f"step-{number:06d}.safetensors"
