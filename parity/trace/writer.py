"""Writes a trace: what one side of a comparison did, step by step."""

import os
import platform
import shutil
from typing import Any, Dict, Iterable, List, Mapping, Optional

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.graph import GRAPH_FILE
from parity.trace.safetensors import Path, write_json, write_tensors

FORMAT = "tower-parity-trace"
FORMAT_VERSION = 1
SHADOW = "shadow"
SHADOW_FILE = "shadow.json"
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

    Args:
      directory: made if missing; an older trace in it is removed first.
      producer: dict with the writing package's name and version and its framework's.
      facts: dict of everything that may differ between two runs on purpose (JSON values).
      variables: dict of variable name to dict with `shape` (list), `dtype`, `kind` ("weight", "statistic"), and
        whatever else is known of it: `placement`, `use`. Their order, in which the model was made, is kept.
      activations: names of the recorded activations in order of execution.

    Raises:
      TraceError: `directory` exists and is something other than a trace.
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
        self._clear()
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
        write_tensors(os.path.join(self.directory, "init.safetensors"), tensors)

    def step(self, number: int, tensors: Mapping[str, Any]) -> None:
        """Writes one step's quantities: dict of name to array; `number` counts from 0."""
        write_tensors(os.path.join(self.directory, step_file(number)), tensors)
        self._steps.append(number)

    def close(self, **facts: Any) -> None:
        """Marks the trace complete, adding `facts` that became known on the way."""
        self._meta["facts"].update(facts)
        self._save(complete=True)

    def _save(self, complete: bool) -> None:
        meta = dict(self._meta, steps=len(self._steps), step_numbers=self._steps, complete=complete)
        write_json(os.path.join(self.directory, "trace.json"), meta)

    def _clear(self) -> None:
        if not os.path.isdir(self.directory):
            os.makedirs(self.directory)
            return
        content = os.listdir(self.directory)
        # A mistyped --out may name a folder with somebody's work: only what a trace is made of is ever removed.
        if content and "trace.json" not in content:
            raise TraceError(
                f"trace: expected an empty folder or an older trace at {self.directory}, "
                "got other files. Name another folder."
            )
        for name in content:
            path = os.path.join(self.directory, name)
            # ".part" is what a writer left that was killed before its rename.
            if name in ("trace.json", GRAPH_FILE, SHADOW_FILE) or name.endswith((".safetensors", ".part")):
                os.remove(path)
            elif os.path.isdir(path) and (not os.listdir(path) or _is_shadow(name, path)):
                shutil.rmtree(path)


def _is_shadow(name: str, path: str) -> bool:
    return name == SHADOW and os.path.isfile(os.path.join(path, "trace.json"))


def step_file(number: int) -> str:
    """Returns the file name of a step: "step-000007.safetensors"."""
    return f"step-{number:06d}.safetensors"
