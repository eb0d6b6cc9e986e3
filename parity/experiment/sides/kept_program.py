"""A program that was recorded like a trace, as one side: answers out of what its launches have left; nothing is started."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from parity.experiment.sides.program_answers import TORCH_SIDE, Recorded, prepared_as
from parity.trace import TraceError, check_folder, read_json
from parity.trace.description import are_names, fault_of_answer
from parity.worker.failures import SideFailed

DESCRIPTION_FILE = "described.json"  # what a program trains, in the folder of its runs


def read_described(kept: Path) -> dict[str, Any]:
    """Returns what the program of a folder of runs trains, as `record_like` has described it.

    Raises:
      TraceError: the file is none of that kind.
    """
    path = kept / DESCRIPTION_FILE
    try:
        found = read_json(str(path))
    except (OSError, ValueError) as error:
        raise TraceError(f"trace: expected JSON in {path}, got {error}. Record the program again.") from error
    fault = _fault_of(found)
    if fault:
        raise TraceError(
            f"trace: expected {fault} in {path}, as it is recorded, got another. Record the program again."
        )
    return {**found, "variables": dict(found["variables"])}


def _fault_of(found: Any) -> str:
    if not isinstance(found, dict):
        return "an object"
    for name, is_right in PARTS_OF_DESCRIBED.items():
        if not is_right(found.get(name)):
            return repr(name)
    values = {**found["initial_slots"], **found["own_values"]}
    return fault_of_answer({"facts": found["facts"], "variables": dict(found["variables"])}, values)


def _are_pairs(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list)
        and all(isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in value)
    )


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


PARTS_OF_DESCRIBED: dict[str, Callable[[Any], bool]] = {
    "facts": _is_dict,
    # As pairs they keep the order in which the model has them.
    "variables": _are_pairs,
    "sections": _is_dict,
    "slots": are_names,
    "initial_slots": _is_dict,
    "own_values": _is_dict,
    "notes": are_names,
    "reference": lambda value: isinstance(value, str),
}


class KeptProgram:
    """Answers requests as `LaunchedProgram` did when the same were made of it.

    Args:
      kept: the folder in which its runs were left.
      recorded: what it was trained on.
      out: the folder in which runs are wanted now.
    """

    def __init__(self, kept: Path, recorded: Recorded, out: Path) -> None:
        self._kept, self._recorded, self._out = kept, recorded, out
        # Before anything of it is copied: a link or a pipe among the runs would have no end.
        check_folder(kept)
        self._described = read_described(kept)

    @property
    def notes(self) -> list[str]:
        """What a report is to say of how the recording was given to the program."""
        return list(self._described["notes"])

    def ask(
        self, request: str, on_progress: Callable[[int, int], None] | None = None, **arguments: Any
    ) -> "Future[Any]":
        """Answers a request; the future raises `SideFailed` where that was not made when the program was recorded."""
        # Done before it is returned: who asks a side waits for a future, and this one has nothing to wait for.
        answer: Future[Any] = Future()
        try:
            answer.set_result(
                prepared_as(self._described, self._recorded, arguments)
                if request == "prepare"
                else self._copy(arguments)
            )
        except SideFailed as error:
            answer.set_exception(error)
        return answer

    def _copy(self, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = Path(arguments["out"])
        # A run is known by its place below the folder of all runs, which `record_like` has copied as it was.
        name = wanted.relative_to(self._out)
        if not (self._kept / name).is_dir():
            raise SideFailed(
                TORCH_SIDE,
                f"expected a run {name} of the recorded program, got none: it is not launched again. "
                "Judge it by `parity replay TRACE -- COMMAND`.",
            )
        # A copy, for who asked reads and writes in its own folder; what is kept can be judged again.
        shutil.copytree(self._kept / name, wanted, dirs_exist_ok=True)
        return {}
