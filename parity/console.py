"""The terminal, where nothing but text appears: names of a trace or a script cannot move, colour or hide what is printed."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from parity.trace.escape import printable


class EscapingConsole(Console):
    """A console that escapes what is not printed; colours, which it adds itself, stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the segments of what is printed, each with its text escaped."""
        for segment in super().render(renderable, options):
            # With `control` it is a movement of the cursor by a bar of progress: never of a text.
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def open_console(error: bool = False, **options: Any) -> Console:
    """Returns a console for standard output.

    Args:
      error: for standard error instead.
      options: of rich's `Console`.
    """
    stream = sys.stderr if error else sys.stdout
    # What a console prints is escaped already, and its colours have to pass.
    # Without highlighting: rich would colour numbers and paths in the middle of names.
    return EscapingConsole(file=getattr(stream, "unescaped", stream), highlight=False, **options)


class EscapedStream:
    """A stream that escapes what is written to it, and else is another.

    Args:
      unescaped: the other.
      data: where what is no text goes; by default beside the text.
    """

    def __init__(self, unescaped: TextIO, data: BinaryIO | None = None) -> None:
        self.unescaped, self.data = unescaped, data

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        self.unescaped.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


@contextlib.contextmanager
def escaped_streams(data: bool = False) -> Iterator[None]:
    """Has everything that is printed in a block escaped, on standard output and standard error.

    Args:
      data: whether standard output is for a report file alone, so that text for people goes to standard error.
    """
    before = sys.stdout, sys.stderr
    out = EscapedStream(sys.stderr, sys.stdout.buffer) if data else EscapedStream(sys.stdout)
    streams: Any = out, EscapedStream(sys.stderr)
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
