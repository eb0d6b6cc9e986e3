"""To program in lessons 1 and 7: a batch cut into pieces, gradients put into buckets."""

from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Case, Exercise, Numbers, Wrong
from parity.trace.arrays import Array


def split(batch: Array, towers: int) -> list[Array]:
    """Returns a list with each tower's piece of a batch, in order: the first examples are the first tower's.

    batch: array whose first axis is the examples. towers: their number, which divides that of the examples.
    """
    size = len(batch) // towers
    return [batch[tower * size : (tower + 1) * size] for tower in range(towers)]


def round_robin(batch: Array, towers: int) -> list[Array]:
    return [batch[tower::towers] for tower in range(towers)]


def whole_for_each(batch: Array, towers: int) -> list[Array]:
    return [batch for tower in range(towers)]


def pieces_of_as_many_as_towers(batch: Array, towers: int) -> list[Array]:
    return [batch[tower * towers : (tower + 1) * towers] for tower in range(towers)]


def last_first(batch: Array, towers: int) -> list[Array]:
    return np.split(batch, towers)[::-1]


def one_piece_short(batch: Array, towers: int) -> list[Array]:
    size = len(batch) // towers
    return [batch[start : start + size] for start in range(0, len(batch) - size, size)]


def shuffled(batch: Array, towers: int) -> list[Array]:
    return np.split(np.random.RandomState(0).permutation(batch), towers)


def overlapping(batch: Array, towers: int) -> list[Array]:
    size = len(batch) // towers
    return [batch[tower : tower + size] for tower in range(towers)]


def cases_of_split(numbers: Numbers) -> list[Case]:
    x, y, weights = (np.array(numbers[name]) for name in ("x", "y", "weights"))

    def gradients(answer: Any) -> list[Array]:
        pieces = zip(answer(x, numbers["towers"]), answer(y, numbers["towers"]), strict=True)
        return [2 * (xs @ weights - ys) @ xs / len(xs) for xs, ys in pieces]

    def over(towers: int) -> Case:
        return Case(f"{len(x)} examples over {towers}", lambda f: f(x, towers), np.split(x, towers), "piece")

    cases = [over(towers) for towers in (numbers["towers"], 4, 8, 1)]
    measured = [np.array(each) for each in numbers["tf"]["tower_gradients"]]
    return [*cases, Case("gradients as TensorFlow's towers have them", gradients, measured, "gradient of tower")]


SPLIT = Exercise(
    split,
    cases_of_split,
    "Cut the first axis in order: examples 0 to size - 1 are tower 0's, the next are tower 1's",
    (
        Wrong(round_robin, "Every second example is round-robin: cut in order, as `tf.split` does"),
        Wrong(whole_for_each, "Every tower has the whole batch: give it its own piece"),
        Wrong(pieces_of_as_many_as_towers, "A piece has len(batch) / towers examples, and not `towers`"),
        Wrong(last_first, "The pieces are in reverse order: tower 0 has the first"),
        Wrong(one_piece_short, "The last piece is missing: give every example to a tower"),
        Wrong(shuffled, "The examples are shuffled: keep their order"),
        Wrong(overlapping, "The pieces overlap: begin each where the one before it ends"),
    ),
)


def buckets(sizes: list[int], cap: float) -> list[list[int]]:
    """Returns the buckets in the order in which they are sent, each a list of indices of parameters.

    sizes: bytes of each parameter's gradient, in the order of the model. cap: bytes at which a bucket is full.
    Gradients get ready from the last parameter to the first. A bucket that has reached `cap` is sent, and the next begins.
    """
    made: list[list[int]] = [[]]
    for index in reversed(range(len(sizes))):
        if sum(sizes[each] for each in made[-1]) >= cap:
            made.append([])
        made[-1].append(index)
    return made


def in_order_of_the_model(sizes: list[int], cap: float) -> list[list[int]]:
    made: list[list[int]] = [[]]
    for index in range(len(sizes)):
        if sum(sizes[each] for each in made[-1]) >= cap:
            made.append([])
        made[-1].append(index)
    return made


def each_alone(sizes: list[int], cap: float) -> list[list[int]]:
    return [[index] for index in reversed(range(len(sizes)))]


def full_ones_only(sizes: list[int], cap: float) -> list[list[int]]:
    made: list[list[int]] = []
    bucket: list[int] = []
    for index in reversed(range(len(sizes))):
        bucket.append(index)
        if sum(sizes[each] for each in bucket) >= cap:
            made.append(bucket)
            bucket = []
    return made


def beyond_the_cap(sizes: list[int], cap: float) -> list[list[int]]:
    made: list[list[int]] = [[]]
    for index in reversed(range(len(sizes))):
        if sum(sizes[each] for each in made[-1]) > cap:
            made.append([])
        made[-1].append(index)
    return made


def counted_and_not_weighed(sizes: list[int], cap: float) -> list[list[int]]:
    order = list(reversed(range(len(sizes))))
    each = max(1, int(cap // max(sizes)))
    return [order[start : start + each] for start in range(0, len(order), each)]


def cases_of_buckets(numbers: Numbers) -> list[Case]:
    weight = 4 * numbers["width"] ** 2
    sizes = [weight, numbers["layer_bytes"] - weight] * numbers["layers"]  # weight and bias of each layer

    def layers(answer: Any, cap: float) -> list[Any]:
        return [sorted({index // 2 for index in bucket}, reverse=True) for bucket in answer(list(sizes), cap)]

    def of_cap(name: str, cap: float) -> Case:
        sent = [np.array(bucket["layers"]) for bucket in numbers["sent"][name]]
        return Case(f"buckets of {name}", lambda f: layers(f, cap * 2**20), sent, "layers in bucket")

    return [of_cap(name, cap) for name, cap in numbers["caps"].items()]


BUCKETS = Exercise(
    buckets,
    cases_of_buckets,
    "Go from the last parameter to the first, and begin a bucket where the one before has reached the cap",
    (
        Wrong(in_order_of_the_model, "Backward ends with the first layer: begin with the last parameter"),
        Wrong(each_alone, "Every gradient is sent alone: put them together until the cap is reached"),
        Wrong(full_ones_only, "What is left in the end, less than the cap, is never sent: return that bucket too"),
        Wrong(beyond_the_cap, "A bucket that has just reached the cap is full: compare with >= and not with >"),
        Wrong(counted_and_not_weighed, "Parameters differ in size: add up bytes, do not count parameters"),
    ),
)
