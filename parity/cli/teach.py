"""List the lessons, or run one step by step: what happens to a gradient on its way."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.output import seconds
from parity.exit_codes import ExitCode

if TYPE_CHECKING:
    from parity.teach.play import Played

PATIENCE_FOR_ANSWERS = 60.0  # seconds that a file may take that somebody wrote for an exercise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("lesson", type=int, nargs="?", metavar="N", help="number of a lesson; without it, lists them")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--html", type=Path, metavar="FILE", help="write the lesson as a page with a diagram to play with"
    )
    form.add_argument("--notebook", type=Path, metavar="FILE", help="write the lesson as a Jupyter notebook")
    form.add_argument("--slides", type=Path, metavar="FILE", help="write the lesson as slides, one HTML file")
    form.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="check a Python file that you wrote for the lesson's exercise; runs it",
    )
    parser.add_argument("--open", action="store_true", help="open the page or the slides in a browser")
    parser.add_argument(
        "--tf-python", metavar="PATH", help="interpreter with TensorFlow (default: $PARITY_TF_PYTHON, else this one)"
    )
    parser.add_argument(
        "--lessons", type=Path, metavar="DIR", help="where the lessons are (default: examples/lessons of the checkout)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="seconds without an answer after which a side is ended (default: 120, and 60 for the file of --check)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs a lesson, lists them, or checks an exercise; returns 0, 1 for a wrong answer, 2 where it is not possible."""
    import sys

    from parity.teach.exercises.exercise import ExerciseError
    from parity.teach.lessons import TeachError

    try:
        return _teach(arguments)
    except (TeachError, ExerciseError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return ExitCode.INCOMPARABLE


def _teach(arguments: argparse.Namespace) -> int:
    import os

    from parity.cli.output import claim_file
    from parity.teach.lessons import NoLessonsError, TeachError, find_lessons, lessons_folder, pick
    from parity.teach.play import LESSON_SILENCE, open_players, play
    from parity.teach.show import busy, list_lessons, pause, show_lesson

    option, file = _file(arguments)
    if arguments.lesson is None and (file or arguments.open):
        options = option or "--html and --open"
        raise TeachError(f"teach: expected the number of a lesson for {options}, got none. Name one.")
    if arguments.open and option not in ("--html", "--slides"):
        raise TeachError("teach: expected --html FILE for --open, got none. Name the file to write and open.")
    if option == "--check":
        return _check(arguments)
    try:
        lessons = find_lessons(lessons_folder(arguments.lessons))
    except NoLessonsError as error:
        return _read(arguments, error)
    if arguments.lesson is None:
        list_lessons(lessons)
        return 0
    lesson = pick(lessons, arguments.lesson)
    if file:
        # Before the lesson is played, which starts both frameworks.
        claim_file(option, file)
    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON")
    with open_players(python, arguments.timeout or LESSON_SILENCE) as players, busy() as tell:
        played = play(lesson, players, tell)
    if not file:
        show_lesson(played, pause)
        return 0
    _writer(option)(played, file, len(lessons))
    print(f"{file}: lesson {lesson.number}, {lesson.title}; {len(played.claims)} claims hold")
    if arguments.open:
        _open(file)
    return 0


def _file(arguments: argparse.Namespace) -> tuple[str, Path | None]:
    """Returns the option that names a file, and the file; "" and None without one."""
    for name in ("html", "notebook", "slides", "check"):
        if getattr(arguments, name):
            return f"--{name}", getattr(arguments, name)
    return "", None


def _writer(option: str) -> "Callable[[Played, Path, int], None]":
    from parity.teach.notebook import write_notebook
    from parity.teach.show import write_lesson
    from parity.teach.slides import write_slides

    return {"--html": write_lesson, "--notebook": write_notebook, "--slides": write_slides}[option]


def _check(arguments: argparse.Namespace) -> int:
    """Checks a file for a lesson's exercise against the numbers of the package's page: no framework is needed."""
    from parity.teach.exercises.check import check_file
    from parity.teach.lessons import rendered_numbers

    number, file = arguments.lesson, arguments.check
    verdict = check_file(number, file, rendered_numbers(number), arguments.timeout or PATIENCE_FOR_ANSWERS)
    if verdict.right:
        print(f"right: {', '.join(verdict.right)}")
    if verdict.wrong:
        print(f"wrong: {verdict.wrong}")
        return ExitCode.DIFFERENT
    return 0


def _read(arguments: argparse.Namespace, error: Exception) -> int:
    """Does what is possible without the lessons: lists them, or writes the page that the package carries."""
    from parity.cli.output import claim_file
    from parity.report.atomic import appearing
    from parity.teach.lessons import TeachError, pick, rendered_lessons, rendered_page
    from parity.teach.show import list_lessons

    lessons = rendered_lessons()
    if arguments.lesson is None:
        list_lessons(lessons)
        return 0
    lesson = pick(lessons, arguments.lesson)
    if not arguments.html:
        # Notebooks and slides are made of the lessons' texts, which the package does not have.
        do, instead = (
            "Run in a clone, or",
            f"Read this one: `parity teach {lesson.number} --html lesson.html`; to run it,",
        )
        raise TeachError(str(error).replace(do, instead))
    claim_file("--html", arguments.html)
    with appearing(arguments.html) as file:
        file.write(rendered_page(lesson.number).read_bytes())
    print(f"{arguments.html}: lesson {lesson.number}, {lesson.title}; as it was measured with {lesson.frameworks}")
    if arguments.open:
        _open(arguments.html)
    return 0


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print("no browser was found here: open the file in one")
