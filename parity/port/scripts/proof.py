"""Writes `test_port.py`: the port's own test, which replays the trace that the port was written from."""

import json
import os
from pathlib import Path

from parity.trace.escape import in_docstring, one_line


def test_source(script: str, trace: Path, folder: Path) -> str:
    """Returns the text of the test.

    Args:
      script: name of the recorded script.
      trace: what the port was written from.
      folder: where the test will lie.
    """
    relative = Path(os.path.relpath(trace, folder)).as_posix()
    return f'''"""Keeps the proof of the port of {in_docstring(one_line(script))}: python -m pytest test_port.py

TRACE holds the golden numbers, recorded from the script: keep it with the port. It takes torch, and no TensorFlow.
"""

import pytest

TRACE = {json.dumps(relative)}


@pytest.mark.parity(".", trace=TRACE)
def test_the_port_is_the_same_training_as_the_script():
    """Losses, gradients, updates and `train` itself; the proof runs before the body."""
'''
