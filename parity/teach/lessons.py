"""Finds the lessons, which belong to a checkout, and reads what they are about."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class TeachError(ValueError):
    """A lesson cannot be given; the message says who, what was expected, what came and what to do."""


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
    places = [named] if named else [Path(__file__).resolve().parents[2] / LESSONS_FOLDER, Path.cwd() / LESSONS_FOLDER]
    for place in places:
        if place.is_dir() and any(_is_lesson(entry) for entry in place.iterdir()):
            return place.resolve()
    if named:
        raise TeachError(f"teach: expected lessons in {named}, got none. Name the folder examples/lessons of a clone.")
    raise TeachError(
        "teach: expected the lessons, which a clone of the repository has in examples/lessons, got a package without "
        "them. Run in a clone, or name the folder: --lessons DIR."
    )


def find_lessons(folder: Path) -> list[Lesson]:
    """Returns the lessons of a folder, in order."""
    found = [(int(match[1]), entry) for entry in folder.iterdir() if (match := _is_lesson(entry))]
    return [_read(number, entry) for number, entry in sorted(found)]


def pick(lessons: list[Lesson], number: int) -> Lesson:
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
