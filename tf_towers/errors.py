"""What is raised for towers and checkpoints, and the line of the user's code in a traceback."""

import linecache
import os
from typing import Any, Sequence

import tensorflow as real

OUR_PACKAGE = os.path.dirname(os.path.abspath(__file__))
THEIRS = os.path.dirname(os.path.abspath(real.__file__))
# contextlib is the standard library's frame of a with statement; "<" begins "<frozen ...>" and "<string>".
NOT_THE_USER_S = (OUR_PACKAGE + os.sep, THEIRS + os.sep, os.sep + "site-packages" + os.sep, "contextlib.py", "<")


def users_line(frames: Sequence[Any], with_text: bool = True) -> str:
    """Returns "model.py:12: `the line`" for the innermost frame that is neither ours nor a library's.

    Args:
      frames: a list of frames, outermost first, each beginning with file and line, as `traceback.extract_tb` gives them.
      with_text: whether the line itself is quoted.
    """
    users = [frame for frame in frames if not any(part in frame[0] for part in NOT_THE_USER_S)]
    if not users:
        return "a line that is not known"
    file, number = users[-1][0], users[-1][1]
    line = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}" + (f": `{line}`" if with_text and line else "")


# The error of this package.


class TowerError(ValueError):
    """Towers cannot be built or run as asked; the message says who, what was expected, what came and what to do."""


class CheckpointError(TowerError):
    """A checkpoint cannot be read, or what is to be written is none; the message says what to do."""
