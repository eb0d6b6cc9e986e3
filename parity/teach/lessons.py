"""Finds the lessons, which belong to a checkout, and their pages, which the package carries; reads what they are about."""

import html
import importlib.util
import json
import re
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar


class TeachError(ValueError):
    """A lesson cannot be given; the message says who, what was expected, what came and what to do."""


class NoLessonsError(TeachError):
    """There are no lessons to run, only the pages of the package to read."""


CHECKOUT = Path(__file__).resolve().parents[2]
LESSONS_FOLDER = Path("examples", "lessons")
FOLDER = re.compile(r"(\d\d)_\w+")


class Lesson(NamedTuple):
    """One lesson.

    Fields:
      number: from 1.
      folder: holds `lesson.py`, `text.md`, `diagram.js` and the frameworks' parts.
      title: a few words.
      about: one sentence.
    """

    number: int
    folder: Path
    title: str
    about: str

    def source(self, name: str) -> str:
        """Returns the text of one of its files."""
        return (self.folder / name).read_text(encoding="utf-8")

    def parts(self) -> list[str]:
        """Returns which frameworks play a part: "tf", "torch"."""
        return [name for name in ("tf", "torch") if (self.folder / f"{name}_part.py").exists()]


def lessons_folder(named: Path | None = None) -> Path:
    """Returns the folder of the lessons: the one that is named, this checkout's, or that of the working directory.

    Raises:
      TeachError: there are no lessons there.
    """
    places = [named] if named else [CHECKOUT / LESSONS_FOLDER, Path.cwd() / LESSONS_FOLDER]
    for place in places:
        if place.is_dir() and any(_is_lesson(entry) for entry in place.iterdir()):
            return place.resolve()
    if named:
        raise TeachError(f"teach: expected lessons in {named}, got none. Name the folder examples/lessons of a clone.")
    raise NoLessonsError(
        "teach: expected the lessons, which a clone of the repository has in examples/lessons, got a package without them. "
        "Run in a clone, or name the folder: --lessons DIR."
    )


class RenderedLesson(NamedTuple):
    """A lesson's page as the package carries it, with the numbers of the run that it was written by.

    Fields:
      number: from 1.
      title, about: as of `Lesson`.
      frameworks: what the numbers were measured with, e.g. "torch 2.13.0".
    """

    number: int
    title: str
    about: str
    frameworks: str


def rendered_page(number: int) -> Path:
    """Returns where the page of a lesson is in the package; it need not be there."""
    return Path(str(files("parity.teach").joinpath("rendered", f"{number:02}.html")))


def rendered_lessons() -> list[RenderedLesson]:
    """Returns the lessons whose pages the package carries, in order."""
    pages = sorted(rendered_page(1).parent.glob("[0-9][0-9].html"))
    return [_read_page(int(page.stem), page.read_text(encoding="utf-8")) for page in pages]


def rendered_numbers(number: int) -> dict[str, Any]:
    """Returns the numbers of the run that a page of the package was written by, as JSON has them.

    Raises:
      TeachError: there is no such page.
    """
    page = rendered_page(number)
    if not page.is_file():
        last = rendered_lessons()[-1].number
        raise TeachError(f"teach: expected a lesson from 1 to {last}, got {number}. `parity teach` lists them.")
    text = page.read_text(encoding="utf-8")
    begin = '<script type="application/json" id="numbers">'
    return dict(json.loads(text.partition(begin)[2].partition("</script>")[0]))


def _read_page(number: int, page: str) -> RenderedLesson:
    # Of pages that `lesson.html` made: what they hold is known, and escaped.
    title, about, frameworks = (
        html.unescape(page.partition(begin)[2].partition(end)[0])
        for begin, end in (
            ("<h1>", "</h1>"),
            ('<p class="lead">', "</p>"),
            ("Every number on this page was measured with ", ".</p>"),
        )
    )
    return RenderedLesson(number, title, about, frameworks)


def find_lessons(folder: Path) -> list[Lesson]:
    """Returns the lessons of a folder, in order."""
    found = [(int(match[1]), entry) for entry in folder.iterdir() if (match := _is_lesson(entry))]
    return [_read(number, entry) for number, entry in sorted(found)]


L = TypeVar("L", Lesson, RenderedLesson)


def pick(lessons: list[L], number: int) -> L:
    """Returns the lesson of a number.

    Raises:
      TeachError: there is no such lesson.
    """
    for lesson in lessons:
        if lesson.number == number:
            return lesson
    raise TeachError(
        f"teach: expected a lesson from {lessons[0].number} to {lessons[-1].number}, got {number}. "
        "`parity teach` lists them."
    )


def load_module(lesson: Lesson) -> ModuleType:
    """Returns the lesson's `lesson.py`, imported under a name of its own."""
    # Every lesson has a lesson.py: by a name of its own it takes no other's place in sys.modules.
    spec = importlib.util.spec_from_file_location(f"lesson_{lesson.number:02}", lesson.folder / "lesson.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_lesson(entry: Path) -> re.Match[str] | None:
    return FOLDER.fullmatch(entry.name) if (entry / "text.md").exists() else None


def _read(number: int, folder: Path) -> Lesson:
    title, _, rest = (folder / "text.md").read_text(encoding="utf-8").partition("\n\n")
    about = " ".join(rest.partition("\n\n")[0].split())
    return Lesson(number, folder, title.removeprefix("# "), about)
