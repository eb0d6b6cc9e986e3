"""Finds the line of the user's own code that a framework's op or function was called from."""

import linecache
import os
import sys
import sysconfig
from typing import Any, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple

import parity

OURS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(parity.__file__))), name)
    for name in ("parity", "tf_towers", "torch_ddp")
)
INSTALLED = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
LONGEST = 200  # characters of a line's text: a generated line may be as long as its file
MOST_CALLERS = 2


class SourceLine(NamedTuple):
    """A line of a user's source.

    Fields:
      file: its path, relative to the folder that it is imported from, else its base name.
      line: its number, from 1.
      function: that it is in, "<module>" outside of any.
      text: stripped; "" where the source cannot be read.
      callers: file, line, function and text of the user's frames that called it, innermost first, `MOST_CALLERS` at most.
    """

    file: str
    line: int
    function: str
    text: str
    callers: Tuple[Tuple[str, int, str, str], ...] = ()

    @property
    def shown(self) -> str:
        """File, line, text and who called it in one line; what no terminal should get is escaped."""
        called = "  (called from {0[0]}:{0[1]}  {0[3]})".format(self.callers[0]) if self.callers else ""
        return self.alone + _printable(called)

    @property
    def alone(self) -> str:
        """File, line and text in one line, as `shown`, without who called it."""
        return _printable("{}:{}  {}".format(self.file, self.line, self.text).rstrip())


def line_of(kept: Optional[Sequence[Any]]) -> Optional[SourceLine]:
    """Returns a line as it is read from JSON, of lists; None of None."""
    if not kept:
        return None
    callers = tuple(tuple(each) for found in kept[4:] for each in found)
    return SourceLine(*kept[:4])._replace(callers=callers)


class UsersLines(object):
    """Tells a user's frames from those of Python, of installed packages and of this program.

    Args:
      libraries: modules whose frames are no user's either, wherever they are installed.
    """

    def __init__(self, *libraries: Any) -> None:
        folders = [os.path.dirname(os.path.abspath(each.__file__)) for each in libraries]
        standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
        self._others = tuple(folder + os.sep for folder in [*OURS, *folders, *standard])
        self._known: Dict[str, bool] = {}  # every op of a graph has a stack of frames, of the same few files
        linecache.checkcache()  # a long-lived process has read the files of an earlier case

    def innermost(self, frames: Iterable[Tuple[str, int, str]]) -> Optional[SourceLine]:
        """Returns the line of the innermost frame that is the user's, None where none is.

        Args:
          frames: yields file, number of the line and function, innermost first.
        """
        found = []
        for path, number, function in frames:
            frame = self.frame(path, number, function)
            if frame is not None:
                found.append(frame)
            if len(found) > MOST_CALLERS:  # the line itself and so many callers
                break
        return SourceLine(*found[0], callers=tuple(found[1:])) if found else None

    def frame(self, path: str, number: int, function: str) -> Optional[Tuple[str, int, str, str]]:
        """Returns file, line, function and text of a frame, as in `SourceLine`; None where it is not the user's."""
        if not self.is_users(path):
            return None
        return _relative(path), number, function, linecache.getline(path, number).strip()[:LONGEST]

    def is_users(self, path: str) -> bool:
        """Returns whether a file is the user's."""
        known = self._known.get(path)
        if known is None:
            whole = os.path.abspath(path)
            # "<frozen importlib>" and "<string>" are no files. What a virtual environment has installed lies outside
            # of the standard library's folder.
            inside = path.startswith("<") or whole.startswith(self._others) or any(part in whole for part in INSTALLED)
            known = self._known[path] = not inside
        return known


def _relative(path: str) -> str:
    whole = os.path.abspath(path)
    for folder in sys.path:
        start = os.path.join(os.path.abspath(folder), "")
        if whole.startswith(start):  # the first entry that leads there: Python imports by the same order
            return whole[len(start) :]
    return os.path.basename(path)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
