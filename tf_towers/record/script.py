"""Runs a script as main, and reads its numbers as its author wrote them."""

import contextlib
import os
import runpy
import subprocess
import sys
import traceback
from typing import Optional, Sequence, Set

from parity.trace import SHADOW_FILE, read_json, write_json
from parity.worker import bootstrap

# Has the float64 shadow of what was recorded computed, in a process of its own: the script's is left alone.

SECONDS = 1800.0


def compute_shadow(out: str) -> str:
    """Computes the shadow of the trace at `out`; returns what there is to say of it, in one line."""
    # On the CPU: a GPU's sums are made in no order, and the script may still hold its memory.
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, bootstrap.__file__, "tf_towers.shadow", out]
    try:
        done = subprocess.run(
            command,
            env=environment,
            # The script's terminal stays its own: one line of the child's stderr is handed on, and nothing else.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        what = "its free run was not finished" if _is_made(out) else "none"
        return f"shadow: {what} after {SECONDS:g} s. Make it with python -m tf_towers.shadow {out}"
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("shadow: ")]
    if told:
        return told[-1]
    ended = f"shadow: none: {lines[-1] if lines else f'it ended with status {done.returncode}'}"
    if not os.path.exists(os.path.join(out, SHADOW_FILE)):
        # Killed, say for memory: nobody is to be told to make what cannot be made.
        # Where even that cannot be written the line that is returned says what was wrong.
        with contextlib.suppress(OSError):
            write_json(
                os.path.join(out, SHADOW_FILE), {"made": False, "reason": f"{ended}. Level 2 only can be judged."}
            )
    return ended


def _is_made(out: str) -> bool:
    try:
        return bool(read_json(os.path.join(out, SHADOW_FILE))["made"])
    except (OSError, ValueError, KeyError):
        return False


# Runs somebody's script as the main program, and shows its errors as it would itself.

PARENT_OF_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_THE_SCRIPTS = (
    os.path.join(PARENT_OF_PACKAGES, "tf_towers", "record") + os.sep,
    os.path.join(PARENT_OF_PACKAGES, "parity", "trace") + os.sep,
    os.path.join(PARENT_OF_PACKAGES, "parity", "worker") + os.sep,
)


def run_as_main(script: Optional[str], module: Optional[str], arguments: Sequence[str]) -> None:
    """Runs a script, or a module by name, as ``__main__``.

    Args:
      script: path, or None.
      module: dotted name, or None; one of both is given.
      arguments: list of str, the script's own.
    """
    sys.argv = [script or module or ""] + list(arguments)
    if module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif script:
        # As `python SCRIPT` does, so that its own modules are found; runpy leaves the path alone for a file.
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")


def show_error(error: BaseException) -> None:
    """Prints an exception of the script on stderr as Python does, without the frames that recording adds."""
    described = traceback.TracebackException(type(error), error, error.__traceback__)
    _drop_ours(described, set())
    # What it printed stands before its traceback where both go into one file.
    sys.stdout.flush()
    sys.stderr.write("".join(described.format()))
    sys.stderr.flush()


def _drop_ours(described: Optional[traceback.TracebackException], seen: Set[int]) -> None:
    if described is None or id(described) in seen:
        return
    seen.add(id(described))
    frames = list(described.stack)
    start = next((number for number, frame in enumerate(frames) if not _before_script(frame)), 0)
    kept = [frame for frame in frames[start:] if not frame.filename.startswith(NOT_THE_SCRIPTS)]
    described.stack = traceback.StackSummary.from_list(kept)
    # Chains of causes and contexts may meet again, or go in a circle.
    _drop_ours(described.__cause__, seen)
    _drop_ours(described.__context__, seen)


def _before_script(frame: traceback.FrameSummary) -> bool:
    name = frame.filename
    return name.startswith(NOT_THE_SCRIPTS) or os.path.basename(name) == "runpy.py" or name == "<frozen runpy>"
