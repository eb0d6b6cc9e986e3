"""One TensorFlow process per interpreter: it is sent functions of test modules, and answers with arrays and JSON."""

import inspect
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from parity.trace import TensorFile, write_tensors
from parity.worker.process import SideProcess

SILENCE_SECONDS = 240.0


class TfChild:
    """Runs functions of tests under TensorFlow in a process of its own, which pays for its imports once.

    An exception there is a `SideFailed` here, with the exception's message.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": "1"}
        main = str(Path(__file__).with_name("tf_child_main.py"))
        self._side = SideProcess("tf", [python, "-u", main], environment, folder / "log", SILENCE_SECONDS)

    def __call__(self, program: Callable[..., Any], **inputs: Any) -> dict[str, Any]:
        """Runs `program` in the child with `inputs`, arrays or JSON values, and returns the dict that it returns."""
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        write_tensors(self._folder / "inputs", arrays)
        returned = self._side.ask(
            "call",
            file=inspect.getfile(program),
            sources=sources(program),
            name=program.__name__,
            plain={name: value for name, value in inputs.items() if name not in arrays},
            inputs=str(self._folder / "inputs"),
            outputs=str(self._folder / "outputs"),
        ).result()
        file = TensorFile(self._folder / "outputs")
        return {**returned, **{name: np.array(file.read(name)) for name in file.names()}}

    def close(self) -> None:
        """Ends the process."""
        self._side.close()


def sources(program: Callable[..., Any]) -> list[tuple[int, str]]:
    """Returns line and text of a function and of all functions of its module that it names."""
    found: dict[FunctionType, None] = {}
    pending = [program]
    while pending:
        function = pending.pop()
        if not isinstance(function, FunctionType) or function in found or function.__module__ != program.__module__:
            continue
        found[function] = None
        pending += [function.__globals__.get(name) for name in _names(function.__code__)]
    lines = [inspect.getsourcelines(function) for function in found]
    return sorted((line, textwrap.dedent("".join(text))) for text, line in lines)


def _names(code: Any) -> list[str]:
    inner = [constant for constant in code.co_consts if inspect.iscode(constant)]
    return [*code.co_names, *(name for part in inner for name in _names(part))]
