"""To program in lessons 13 and 14: a step in pieces that is sent once, and a message that leaves something out."""

from collections.abc import Callable
from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Answer, Case, Exercise, Numbers, Wrong
from parity.teach.exercises.ranks import on_ranks
from parity.trace.arrays import Array

Gradient = Callable[[Array], Array]
Collective = Callable[[Array], Array]


def accumulate(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    """Returns the gradient of the mean loss over all examples of all ranks.

    gradient: function of some examples, the gradient of their mean loss; they have to fit, as a piece does. pieces: this
    rank's micro-batches, arrays of examples; ranks have equally many examples. size: number of ranks. all_reduce:
    function of an array that all ranks call, the sum of theirs; a step calls it once.
    """
    whole = sum(len(piece) for piece in pieces)
    own = np.sum([gradient(piece) * len(piece) / whole for piece in pieces], axis=0)
    return all_reduce(own) / size


def each_piece_reduced(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Any:
    whole = sum(len(piece) for piece in pieces)
    return sum(all_reduce(gradient(piece) * len(piece) / whole) / size for piece in pieces)


def pieces_added_up(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    return all_reduce(np.sum([gradient(piece) for piece in pieces], axis=0)) / size


def mean_of_pieces(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    return all_reduce(np.mean([gradient(piece) for piece in pieces], axis=0)) / size


def ranks_added_up(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    whole = sum(len(piece) for piece in pieces)
    return all_reduce(np.sum([gradient(piece) * len(piece) / whole for piece in pieces], axis=0))


def never_sent(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Any:
    whole = sum(len(piece) for piece in pieces)
    return np.sum([gradient(piece) * len(piece) / whole for piece in pieces], axis=0)


def last_piece_alone(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    return all_reduce(gradient(pieces[-1])) / size


def computed_at_once(gradient: Gradient, pieces: list[Array], size: int, all_reduce: Collective) -> Array:
    return all_reduce(gradient(np.concatenate(pieces))) / size


def cases_of_accumulate(numbers: Numbers) -> list[Case]:
    x, y, weights = (np.array(numbers[name]) for name in ("x", "y", "weights"))
    ranks = numbers["ranks"]
    own = len(x) // ranks

    def case(name: str, sizes: list[int]) -> Case:
        expected = {
            "the gradient": np.array(numbers["whole"]),
            "calls of all_reduce": np.array(1),
            "examples at once": np.array(max(sizes)),
        }
        ends = np.cumsum(sizes)[:-1]
        rows = [np.split(part, ends) for part in np.split(np.arange(len(x)), ranks)]
        return Case(name, lambda f: step_in_pieces(f, x, y, weights, rows), [expected] * ranks, "rank")

    even = [own // numbers["pieces"]] * numbers["pieces"]
    return [case(f"{len(even)} pieces of {even[0]}", even), case("pieces of 3, 3 and 2", numbers["ragged"])]


def step_in_pieces(answer: Answer, x: Array, y: Array, weights: Array, rows: list[list[Array]]) -> list[Any]:
    """Returns of each rank what an answer gives, how often it reduced, and on how many examples it computed at once."""

    def be(rank: Any) -> tuple[Any, int, int]:
        calls, at_once = [0], [0]

        def gradient(examples: Array) -> Array:
            at_once[0] = max(at_once[0], len(examples))
            return np.asarray(2 * x[examples].T @ (x[examples] @ weights - y[examples]) / len(examples))

        def all_reduce(array: Array) -> Array:
            calls[0] += 1
            return np.asarray(rank.all_reduce(array))

        return answer(gradient, rows[rank.rank], rank.size, all_reduce), calls[0], at_once[0]

    return on_ranks(be, len(rows)).values


ACCUMULATE = Exercise(
    accumulate,
    cases_of_accumulate,
    "Weigh each piece's gradient by its share of the rank's examples, add them up, and take the mean over ranks once",
    (
        Wrong(each_piece_reduced, "Right and wasteful: add up on the rank first, and call all_reduce once"),
        Wrong(pieces_added_up, "Means are added up: weigh each by its piece's share of the rank's examples"),
        Wrong(mean_of_pieces, "Pieces differ in size: weigh each by its number of examples, not equally"),
        Wrong(ranks_added_up, "This is the sum over ranks: divide by their number"),
        Wrong(never_sent, "The ranks' gradients are not combined: call all_reduce on what was added up"),
        Wrong(last_piece_alone, "Only the last piece counts: add its gradient to those of the others"),
        Wrong(computed_at_once, "The pieces are put together, which does not fit: compute them one after the other"),
    ),
)


def compress(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    """Returns what a rank sends, and its memory for the next step.

    gradient: array [n] of this step. memory: array [n], what earlier steps have left out. Sent are the `count`
    elements of the largest absolute value of both together, an array [n] with zeros elsewhere.
    """
    whole = gradient + memory
    size = np.abs(whole)
    sent = np.where(size >= np.sort(size)[-count], whole, 0.0)
    return sent, whole - sent


def without_memory(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = np.abs(gradient)
    sent = np.where(size >= np.sort(size)[-count], gradient, 0.0)
    return sent, memory


def with_signs(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = gradient + memory
    sent = np.where(size >= np.sort(size)[-count], gradient + memory, 0.0)
    return sent, gradient + memory - sent


def kept_for_one_step(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = np.abs(gradient + memory)
    sent = np.where(size >= np.sort(size)[-count], gradient + memory, 0.0)
    return sent, gradient - sent


def kept_all(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = np.abs(gradient + memory)
    sent = np.where(size >= np.sort(size)[-count], gradient + memory, 0.0)
    return sent, gradient + memory


def chosen_by_gradient(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = np.abs(gradient)
    sent = np.where(size >= np.sort(size)[-count], gradient + memory, 0.0)
    return sent, gradient + memory - sent


def memory_not_sent(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = np.abs(gradient + memory)
    sent = np.where(size >= np.sort(size)[-count], gradient, 0.0)
    return sent, gradient + memory - sent


def smallest(gradient: Array, memory: Array, count: int) -> tuple[Array, Array]:
    size = -np.abs(gradient + memory)
    sent = np.where(size >= np.sort(size)[-count], gradient + memory, 0.0)
    return sent, gradient + memory - sent


def cases_of_compress(numbers: Numbers) -> list[Case]:
    def first(f: Answer) -> Any:
        return f(np.array([0.5, -3.0, 1.0, 2.0]), np.zeros(4), 2)

    def second(f: Answer) -> Any:
        return f(np.array([0.5, -0.25, 1.0, 2.0]), np.array([2.0, 0.0, -0.5, -1.75]), 1)

    sent = {"what is sent": np.array([0.0, -3.0, 0.0, 2.0]), "the memory": np.array([0.5, 0.0, 1.0, 0.0])}
    later = {"what is sent": np.array([2.5, 0.0, 0.0, 0.0]), "the memory": np.array([0.0, -0.25, 0.5, 0.25])}
    last = np.array(numbers["torch"]["runs"]["top, feedback"]["weights"])
    return [
        Case("2 of 4 elements, nothing in memory", first, sent),
        Case("1 of 4 elements, some in memory", second, later),
        Case(f"{numbers['steps']} steps", lambda f: trained(f, numbers), last, tolerance=1e-7),
    ]


def trained(answer: Answer, numbers: Numbers) -> Array:
    """Returns the last weights of a training whose ranks send what an answer gives."""
    ranks, size, count = numbers["ranks"], numbers["size"], numbers["count"]
    parts = [np.split(np.array(numbers[name]), ranks) for name in ("x", "y")]
    weights, memories = np.zeros(size), [np.zeros(size) for _ in range(ranks)]
    for _ in range(numbers["steps"]):
        total = np.zeros(size)
        for rank, (x, y) in enumerate(zip(*parts, strict=True)):
            sent, memories[rank] = answer(2 * x.T @ (x @ weights - y) / len(x), memories[rank], count)
            total += sent
        weights = weights - numbers["rate"] * total / ranks
    return weights


COMPRESS = Exercise(
    compress,
    cases_of_compress,
    "Add the memory to the gradient, send the largest elements of that, and keep what was not sent",
    (
        Wrong(without_memory, "The memory is not used: add it to the gradient before anything is chosen"),
        Wrong(with_signs, "Large negative elements are left out: choose by the absolute value"),
        Wrong(kept_for_one_step, "What earlier steps left out is forgotten: keep it until it is sent"),
        Wrong(kept_all, "What was sent is kept as well, and is sent again: subtract it from the memory"),
        Wrong(chosen_by_gradient, "Small elements never come: choose among the sums of gradient and memory"),
        Wrong(memory_not_sent, "The memory decides what is sent and stays at home: send the sum of both"),
        Wrong(smallest, "These are the smallest elements: take those of the largest absolute value"),
    ),
)
