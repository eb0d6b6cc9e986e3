"""List the lessons, or run one step by step: what happens to a gradient on its way."""

import argparse
from pathlib import Path

from parity.cli.output import seconds
from parity.exit_codes import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("lesson", type=int, nargs="?", metavar="N", help="number of a lesson; without it, lists them")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the lesson as a page with a diagram to play with"
    )
    parser.add_argument("--open", action="store_true", help="open that page in a browser")
    parser.add_argument(
        "--tf-python", metavar="PATH", help="interpreter with TensorFlow (default: $PARITY_TF_PYTHON, else this one)"
    )
    parser.add_argument(
        "--lessons", type=Path, metavar="DIR", help="where the lessons are (default: examples/lessons of the checkout)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=120.0,
        metavar="S",
        help="seconds without an answer after which a side is ended",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs a lesson or lists them; returns 0, and 2 where that is not possible."""
    import sys

    from parity.teach.lessons import TeachError

    try:
        return _teach(arguments)
    except TeachError as error:
        print(f"parity: {error}", file=sys.stderr)
        return ExitCode.INCOMPARABLE


def _teach(arguments: argparse.Namespace) -> int:
    import os

    from parity.cli.output import claim_file
    from parity.teach.lessons import NoLessonsError, TeachError, find_lessons, lessons_folder, pick
    from parity.teach.play import open_players, play
    from parity.teach.show import busy, list_lessons, pause, show_lesson, write_lesson

    try:
        lessons = find_lessons(lessons_folder(arguments.lessons))
    except NoLessonsError as error:
        return _read(arguments, error)
    if arguments.lesson is None:
        if arguments.html or arguments.open:
            raise TeachError("teach: expected the number of a lesson for --html and --open, got none. Name one.")
        list_lessons(lessons)
        return 0
    if arguments.open and not arguments.html:
        raise TeachError("teach: expected --html FILE for --open, got none. Name the file to write and open.")
    lesson = pick(lessons, arguments.lesson)
    if arguments.html:
        # Before the lesson is played, which starts both frameworks.
        claim_file("--html", arguments.html)
    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON")
    with open_players(python, arguments.timeout) as players, busy() as tell:
        played = play(lesson, players, tell)
    if not arguments.html:
        show_lesson(played, pause)
        return 0
    write_lesson(played, arguments.html, len(lessons))
    print(f"{arguments.html}: lesson {lesson.number}, {lesson.title}; {len(played.claims)} claims hold")
    if arguments.open:
        _open(arguments.html)
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
