"""Checks a learner's file, in a process of its own: a file that hangs or ends its process leaves the check to say so."""

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.exercises.exercise import line_in, mistake
from parity.worker.protocol import claim_standard_streams, serve


def check(arguments: dict[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Checks a file: `lesson`, `file`, and the lesson's `numbers`; returns which functions are right, and what is wrong."""
    file, exercises = arguments["file"], EXERCISES[arguments["lesson"]]
    right: list[str] = []
    module, wrong = _load(file)
    if module is None:
        return {"right": right, "wrong": wrong}
    for exercise in exercises:
        answer = getattr(module, exercise.name, None)
        if not callable(answer):
            wrong = f"{exercise.name}: expected such a function in {_short(file)}, got none. Begin with the lesson's."
        else:
            wrong = mistake(exercise, answer, arguments["numbers"], file)
        if wrong:
            return {"right": right, "wrong": wrong}
        right.append(exercise.name)
    return {"right": right, "wrong": ""}


def _load(file: str) -> tuple[ModuleType | None, str]:
    spec = importlib.util.spec_from_file_location("answer", file)
    if spec is None or spec.loader is None:
        return None, f"{_short(file)}: expected a Python file, got another one. Name one that ends in .py."
    module = importlib.util.module_from_spec(spec)
    sys.modules["answer"] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else line_in(error, file)
        words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
        return None, (
            f"{_short(file)}: expected a file that can be imported, got {type(error).__name__}{line}: {words}. "
            "Run it with python first."
        )
    return module, ""


def _short(file: str) -> str:
    return file.rpartition("/")[2]


if __name__ == "__main__":
    serve(claim_standard_streams(), {"check": check})
