"""An exercise: a function to write, the cases it is checked on, and the wrong answers that are recognised."""

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Answer = Callable[..., Any]
Numbers = Mapping[str, Any]
TOLERANCE_OF_ANSWERS = 1e-9  # relative to the largest element: the lessons compute in float64, in another order
SHOWN_AT_ONCE = 6  # elements of an array that a message shows


class ExerciseError(ValueError):
    """An answer cannot be checked; the message says who, what was expected, what came and what to do."""


class Case(NamedTuple):
    """One call, or a few, of an answer.

    Fields:
      name: what is computed, e.g. "8 examples over 2 towers".
      run: calls the answer; returns numbers, arrays, and lists, tuples or dicts of such.
      expected: what that should be, from the numbers of the lesson.
      part: what an item of a list is called, e.g. "piece".
      tolerance: of numbers, relative to the largest element of their array.
    """

    name: str
    run: Callable[[Answer], Any]
    expected: Any
    part: str = "item"
    tolerance: float = TOLERANCE_OF_ANSWERS


class Wrong(NamedTuple):
    """A wrong answer that people give.

    Fields:
      answer: a function that gives it.
      advice: what to do about it, a sentence.
    """

    answer: Answer
    advice: str


class Exercise(NamedTuple):
    """One function to write.

    Fields:
      right: a right answer; its name, parameters and docstring are the exercise.
      cases: takes the lesson's numbers; returns what an answer is checked on, the simplest first.
      advice: what to do about a wrong answer that is none of `wrong`, a sentence.
      wrong: typical wrong answers; the first that gives what the answer gave is named.
    """

    right: Answer
    cases: Callable[[Numbers], Sequence[Case]]
    advice: str
    wrong: Sequence[Wrong]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.right.__name__

    def starter(self) -> str:
        """Returns the function without its body, to begin with."""
        parameters = ", ".join(inspect.signature(self.right).parameters)
        words = textwrap.indent(inspect.getdoc(self.right) or "", "    ").strip()
        end = "\n    " if "\n" in words else ""
        return f'def {self.name}({parameters}):\n    """{words}{end}"""\n    ...'


def starter(exercises: Sequence[Exercise]) -> str:
    """Returns a file to begin with: every function without its body."""
    return "import numpy as np\n\n\n" + "\n\n\n".join(each.starter() for each in exercises) + "\n"


class Outcome(NamedTuple):
    """What came of a case: a value, or the exception that was raised."""

    value: Any = None
    raised: BaseException | None = None


def outcome(case: Case, answer: Answer) -> Outcome:
    """Runs a case. An exception is part of the outcome."""
    try:
        with np.errstate(all="ignore"):  # some cases overflow on purpose
            return Outcome(case.run(answer))
    except Exception as error:
        return Outcome(raised=error)


def mistake(exercise: Exercise, answer: Answer, numbers: Numbers, file: str = "") -> str:
    """Returns one line about the first thing that is wrong with an answer, and "" where nothing is.

    Args:
      exercise: which one.
      answer: the function that was written.
      numbers: those of the lesson.
      file: path of the answer's file, for the line at which an exception was raised.
    """
    cases = exercise.cases(numbers)
    for case in cases:
        result = outcome(case, answer)
        if words := _difference(case, result, file):
            results = {each.name: outcome(each, answer) for each in cases}
            return f"{exercise.name}, {case.name}: {words}. {_advice(exercise, case, result, results, cases)}."
    return ""


def _difference(case: Case, result: Outcome, file: str) -> str:
    if result.raised is not None:
        error, line = result.raised, line_in(result.raised, file)
        words = " ".join(str(error).split())
        return f"expected a result, got {type(error).__name__}{line}{': ' if words else ''}{words}"
    return difference(case.expected, result.value, case)


def _advice(
    exercise: Exercise, case: Case, result: Outcome, results: Mapping[str, Outcome], cases: Sequence[Case]
) -> str:
    """Returns what to do: of the wrong answer that gives the same in all cases, else in this one, else the exercise's."""
    equal = [wrong for wrong in exercise.wrong if _same(case, result, outcome(case, wrong.answer))]
    for wrong in equal:
        if all(_same(each, results[each.name], outcome(each, wrong.answer)) for each in cases):
            return wrong.advice
    return equal[0].advice if equal else exercise.advice


