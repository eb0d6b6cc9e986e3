"""Runs somebody's script as the main program, and shows its errors as it would itself."""

import os
import runpy
import sys
import traceback

OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_THE_SCRIPTS = (
    os.path.join(OURS, "tf_towers", "record") + os.sep,
    os.path.join(OURS, "parity", "trace") + os.sep,
)


def run_as_main(script, module, arguments):
    """Runs a script, or a module by name, as ``__main__``.

    Args:
      script: path, or None.
      module: dotted name, or None; one of both is given.
      arguments: list of str, the script's own.
    """
    sys.argv = [script or module] + list(arguments)
    if module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")


def show_error(error):
    """Prints an exception of the script on stderr as Python does, without the frames that recording adds."""
    described = traceback.TracebackException(type(error), error, error.__traceback__)
    _drop_ours(described, set())
    sys.stdout.flush()
    sys.stderr.write("".join(described.format()))
    sys.stderr.flush()


def _drop_ours(described, seen):
    if described is None or id(described) in seen:
        return
    seen.add(id(described))
    frames = list(described.stack)
    start = next((number for number, frame in enumerate(frames) if not _before_script(frame)), 0)
    kept = [frame for frame in frames[start:] if not frame.filename.startswith(NOT_THE_SCRIPTS)]
    described.stack = traceback.StackSummary.from_list(kept)
    _drop_ours(described.__cause__, seen)
    _drop_ours(described.__context__, seen)


def _before_script(frame):
    name = frame.filename
    return name.startswith(NOT_THE_SCRIPTS) or os.path.basename(name) == "runpy.py" or name == "<frozen runpy>"
