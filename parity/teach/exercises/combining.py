"""To program in lessons 2 and 10: towers' gradients combined, clipped before or after, weighed by examples."""

from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Case, Exercise, Numbers, Wrong
from parity.trace.arrays import Array


def combine(gradients: list[Array], how: str) -> Array:
    """Returns one gradient for those of the towers.

    gradients: a list with an array for each tower, all of one shape. how: "mean" or "sum".
    """
    total = np.asarray(np.sum(gradients, axis=0))
    return total / len(gradients) if how == "mean" else total


def always_sum(gradients: list[Array], how: str) -> Array:
    return np.asarray(np.sum(gradients, axis=0))


def always_mean(gradients: list[Array], how: str) -> Array:
    return np.asarray(np.mean(gradients, axis=0))


def over_everything(gradients: list[Array], how: str) -> Array:
    return np.asarray(np.mean(gradients) if how == "mean" else np.sum(gradients))


def over_elements(gradients: list[Array], how: str) -> Array:
    return np.asarray(np.mean(gradients, axis=1) if how == "mean" else np.sum(gradients, axis=1))


def first_alone(gradients: list[Array], how: str) -> Array:
    return gradients[0]


def swapped(gradients: list[Array], how: str) -> Array:
    return np.asarray(np.sum(gradients, axis=0) if how == "mean" else np.mean(gradients, axis=0))


def cases_of_combine(numbers: Numbers) -> list[Case]:
    by_example = np.array(numbers["by_example"])

    def over(count: int, how: str) -> Case:
        towers = [each.mean(axis=0) for each in np.split(by_example, count)]
        return Case(
            f"the {how} over {count}", lambda f: f(towers, how), np.array(numbers["tf"]["gradients"][how][str(count)])
        )

    return [over(count, how) for count in numbers["counts"] for how in ("mean", "sum")]


COMBINE = Exercise(
    combine,
    cases_of_combine,
    "Add the towers' arrays element by element, and divide by the number of towers for the mean",
    (
        Wrong(always_sum, "This is the sum: for the mean divide by the number of towers"),
        Wrong(always_mean, "This is the mean: for the sum do not divide"),
        Wrong(over_everything, "One number is left of all elements: combine over the towers alone, axis 0"),
        Wrong(over_elements, "Combined over the elements of each tower: combine over the towers, axis 0"),
        Wrong(first_alone, "This is the first tower's gradient: use all of them"),
        Wrong(swapped, "Sum and mean are swapped"),
    ),
)


