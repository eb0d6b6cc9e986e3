"""Every measured figure of README and docs stands in a section that names the command it comes from, and that is there."""

import itertools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from pages.blocks import FENCE, PAGES, ROOT, text_of
from parity.cli.main import COMMANDS

FIGURE = re.compile(
    r"\d[\d,.]*\s?(?:[kMG]B|[mµu]?s|%|ulp|seconds|minutes|hours)(?!\w)"  # with a unit
    r"|\b\d+(?:\.\d+)?e[-+]?\d+"  # how far apart
    r"|\b[\d,]+ of (?:the )?[\d,]+\b"  # how many of how many
    r"|\b\d[\d,.]* times (?!the\b)"  # how much more
)
HEADING = re.compile(r"^#+ ", re.MULTILINE)
COMMAND = re.compile(r"`(?:[A-Z_]+=\S+ )?(python (?:-m pytest )?[\w./-]+\.?\w*[^`]*|parity \w+[^`]*)`")
# Numbers that a rule or a formula consists of, or that are reckoned from others. Nothing measures them.
RULES = {
    "docs/extending.md": {"1e-9"},  # to which a factor has to hold
    "docs/method.md": {
        "64 times ",  # what level 1 allows
        *("1e-3", "1e-4"),  # how small an update is beside its weight: arithmetic
        *("95%", "5 of 9", "0 of 20", "16.8%", "0.94%", "1%"),  # the binomial law
        *("2%", "5%"),  # sizes of bugs that are planted
        "1 MB",  # from which on an array is mapped by itself
    },
    "docs/migration.md": {"1.001e-5", "1e-2"},  # an epsilon of TensorFlow; where a figure holds
}


class Section(NamedTuple):
    """The lines from one heading to the next: page, first line, text without blocks, the same with them."""

    page: str
    line: int
    prose: str
    whole: str


def sections(page: str) -> list[Section]:
    """Returns the sections of a page; those without a command of their own begin where the page does."""
    whole = text_of(page)
    prose = FENCE.sub(lambda block: re.sub(r"[^\n]", "", block[0]), whole)
    starts = [0, *(match.start() for match in HEADING.finditer(prose)), len(prose)]
    assert prose.count("\n") == whole.count("\n")
    lines, found = whole.split("\n"), []
    for start, end in itertools.pairwise(starts):
        first, last = prose.count("\n", 0, start), prose.count("\n", 0, end)
        found.append(Section(page, first + 1, prose[start:end], "\n".join(lines[first:last])))
    return found


def figures(section: Section) -> list[str]:
    """Returns the figures of a section's sentences and tables, without those of code and of links."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", section.prose, flags=re.DOTALL)
    rules = RULES.get(section.page, set())
    return [figure for figure in FIGURE.findall(text) if figure not in rules]


def commands_of(section: Section) -> list[str]:
    """Returns the commands that a section shows in a sentence or as a block."""
    blocks = [match[3] for match in FENCE.finditer(section.whole + "\n") if match[2] in ("bash", "console")]
    shown = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    spans = [match[1] for match in COMMAND.finditer(section.prose.replace("\n", " "))]
    return [*spans, *(line for line in shown if COMMAND.fullmatch(f"`{line}`"))]


def broken(command: str) -> str:
    """Returns what of a command is not there: its file, its test, an option, a verb; "" where all of it is."""
    words = command.split()
    if words[0] == "parity":
        return "" if words[1] in {each.name for each in COMMANDS} else words[1]
    places = [word for word in words if word.startswith(("tests/", "benchmarks/", "examples/"))]
    if not places or not (ROOT / places[0]).exists():
        return places[0] if places else command
    if "pytest" in words:
        wanted = words[words.index("-k") + 1] if "-k" in words else ""
        return "" if wanted in sources(ROOT / places[0]) else wanted
    options = [word for word in words if word.startswith("--")]
    return next((word for word in options if f'"{word}"' not in (ROOT / places[0]).read_text(encoding="utf-8")), "")


def sources(place: Path) -> str:
    files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
    return "\n".join(
        line for file in files for line in file.read_text(encoding="utf-8").splitlines() if "def test" in line
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_stands_beside_the_command_that_it_comes_from(page):
    begin = sections(page)[:2]  # what stands before the first subheading is for the whole page
    for_all = [command for section in begin for command in commands_of(section)]
    for section in sections(page):
        if found := figures(section):
            assert [*for_all, *commands_of(section)], f"{page}:{section.line}: no command beside {found}"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_section_with_figures_is_there(page):
    for section in sections(page):
        for command in commands_of(section) if figures(section) else []:
            assert broken(command) == "", f"{page}:{section.line}: {command}"


@pytest.mark.parametrize("page", RULES)
def test_every_number_that_is_called_a_rule_is_still_on_its_page(page):
    prose = "".join(section.prose for section in sections(page))
    assert [rule for rule in sorted(RULES[page]) if rule not in prose] == []


@pytest.fixture
def written(tmp_path, monkeypatch):
    def write(text):
        (tmp_path / "page.md").write_text(text)
        (tmp_path / "benchmarks").mkdir(exist_ok=True)
        (tmp_path / "benchmarks" / "one.py").write_text('parser.add_argument("--pairs")\n')
        monkeypatch.setattr("pages.blocks.ROOT", tmp_path)
        monkeypatch.setattr("pages.test_figures.ROOT", tmp_path)
        return sections("page.md")

    return write


def test_the_proof_that_figures_have_commands_can_fail(written):
    bare, told = written(
        "# A page\nIt takes 3.5 s, at most 12% of it idle.\n## Told\n`python benchmarks/one.py`: 4 MB.\n"
    )[1:]
    assert (figures(bare), commands_of(bare)) == (["3.5 s", "12%"], [])
    assert (figures(told), commands_of(told)) == (["4 MB"], ["python benchmarks/one.py"])


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("python benchmarks/one.py --pairs 3", ""),
        ("python benchmarks/one.py --rounds 3", "--rounds"),
        ("python benchmarks/two.py", "benchmarks/two.py"),
        ("python -m pytest tests/none.py", "tests/none.py"),
        ("parity run CASE", ""),
        ("parity walk CASE", "walk"),
    ],
)
def test_the_proof_that_commands_are_there_can_fail(written, command, missing):
    written("# A page\n")
    assert broken(command) == missing


def test_numbers_of_code_and_of_rules_are_no_figures(written):
    section = written("# A page\n`lr=1e-3`, 4 ranks, [1.2 s](x) of 2 towers, 3 of 4, 1e-8, 7 times as many\n")[1]
    assert figures(section) == ["1.2 s", "3 of 4", "1e-8", "7 times "]
