"""Plays one framework's part of lessons, in any interpreter (Python 3.7 and up).

A part is a file of a lesson with a function ``measure(**arguments)`` that returns a dict of JSON values and arrays.
"""

import os
import sys
from typing import Any, Callable, Dict

from parity.worker.bootstrap import CURES
from parity.worker.protocol import SideError, claim_standard_streams, serve
from parity.worker.user_code import UserCode

CODE = UserCode()


def measure(arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
    """Calls `measure` of one part: `folder` of the lesson, `part` (a module's name), `arguments`."""
    folder = arguments["folder"]
    try:
        CODE.enter([folder, os.path.dirname(folder)])
        function = CODE.load(arguments["part"] + ":measure")
    except ImportError as error:
        missing = (getattr(error, "name", None) or "").split(".")[0]
        # An import that fails in the lesson's own files is a bug of the lesson, and shown as one.
        if missing not in CURES:
            raise
        raise SideError("expected {} in {}, got: {}. {}".format(missing, sys.executable, error, CURES[missing]))
    return {"answer": plain(function(**arguments["arguments"])), "framework": _framework()}


def plain(value: Any) -> Any:
    """Returns a value with its arrays as lists and its scalars as Python's own, for JSON."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _framework() -> str:
    for name in ("tensorflow", "torch"):
        if name in sys.modules:
            return "{} {}".format(name, sys.modules[name].__version__)
    return ""


if __name__ == "__main__":
    serve(claim_standard_streams(), {"measure": measure})
