"""Says what went wrong in a side: in one sentence, and with that part of a traceback that is the user's."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.worker.hints import hint, telling_line

TITLES = {"tf": "TensorFlow side", "torch": "torch side", "data": "data side"}
TASKS = {
    "batches": "to get the batches",
    "prepare": "to build the model",
    "initialize": "to make the first state",
    "forward": "to make the forward pass of a step",
    "run": "to run the steps",
}
ROOT = Path(__file__).resolve().parents[2]
OUR_FOLDERS = tuple(f"{ROOT / package}/".lstrip("/") for package in ("parity", "tf_towers", "torch_ddp"))
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+))?$')
MACHINERY = (
    "<frozen ",
    "/importlib/__init__.py",
    "/runpy.py",
    "/tensorflow/python/",
    "/tensorflow_core/python/",
    "/torch/nn/modules/module.py",
    "/torch/nn/parallel/distributed.py",
    "/torch/_tensor.py",
    "/torch/autograd/",
)
LIBRARIES = ("site-packages", "dist-packages", "/lib/python3.", str(Path(os.__file__).parent))
STARTUP_NOISE = re.compile(
    r"^(WARNING: All log messages before absl|[IWE]\d{4} |\d{4}-\d\d-\d\d .*: [IW] |WARNING:tensorflow:From .*deprecated"
    r"|Instructions for updating:|non-resource variables are not supported|To enable the following instructions)"
)
WHOLE_DUMP = 1000  # lines, enough for the stacks of all threads of a crash; what is shown is chosen among them
TIMED_OUT = "DeadlineExceededError"  # TensorFlow's, of a step that ran longer than its `RunOptions` allow
CHAINED = re.compile(r"^(?=During handling of the above exception|The above exception was the direct cause)", re.M)


class SideFailed(ValueError):
    """A side could not do what it was asked.

    Args:
      side: "tf", "torch" or "data".
      message: who, expected, got, what to do.
      traceback: of the user's code in the side's own process, or "".
      printed: what the side printed last, or "".
      hung: whether it was given up, for it did not end within the time that it has.
    """

    def __init__(self, side: str, message: str, traceback: str = "", printed: str = "", hung: bool = False) -> None:
        super().__init__(f"{TITLES.get(side, side)}: {message}")
        self.side = side
        self.traceback = traceback
        self.printed = printed
        self.hung = hung


def failure(side: str, request: str, error: Mapping[str, Any], printed: str = "") -> SideFailed:
    """Returns what a side's error message means to the user.

    Args:
      side: "tf", "torch" or "data".
      request: what it was asked.
      error: as `protocol.describe_error` made it; `rank` where one rank of several raised, `died` where one ended.
      printed: what the side printed last; shown only where a process ended without a word.
    """
    who = f"rank {error['rank']}: " if "rank" in error and not error.get("died") else ""
    if error["plain"]:
        return SideFailed(side, who + error["message"], printed=printed if error.get("died") else "")
    traceback = without_our_frames(error["traceback"])
    first = telling_line(error["message"])
    got = f"{error['type']}: {first}" if first else error["type"]
    place = last_frame(traceback)
    where = f" ({place})" if place else ""
    known = hint(side, f"{error['type']}: {error['message']}", error["traceback"])
    cure = f"{known} Its traceback is above." if known else "Fix it there; its traceback is above."
    return SideFailed(
        side, f"{who}expected {task_of(request)}, got {got}{where}. {cure}", traceback, hung=error["type"] == TIMED_OUT
    )


def task_of(request: str) -> str:
    """Returns what a side does to answer a request, as in "expected to build the model"."""
    return TASKS.get(request, f"an answer to {request!r}")


def without_our_frames(traceback: str) -> str:
    """Drops the frames of this project, of the frameworks' calls and of the import machinery.

    An exception of a chain that has no other frames goes too; where nothing would be left, everything stays.
    """
    parts = [_without_our_frames(part) for part in CHAINED.split(traceback)]
    telling = [part for part in parts if any(FRAME.match(line) for line in part.splitlines())]
    if not telling:
        return traceback.rstrip()
    if telling[0] is not parts[0]:  # it then begins with "During handling of the above exception", and nothing is above
        telling[0] = telling[0].partition("\n")[2].lstrip("\n")  # what it was raised in is not shown
    return "\n".join(telling).rstrip()


def _without_our_frames(part: str) -> str:
    kept: list[str] = []
    dropping = False
    for line in part.splitlines():
        frame = FRAME.match(line)
        if frame:
            dropping = _is_ours(frame["file"])
        elif not line.startswith("    "):  # the source of a frame is indented by four; the error itself is not
            dropping = False
        if not dropping:
            kept.append(line)
    return "\n".join(kept)


def telling_stacks(printed: str) -> str:
    """Returns those stacks of a dump by `faulthandler` that pass through the user's code, without our frames.

    Args:
      printed: stacks, each under a line like "Thread 0x… (most recent call first):".
    """
    stacks: list[list[str]] = []
    for line in printed.splitlines():
        if "most recent call first" in line or not stacks:
            stacks.append([])
        stacks[-1].append(line)
    shown = [without_our_frames("\n".join(stack)) for stack in stacks]
    return "\n".join([stack for stack in shown if _is_telling(stack)] or shown)


def last_frame(traceback: str) -> str:
    """Returns the innermost place of a traceback as "model_tf.py, line 5, in tower"; "" where it has none."""
    frames = [found for line in traceback.splitlines() for found in [FRAME.match(line)] if found]
    if not frames:
        return ""
    # What a user wrote tells more than the library that it called.
    own = [frame for frame in frames if not any(part in frame["file"] for part in LIBRARIES)] or frames
    function = own[-1]["function"]
    place = f"{Path(own[-1]['file']).name}, line {own[-1]['line']}"
    return place if function in (None, "<module>") else f"{place}, in {function}"


def last_lines(log: Path, count: int, start: int = 0) -> str:
    """Returns the last lines that a side printed, without what every start of TensorFlow prints.

    Args:
      log: the side's log.
      count: at most so many lines.
      start: byte to read from.
    """
    try:
        with log.open("rb") as file:
            file.seek(start)
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line for line in lines if line.strip() and not STARTUP_NOISE.match(line)][-count:])


def last_words(log: Path, count: int) -> str:
    """Returns what a side that ended without an answer left in its log: where it crashed, or what it printed last.

    Args:
      log: the side's log.
      count: at most so many lines.
    """
    lines = last_lines(log, WHOLE_DUMP).splitlines()
    crashes = [number for number, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not crashes:
        return "\n".join(lines[-count:])
    title, *stacks = [line for line in lines[crashes[-1] :] if not line.startswith("Extension modules:")]
    return "\n".join([title, *telling_stacks("\n".join(stacks)).splitlines()][:count])


def _is_telling(stack: str) -> bool:
    files = [frame["file"] for line in stack.splitlines() for frame in [FRAME.match(line)] if frame]
    return any(not _is_ours(file) and not any(part in file for part in LIBRARIES) for file in files)


def _is_ours(file: str) -> bool:
    # TensorFlow 1 prints where an op was made without the leading slash.
    return file.lstrip("/").startswith(OUR_FOLDERS) or any(part in file for part in MACHINERY)
