"""Tables without lines: laid out as rich does it, and nothing of a cell is lost."""

import io
import random

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from parity.console import EscapingConsole
from parity.report.plain_table import PlainTable, shrunk
from parity.report.view import print_trimmed

ALPHABETS = ("abcdef", "ab cd  ", "a/b._1 ", "aé漢字 b", "ab\n c", "ab\tc")


def printed(table, width):
    console = EscapingConsole(file=io.StringIO(), width=width, highlight=False)
    print_trimmed(console, table)
    return console.file.getvalue()


def tables(draw):
    """One table, and what rich has for it."""
    letters = draw.choice(ALPHABETS)

    def text(most):
        return "".join(draw.choice(letters) for _ in range(draw.randrange(1, most)))

    headings = ["".join(draw.choice("ab ") for _ in range(draw.randrange(1, 14))) for _ in range(draw.randint(1, 5))]
    made = PlainTable(*headings)
    of_rich = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        of_rich.add_column(heading, overflow="fold")
    for _ in range(draw.randrange(6)):
        cells = [
            draw.choice(
                [Text(text(60)), Text(text(30), "green"), escape(text(30)), f"[green]yes[/] {escape(text(30))}"]
            )
            for _ in headings
        ]
        made.add_row(*cells)
        of_rich.add_row(*cells)
    return made, of_rich


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_is_laid_out_as_rich_lays_out_a_table_without_a_box(seed, width):
    made, of_rich = tables(random.Random(seed))
    assert printed(made, width) == printed(of_rich, width)


def test_a_row_of_plain_text_is_not_laid_out_letter_by_letter(monkeypatch):
    table = PlainTable("name", "kind")
    for at in range(100):
        table.add_row(Text(f"tower/layer_{at}/kernel"), Text("weight", "dim"))
    table.add_row(Text("two words"), Text("weight"))
    monkeypatch.setattr(Console, "render_lines", lambda *arguments, **options: pytest.fail("laid out by rich"))
    assert printed(table, 80).count("\n") == 102
    assert "tower/layer_\n99/kernel" in printed(table, 20).replace("  weight", "")


def test_an_escape_takes_the_room_that_it_needs():
    table = PlainTable("name", "next")
    table.add_row(Text("a\x1b[31mb\u202ec"), "[b]d[/]\x00")
    assert printed(table, 80).splitlines()[1] == "a\\x1b[31mb\\u202ec  d\\x00"
    assert "".join(printed(table, 12).splitlines()[2:]).replace(" ", "").count("\\u202e") == 1


@pytest.mark.parametrize(
    ("widths", "most", "found"),
    [
        ([5, 5], 10, [5, 5]),
        ([5, 5], 9, [5, 4]),
        ([9, 5], 10, [5, 5]),
        ([9, 5, 2], 10, [4, 4, 2]),
        ([90, 50], 30, [15, 15]),
        ([0, 3], 80, [1, 3]),
        ([4, 4], 0, [0, 0]),
    ],
)
def test_the_widest_columns_give_way_first(widths, most, found):
    assert shrunk(widths, most) == found
