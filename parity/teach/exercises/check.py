"""Checks a file that somebody wrote for a lesson's exercise; the file is run in a child process, with a time-out."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.exercises.exercise import Answer, ExerciseError, mistake
from parity.worker import bootstrap
from parity.worker.failures import SideFailed
from parity.worker.process import SideProcess
from parity.worker.reaper import temporary_folder


class Verdict(NamedTuple):
    """What came of a check.

    Fields:
      right: the functions that are right.
      wrong: one line about the first that is not, "" where all are right.
    """

    right: list[str]
    wrong: str


def check_file(lesson: int, file: Path, numbers: Mapping[str, Any], silence: float) -> Verdict:
    """Checks a file.

    Args:
      lesson: number of the lesson whose exercise it is.
      file: the Python file. It is run with your rights.
      numbers: those of the lesson.
      silence: seconds after which it is ended.

    Raises:
      ExerciseError: the lesson has no exercise, or there is no such file.
    """
    if lesson not in EXERCISES:
        those = ", ".join(map(str, EXERCISES))
        raise ExerciseError(
            f"teach: expected a lesson with an exercise for --check, got {lesson}. These have one: {those}."
        )
    if not file.is_file():
        raise ExerciseError(f"teach: expected a Python file for --check, got {file}. Write it, and name it.")
    with temporary_folder(prefix="parity-check-") as folder:
        # Numpy's threads would only wait for each other here.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        command = [sys.executable, "-u", str(bootstrap.__file__), "parity.teach.exercises.child"]
        side = SideProcess("exercise", command, environment, Path(folder) / "log", silence)
        try:
            asked = side.ask("check", lesson=lesson, file=str(file.resolve()), numbers=numbers)
            return Verdict(**asked.result())
        except SideFailed as error:
            return Verdict([], _line_about(file, error, silence))
        finally:
            side.close()


def _line_about(file: Path, error: SideFailed, silence: float) -> str:
    if error.hung:
        came = f"nothing within {silence:g} s; it was ended. Look for an endless loop, or allow more with --timeout."
    else:
        came = f"a process that ended. {' '.join(error.args[0].split())}"
    return f"{file.name}: expected answers, got {came}"


def check_functions(lesson: int, numbers: Mapping[str, Any], *functions: Answer) -> None:
    """Checks functions in this process, as in a notebook, and prints what is right and what is wrong.

    Args:
      lesson: number of the lesson whose exercise it is.
      numbers: those of the lesson.
      functions: in the order of the exercises.
    """
    for exercise, function in zip(EXERCISES[lesson], functions, strict=True):
        wrong = mistake(exercise, function, numbers)
        print(f"wrong: {wrong}" if wrong else f"right: {exercise.name}")