def clip_and_combine(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    """Returns the mean of the towers' gradients, a list with an array for each variable, clipped by global norm.

    gradients: for each tower a list with an array for each variable. limit: of the norm of all variables together.
    at: "tower", each tower's gradients are clipped before they are combined; "combined", their mean is.
    """

    def clip(arrays: list[Array]) -> list[Array]:
        norm = np.sqrt(sum(np.sum(array**2) for array in arrays))
        return [array * limit / max(norm, limit) for array in arrays]

    if at == "tower":
        gradients = [clip(tower) for tower in gradients]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    return clip(mean) if at == "combined" else mean


def always_after(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    norm = np.sqrt(sum(np.sum(array**2) for array in mean))
    return [array * limit / max(norm, limit) for array in mean]


def always_before(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    clipped = []
    for tower in gradients:
        norm = np.sqrt(sum(np.sum(array**2) for array in tower))
        clipped.append([array * limit / max(norm, limit) for array in tower])
    return [np.mean(arrays, axis=0) for arrays in zip(*clipped, strict=True)]


def norm_of_each_variable(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    def clip(arrays: list[Array]) -> list[Array]:
        return [array * limit / max(float(np.linalg.norm(array)), limit) for array in arrays]

    if at == "tower":
        gradients = [clip(tower) for tower in gradients]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    return clip(mean) if at == "combined" else mean


def short_ones_stretched(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    def clip(arrays: list[Array]) -> list[Array]:
        norm = np.sqrt(sum(np.sum(array**2) for array in arrays))
        return [array * limit / norm for array in arrays]

    if at == "tower":
        gradients = [clip(tower) for tower in gradients]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    return clip(mean) if at == "combined" else mean


def by_value(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    if at == "tower":
        gradients = [[np.clip(array, -limit, limit) for array in tower] for tower in gradients]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    return [np.clip(array, -limit, limit) for array in mean] if at == "combined" else mean


def without_the_root(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    def clip(arrays: list[Array]) -> list[Array]:
        norm = sum(np.sum(array**2) for array in arrays)
        return [array * limit / max(norm, limit) for array in arrays]

    if at == "tower":
        gradients = [clip(tower) for tower in gradients]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]
    return clip(mean) if at == "combined" else mean


def not_clipped(gradients: list[list[Array]], limit: float, at: str) -> list[Array]:
    return [np.mean(arrays, axis=0) for arrays in zip(*gradients, strict=True)]


def cases_of_clip(numbers: Numbers) -> list[Case]:
    towers = np.array(numbers["by_example"]).reshape(4, -1, 3).mean(axis=1)
    whole, limit = np.array(numbers["tf"]["gradients"]["mean"]["4"]), numbers["limit"]

    def case(name: str, limit: float, at: str, expected: Array) -> Case:
        # Two variables: the norm is that of both together.
        given = [[tower[:1], tower[1:]] for tower in towers]
        return Case(name, lambda f: f(given, limit, at), [expected[:1], expected[1:]], "variable")

    measured = {at: np.array(each) for at, each in numbers["tf"]["clipped"].items()}
    cases = [case(f'4 towers, limit {limit:g}, at="{at}"', limit, at, measured[at]) for at in ("combined", "tower")]
    return [*cases, *(case(f'a limit that nothing reaches, at="{at}"', 100.0, at, whole) for at in measured)]


CLIP = Exercise(
    clip_and_combine,
    cases_of_clip,
    "Multiply all variables by limit / max(limit, norm), with one norm over all of them",
    (
        Wrong(not_clipped, "Nothing is clipped: multiply by limit / max(limit, norm) where `at` says"),
        Wrong(always_after, 'For at="tower" clip each tower\'s gradients, and then take the mean'),
        Wrong(always_before, 'For at="combined" take the mean first, and clip that'),
        Wrong(
            norm_of_each_variable, "Each variable is clipped by its own norm: take one norm of all variables together"
        ),
        Wrong(short_ones_stretched, "Gradients shorter than the limit are stretched to it: divide by max(limit, norm)"),
        Wrong(by_value, "Each element is clipped: multiply all by one factor, which keeps the direction"),
        Wrong(without_the_root, "The norm is the square root of the sum of squares: take the root"),
    ),
)


def combine_by_examples(gradients: list[Array], sizes: list[int]) -> Array:
    """Returns the gradient of the whole batch's mean loss.

    gradients: each tower's, of the mean loss over its own examples. sizes: how many examples each tower has.
    """
    return np.asarray(np.average(gradients, axis=0, weights=sizes))


def mean_of_means(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.mean(gradients, axis=0))


def sum_of_means(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.sum(gradients, axis=0))


def weighed_and_not_divided(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.sum([size * each for size, each in zip(sizes, gradients, strict=True)], axis=0))


def divided_by_towers(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.mean([size * each for size, each in zip(sizes, gradients, strict=True)], axis=0))


def weighed_the_wrong_way(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.average(gradients, axis=0, weights=[1 / size for size in sizes]))


def scaled_to_the_largest(gradients: list[Array], sizes: list[int]) -> Array:
    return np.asarray(np.mean([size / max(sizes) * each for size, each in zip(sizes, gradients, strict=True)], axis=0))


def cases_of_examples(numbers: Numbers) -> list[Case]:
    x, y, weights = (np.array(numbers[name]) for name in ("x", "y", "weights"))

    def run(answer: Any, sizes: list[int]) -> Any:
        ends = np.cumsum(sizes)[:-1]
        shards = zip(np.split(x, ends), np.split(y, ends), strict=True)
        return answer([2 * (xs @ weights - ys) @ xs / len(xs) for xs, ys in shards], list(sizes))

    measured, size = numbers["tf"]["sizes"], len(x)
    every = {
        f"shards of {', '.join(map(str, measured))}": (measured, numbers["tf"]["examples"]),
        "two shards of one size": ([size // 2, size - size // 2], numbers["gradient"]),
        "a shard of one example": ([1, size - 1], numbers["gradient"]),
    }

    def of_sizes(name: str, sizes: list[int], want: Any) -> Case:
        return Case(name, lambda f: run(f, sizes), np.array(want))

    return [of_sizes(name, *each) for name, each in every.items()]


EXAMPLES = Exercise(
    combine_by_examples,
    cases_of_examples,
    "Weigh each tower by its number of examples, and divide by the number of all examples",
    (
        Wrong(mean_of_means, "This is the mean of the towers' means: weigh each by its number of examples"),
        Wrong(sum_of_means, "This is the sum: weigh each tower by its share of the examples"),
        Wrong(weighed_and_not_divided, "Weighed, but not divided: divide by the number of all examples"),
        Wrong(divided_by_towers, "Divided by the number of towers: divide by the number of all examples"),
        Wrong(weighed_the_wrong_way, "Small shards weigh more here: multiply by the number of examples, do not divide"),
        Wrong(scaled_to_the_largest, "The weights do not add up to 1: divide by the number of all examples"),
    ),
)
