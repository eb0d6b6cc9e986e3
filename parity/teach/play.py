"""Has both frameworks play their parts of a lesson, each in a process of its own, and checks what the lesson claims."""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from parity.teach.lessons import Lesson, TeachError, load_module
from parity.worker import bootstrap
from parity.worker.process import SideProcess
from parity.worker.reaper import temporary_folder

LESSON_SILENCE = 120.0  # seconds without an answer
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_USE_LEGACY_KERAS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",  # towers and ranks of the lessons live on the CPU
    "OMP_NUM_THREADS": "1",  # the torch side forks its ranks
}
Tell = Callable[[str], None]


class Played(NamedTuple):
    """What came of a lesson.

    Fields:
      lesson: which one.
      numbers: name to JSON value; what its text and its diagram show.
      claims: sentence to whether it holds.
      frameworks: those that took part, with their versions.
    """

    lesson: Lesson
    numbers: dict[str, Any]
    claims: dict[str, bool]
    frameworks: list[str]


class Players:
    """Processes that play the parts; they start when they are first needed and serve one lesson after the other.

    Args:
      tf_python: interpreter with TensorFlow; by default this one.
      folder: takes what they print.
      silence: seconds without an answer after which a process is ended.
    """

    def __init__(self, tf_python: str | None, folder: Path, silence: float = LESSON_SILENCE) -> None:
        self.tf_python = tf_python
        self.silence = silence
        self._folder = folder
        self._started: dict[str, SideProcess] = {}

    def ask(self, lesson: Lesson, arguments: dict[str, Any]) -> dict[str, Any]:
        """Has every framework of a lesson measure; returns part name to its answer.

        Raises:
          SideFailed: a part raised, died or was silent for too long.
        """
        # Both begin before either is waited for: frameworks start at the same time.
        futures = {name: self.begin(name, lesson, arguments) for name in lesson.parts()}
        return {name: future.result() for name, future in futures.items()}

    def begin(self, name: str, lesson: Lesson, arguments: dict[str, Any]) -> "Future[Any]":
        """Has one framework begin to measure."""
        side = self._side(name)
        return side.ask("measure", folder=str(lesson.folder), part=f"{name}_part", arguments=arguments)

    def close(self) -> None:
        """Ends the processes and whatever they started."""
        for side in self._started.values():
            side.close()
        self._started = {}

    def _side(self, name: str) -> SideProcess:
        if name not in self._started:
            python = (self.tf_python if name == "tf" else None) or sys.executable
            environment = {**os.environ, **QUIET, "PYTHONFAULTHANDLER": "1"}
            # Another Python cannot use the packages that these variables name for this one.
            if Path(python).resolve() != Path(sys.executable).resolve():
                environment = {
                    key: value for key, value in environment.items() if key not in ("PYTHONPATH", "PYTHONHOME")
                }
            command = [python, "-u", str(bootstrap.__file__), "parity.teach.part"]
            log = self._folder / f"{name}.log"
            self._started[name] = SideProcess(name, command, environment, log, self.silence)
        return self._started[name]


@contextlib.contextmanager
def open_players(tf_python: str | None, silence: float = LESSON_SILENCE) -> Iterator[Players]:
    """Yields `Players`, and ends their processes in every case."""
    with temporary_folder(prefix="parity-teach-") as folder:
        players = Players(tf_python, Path(folder), silence)
        try:
            yield players
        finally:
            players.close()


def play(lesson: Lesson, players: Players, tell: Tell = lambda what: None) -> Played:
    """Runs a lesson and checks it.

    Args:
      lesson: which one.
      players: who plays the frameworks' parts.
      tell: told in a few words what is being done.

    Raises:
      TeachError: something that the lesson claims does not hold here.
      SideFailed: a part failed.
    """
    module = load_module(lesson)
    if lesson.parts():
        tell("running " + " and ".join({"tf": "TensorFlow", "torch": "torch"}[name] for name in lesson.parts()))
        answers = players.ask(lesson, module.ARGUMENTS)
        frameworks = [answer["framework"] for answer in answers.values()]
        numbers_of = {name: answer["answer"] for name, answer in answers.items()}
        if hasattr(module, "reports"):
            numbers_of["reports"] = module.reports(players, tell)
        numbers, claims = module.findings(**numbers_of)
    else:
        numbers, claims = module.findings(players, tell)
        frameworks = numbers["frameworks"]
    check_claims(lesson, claims)
    return Played(lesson, _finite(numbers), claims, frameworks)


def check_claims(lesson: Lesson, claims: dict[str, bool]) -> None:
    """Raises `TeachError` if a lesson claims nothing, or something that does not hold."""
    if not claims:
        raise TeachError(
            f"lesson {lesson.number}: expected claims, got none. Write them into {lesson.folder}/lesson.py."
        )
    for sentence, holds in claims.items():
        if not holds:
            raise TeachError(
                f"lesson {lesson.number}: expected to find that {sentence}; this run's numbers say otherwise. "
                "Compare the frameworks' versions with constraints.txt, and report it."
            )


def _finite(value: Any) -> Any:
    # JSON has no words for these: a number that is not finite is a string, as in --json.
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
