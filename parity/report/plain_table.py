"""A table of text that is pasted into issues and compared by diff: without lines, and nothing of it is cut."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

from parity.trace.escape import printable

BETWEEN_COLUMNS = 2  # blanks
HEADING_STYLE = "dim"


class PlainTable:
    """A table whose cells are folded rather than cut, so that nothing is lost in 80 columns.

    It is what a `rich.table.Table` without a box prints. That lays out each cell as if anything could be in it, and takes
    a second for 2,000 rows: a mapping or a step may have 100,000.

    Args:
      *headings: of the columns.
    """

    def __init__(self, *headings: str) -> None:
        self._rows: list[Sequence[Text]] = [[Text(heading, HEADING_STYLE) for heading in headings]]

    def add_row(self, *cells: Text | str) -> None:
        """Adds a row with a cell for each heading; of strings the markup is read, of texts nothing."""
        self._rows.append([_printable(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yields the lines, each column as wide as its longest cell where all of them fit."""
        longest = [max(map(_length, column)) for column in zip(*self._rows, strict=True)]
        gaps = [BETWEEN_COLUMNS] * (len(longest) - 1) + [0]
        widths = shrunk([length + gap for length, gap in zip(longest, gaps, strict=True)], options.max_width)
        rooms = [max(1, width - gap) for width, gap in zip(widths, gaps, strict=True)]
        for row in self._rows:
            folded = [_folded(cell, room, console, options) for cell, room in zip(row, rooms, strict=True)]
            if row is self._rows[0]:  # headings stand on what they head
                folded = [[[]] * (max(map(len, folded)) - len(lines)) + lines for lines in folded]
            for line in zip_longest(*folded, fillvalue=[]):
                yield from Segment.simplify(_padded(line, widths))
                yield Segment.line()


def shrunk(widths: Sequence[int], most: int) -> list[int]:
    """Returns widths whose sum is at most `most`: the widest give way first, evenly, until they are as wide as the next."""
    found = [min(max(1, width), most) for width in widths]
    while (excess := sum(found) - most) > 0 and any(found):
        widest = max(found)
        places = [place for place, width in enumerate(found) if width == widest]
        step = min(excess, widest - max((width for width in found if width != widest), default=0))
        for number, place in enumerate(places):
            cut = min(step, round(excess / (len(places) - number)))
            found[place] -= cut
            excess -= cut
    return found


def _printable(cell: Text | str) -> Text:
    # Before it is laid out: an escape takes more room than what it stands for.
    if isinstance(cell, str):
        return Text.from_markup(printable(cell))
    return cell if cell.plain.isprintable() else Text(printable(cell.plain), cell.style)


def _length(cell: Text) -> int:
    return len(cell.plain) if _is_plain(cell) else max(map(cell_len, cell.plain.splitlines()), default=0)


def _is_plain(cell: Text) -> bool:
    # One line of one style, each letter as wide as any other.
    return not cell.spans and cell.plain.isascii() and cell.plain.isprintable()


def _folded(cell: Text, room: int, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """Returns the lines of a cell, each at most `room` wide."""
    text = cell.plain
    if _is_plain(cell) and (len(text) <= room or " " not in text):
        style = console.get_style(cell.style) if cell.style else None
        return [[Segment(text[at : at + room], style)] for at in range(0, max(1, len(text)), room)]
    return console.render_lines(cell, options.update(width=room, overflow="fold"), pad=False)


def _padded(line: Sequence[Sequence[Segment]], widths: Sequence[int]) -> Iterator[Segment]:
    for segments, width in zip(line, widths, strict=True):
        yield from segments
        yield Segment(" " * (width - sum(segment.cell_length for segment in segments)))
