"""To program in lesson 16: the first different tensor, with as few looks as halving takes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Answer, Case, Exercise, Numbers, Wrong

Difference = Callable[[int], float]


def first_different(difference: Difference, count: int, tolerance: float) -> int:
    """Returns the place of the first tensor that differs by more than the tolerance; `count` where none does.

    difference: function of a place, 0 to count - 1 in the order of computation, that runs both programs and returns how
    far they are apart there. From the first tensor that differs on, all do. Each call is a look; an answer may take as
    many as halving does.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if difference(middle) > tolerance:
            high = middle
        else:
            low = middle + 1
    return low


def one_after_the_other(difference: Difference, count: int, tolerance: float) -> int:
    return next((place for place in range(count) if difference(place) > tolerance), count)


def largest(difference: Difference, count: int, tolerance: float) -> int:
    return int(np.argmax([difference(place) for place in range(count)]))


def last_same(difference: Difference, count: int, tolerance: float) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if difference(middle) > tolerance:
            high = middle
        else:
            low = middle + 1
    return low - 1


def one_must_differ(difference: Difference, count: int, tolerance: float) -> int:
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if difference(middle) > tolerance:
            high = middle
        else:
            low = middle + 1
    return low


def rounding_differs(difference: Difference, count: int, tolerance: float) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if difference(middle) > 0:
            high = middle
        else:
            low = middle + 1
    return low


def wrong_half(difference: Difference, count: int, tolerance: float) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if difference(middle) > tolerance:
            low = middle + 1
        else:
            high = middle
    return low


def first_is_same(difference: Difference, count: int, tolerance: float) -> int:
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if difference(middle) > tolerance:
            high = middle
        else:
            low = middle
    return high


def cases_of_first_different(numbers: Numbers) -> list[Case]:
    def case(name: str, differences: list[float], first: int, tolerance: float = 1e-12) -> Case:
        expected = {"the place": np.array(first), "looks beyond those of halving": np.array(0)}
        return Case(name, lambda f: looked(f, differences, tolerance), expected)

    layers, steps = numbers["layers"], numbers["by_step"]
    return [
        case("5 tensors, the fourth differs", [0.0, 1e-16, 3e-16, 2e-3, 1e-2], 3),
        case(
            "the tensors of the port as it came", layers["both"]["float64"], numbers["tensors"].index(numbers["first"])
        ),
        case("the steps of the port with one bug", steps["second"]["float64"], numbers["step"] + 1),
        case("the port as it should be", layers["right"]["float64"], len(numbers["tensors"])),
        case("the first of 9 differs", [1e-3, 0.1, *[1e-2] * 7], 0),
        case("1 tensor, float32", [1e-7], 1, 1e-5),
    ]


def looked(answer: Answer, differences: list[float], tolerance: float) -> Any:
    """Returns what an answer gives, and how many looks it took beyond those of halving."""
    looks = [0]

    def difference(place: int) -> float:
        looks[0] += 1
        return differences[place]

    place = answer(difference, len(differences), tolerance)
    return place, max(0, looks[0] - len(differences).bit_length())


FIRST_DIFFERENT = Exercise(
    first_different,
    cases_of_first_different,
    "Look at the middle, and go on in the half that holds the first place that is beyond the tolerance",
    (
        Wrong(one_after_the_other, "Right and slow: halve what is left, and do not look at one after the other"),
        Wrong(largest, "This is the largest difference: the first is where the bug is"),
        Wrong(last_same, "This is the last that is the same: the first different one is behind it"),
        Wrong(one_must_differ, "Maybe none differs: then the answer is count"),
        Wrong(rounding_differs, "Rounding is taken for a bug: compare with the tolerance, not with 0"),
        Wrong(
            wrong_half, "The search goes on in the other half: where the middle differs, the first is there or before"
        ),
        Wrong(first_is_same, "The first tensor is never looked at: it may differ too"),
    ),
)