def _same(case: Case, one: Outcome, other: Outcome) -> bool:
    if one.raised is not None or other.raised is not None:
        return type(one.raised) is type(other.raised) and str(one.raised) == str(other.raised)
    try:
        expected = _shaped(case.expected, other.value)
    except (TypeError, ValueError):
        return False
    return not difference(expected, one.value, case)


def _shaped(like: Any, value: Any) -> Any:
    """Returns a value in the form of an expected one, which names the items of a tuple."""
    if isinstance(like, dict):
        return {name: _shaped(like[name], each) for name, each in zip(like, value, strict=True)}
    if isinstance(like, list):
        return [_shaped(like[0], each) for each in value]
    return np.asarray(value)


def difference(expected: Any, actual: Any, case: Case, place: str = "") -> str:
    """Returns where two values differ first, as "expected X, got Y", and "" where they do not."""
    where = f"{place} to be " if place else ""
    if isinstance(expected, dict):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            return f"expected {where}{' and '.join(expected)}, a tuple, got {describe(actual)}"
        pairs = zip(expected.items(), actual, strict=True)
        return next((each for (name, want), have in pairs if (each := difference(want, have, case, name))), "")
    if isinstance(expected, list):
        if not isinstance(actual, tuple | list | np.ndarray) or len(actual) != len(expected):
            items = f"{case.part} 0" + (f" to {case.part} {len(expected) - 1}" if len(expected) > 1 else "")
            return f"expected {where}a list of {len(expected)}, {items}, got {describe(actual)}"
        places = (f"{place}{', ' if place else ''}{case.part} {at}" for at in range(len(expected)))
        rows = zip(places, expected, actual, strict=True)
        return next((each for here, want, have in rows if (each := difference(want, have, case, here))), "")
    return _of_arrays(np.asarray(expected), actual, case, where)


def _of_arrays(expected: Any, actual: Any, case: Case, where: str) -> str:
    try:
        numbers = np.asarray(actual)
    except ValueError:  # rows of several lengths
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biuf":
        return f"expected {where}{describe(expected)}, got {describe(actual)}"
    if numbers.shape != expected.shape:
        return f"expected {where}{_shape(expected)}, got {_shape(numbers)}"
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    if np.allclose(numbers, expected, rtol=0, atol=case.tolerance * scale, equal_nan=True):
        return ""
    return "expected {}{}, got {}".format(where, *_telling(expected, numbers))


def _shape(array: Any) -> str:
    return f"an array of shape {array.shape}" if array.ndim else f"one number, {describe(array)}"


def _telling(expected: Any, actual: Any) -> tuple[str, str]:
    """Returns both as text: from the first element that differs on, in as many digits as show it."""
    one, other = np.ravel(expected), np.ravel(actual)
    first = int(np.argmax(one != other)) // SHOWN_AT_ONCE * SHOWN_AT_ONCE if one.size > SHOWN_AT_ONCE else 0
    texts = "", ""
    for digits in (5, 10, 17):
        texts = _numbers(one, first, digits), _numbers(other, first, digits)
        if texts[0] != texts[1]:
            break
    return texts


def _numbers(flat: Any, first: int, digits: int) -> str:
    form = f".{digits}g" if flat.dtype.kind == "f" else ""
    shown = ", ".join(format(each.item(), form) for each in flat[first : first + SHOWN_AT_ONCE])
    return ("… " if first else "") + shown + (" …" if flat.size > first + SHOWN_AT_ONCE else "")


def describe(value: Any) -> str:
    """Returns a value in a few words for a message."""
    if isinstance(value, bool | int | float | np.number) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    ):
        array = np.asarray(value)
        return _numbers(np.ravel(array), 0, 5) if array.size else "an empty array"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "None, nothing is returned" if value is None else f"a {type(value).__name__}"


def line_in(error: BaseException, file: str) -> str:
    """Returns " (line N of FILE)" for the innermost line of a file in a traceback, and "" where there is none."""
    line, place = 0, error.__traceback__
    while place is not None:
        if file and place.tb_frame.f_code.co_filename == file:
            line = place.tb_lineno
        place = place.tb_next
    return f" (line {line} of {file.rpartition('/')[2]})" if line else ""
