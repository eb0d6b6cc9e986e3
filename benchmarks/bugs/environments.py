"""Every TensorFlow that right ports are run against: this interpreter's and another one's, with oneDNN and without."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from parity.experiment import Sides, open_sides

FLAG = "TF_ENABLE_ONEDNN_OPTS"
TIMEOUT = 120.0


def tensorflows(other: str | None) -> dict[str, str]:
    """Returns the version of each TensorFlow there is: of "this" interpreter, and of the "other" one where it is given."""
    pythons = {"this": sys.executable, **({"other": other} if other else {})}
    return {which: _version(python) for which, python in pythons.items()}


def _version(python: str) -> str:
    program = "import tensorflow; print(tensorflow.__version__)"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    found = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment
    )
    return found.stdout.split()[-1]


class Environments:
    """Opens the sides of a variation when they are first asked for, and keeps them; `close` ends all of them."""

    def __init__(self, other: str | None) -> None:
        self._pythons = {"this": None, "other": other}
        self._opened: dict[tuple[str, str], Sides] = {}
        self._stack = contextlib.ExitStack()

    def sides(self, tensorflow: str, onednn: str) -> Sides:
        """Returns the sides with "this" or the "other" TensorFlow, and oneDNN "on" or not."""
        key = (tensorflow, onednn)
        if key not in self._opened:
            with _environment(FLAG, "1" if onednn == "on" else "0"):
                self._opened[key] = self._stack.enter_context(open_sides(self._pythons[tensorflow]))
        return self._opened[key]

    def close(self) -> None:
        """Ends all sides."""
        self._stack.close()


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
