"""To program in lessons 5, 8 and 11: asynchronous updates, a step in mixed precision, a learning rate that is warmed up."""

from collections.abc import Callable
from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Case, Exercise, Numbers, Wrong
from parity.trace.arrays import Array

Gradient = Callable[..., Array]


def serve(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> tuple[Array, list[int]]:
    """Returns the weights of an asynchronous parameter server after some events, and how stale each update was.

    gradient: function of (weights, worker). events: pairs of "compute" or "apply" and a worker's number, in order. A
    worker computes a gradient of the weights as they are, and later applies it. An update is as stale as there were
    updates in between.
    """
    held: dict[int, Any] = {}
    staleness: list[int] = []
    for what, worker in events:
        if what == "compute":
            held[worker] = gradient(weights, worker), len(staleness)
        else:
            computed, at = held[worker]
            staleness.append(len(staleness) - at)
            weights = weights - rate * computed
    return weights, staleness


def computed_when_applied(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> Any:
    staleness = []
    for what, worker in events:
        if what == "apply":
            staleness.append(0)
            weights = weights - rate * gradient(weights, worker)
    return weights, staleness


def changed_in_place(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> Any:
    held: dict[int, Any] = {}
    staleness: list[int] = []
    for what, worker in events:
        if what == "compute":
            held[worker] = weights, len(staleness)
        else:
            of, at = held[worker]
            staleness.append(len(staleness) - at)
            weights -= rate * gradient(of, worker)
    return weights, staleness


def stale_ones_dropped(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> Any:
    held: dict[int, Any] = {}
    staleness: list[int] = []
    for what, worker in events:
        if what == "compute":
            held[worker] = gradient(weights, worker), len(staleness)
        elif held[worker][1] == len(staleness):
            staleness.append(0)
            weights = weights - rate * held[worker][0]
    return weights, staleness


def averaged_over_two(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> Any:
    held: dict[int, Any] = {}
    staleness: list[int] = []
    for what, worker in events:
        if what == "compute":
            held[worker] = gradient(weights, worker), len(staleness)
        else:
            computed, at = held[worker]
            staleness.append(len(staleness) - at)
            weights = weights - rate * computed / 2
    return weights, staleness


def events_counted(weights: Array, gradient: Gradient, rate: float, events: list[Any]) -> Any:
    held: dict[int, Any] = {}
    staleness: list[int] = []
    for at, (what, worker) in enumerate(events):
        if what == "compute":
            held[worker] = gradient(weights, worker), at
        else:
            computed, since = held[worker]
            staleness.append(at - since - 1)
            weights = weights - rate * computed
    return weights, staleness


def cases_of_serve(numbers: Numbers) -> list[Case]:
    x, y, weights = (np.array(numbers[name]) for name in ("x", "y", "weights"))
    shards = list(zip(np.split(x, 2), np.split(y, 2), strict=True))

    def gradient(weights: Array, worker: int) -> Array:
        xs, ys = shards[worker]
        return np.asarray(2 * xs.T @ (xs @ weights - ys) / len(xs))

    def case(name: str, events: list[Any], measured: Any) -> Case:
        expected = {"the weights": np.array(measured["weights"]), "the staleness": np.array(measured["stale"])}
        return Case(name, lambda f: f(weights.copy(), gradient, numbers["learning_rate"], list(events)), expected)

    turn = [("compute", 0), ("compute", 1), ("apply", 0), ("apply", 1)]
    slow = [("compute", 1), *[("compute", 0), ("apply", 0)] * numbers["slow"], ("apply", 1)]
    return [
        case("workers that take turns", turn * numbers["steps"], numbers["tf"]["even"]),
        case("a slow worker", slow, numbers["tf"]["late"]),
    ]


SERVE = Exercise(
    serve,
    cases_of_serve,
    "Keep each worker's gradient and how many updates there were when it was computed, and apply every one in full",
    (
        Wrong(
            computed_when_applied,
            "The gradient is computed when it is applied: compute it at its own event, and keep it",
        ),
        Wrong(
            changed_in_place,
            "Weights that a worker has read change under it: compute at once, and do not write in place",
        ),
        Wrong(stale_ones_dropped, "Stale gradients are dropped: an asynchronous server applies them all the same"),
        Wrong(averaged_over_two, "Each gradient is halved: an asynchronous server applies every one in full"),
        Wrong(events_counted, "Staleness counts updates in between, and no other events"),
    ),
)


def mixed_step(master: Array, scale: float, gradient: Gradient, rate: float) -> tuple[Array, float, bool]:
    """Returns the master weights, the loss scale and whether the step was skipped, after one step of mixed precision.

    master: float32 array. gradient: function of (float16 weights, loss scale), the float16 gradient of the loss times the
    scale. A step whose gradient is not finite is skipped, and halves the scale.
    """
    scaled = gradient(master.astype(np.float16), scale).astype(np.float32)
    if not np.isfinite(scaled).all():
        return master, scale / 2, True
    return master - np.float32(rate) * scaled / np.float32(scale), scale, False


def scale_left_in(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    scaled = gradient(master.astype(np.float16), scale).astype(np.float32)
    if not np.isfinite(scaled).all():
        return master, scale / 2, True
    return master - np.float32(rate) * scaled, scale, False


def scale_taken_out_in_half(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    scaled = gradient(master.astype(np.float16), scale)
    if not np.isfinite(scaled).all():
        return master, scale / 2, True
    return master - np.float32(rate) * (scaled / np.float16(min(scale, 65504))).astype(np.float32), scale, False


def weights_in_half(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    half = master.astype(np.float16)
    scaled = gradient(half, scale).astype(np.float32)
    if not np.isfinite(scaled).all():
        return half, scale / 2, True
    return (half - np.float32(rate) * scaled / np.float32(scale)).astype(np.float16), scale, False


def applied_all_the_same(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    scaled = gradient(master.astype(np.float16), scale).astype(np.float32)
    skipped = not np.isfinite(scaled).all()
    return master - np.float32(rate) * scaled / np.float32(scale), scale / 2 if skipped else scale, skipped


def scale_kept(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    scaled = gradient(master.astype(np.float16), scale).astype(np.float32)
    if not np.isfinite(scaled).all():
        return master, scale, True
    return master - np.float32(rate) * scaled / np.float32(scale), scale, False


def never_scaled(master: Array, scale: float, gradient: Gradient, rate: float) -> Any:
    return master - np.float32(rate) * gradient(master.astype(np.float16), 1.0).astype(np.float32), scale, False


def cases_of_mixed_step(numbers: Numbers) -> list[Case]:
    inputs, scale = np.array(numbers["inputs"], np.float16), numbers["scale"]

    def small(weights: Array, scale: float) -> Array:
        return inputs * np.float16(numbers["factor"] * scale)

    def many(answer: Any) -> Any:
        # The gradient of a loss that falls by the lesson's update in every step.
        master = np.ones(1, np.float32)
        for _ in range(numbers["updates"]):
            master = answer(master, scale, lambda weights, s: np.full(1, -numbers["update"] * s, np.float16), 1.0)[0]
        return np.float16(master[0])

    def steep(weights: Array, scale: float) -> Array:
        return np.full(4, numbers["steep"] * scale).astype(np.float16)

    def dynamic(answer: Any) -> Any:
        master, now = np.ones(4, np.float32), numbers["tf"]["dynamic"]["scales"][0]
        scales, skipped = [], []
        for _ in range(numbers["steps"]):
            scales.append(now)
            master, now, skip = answer(master, now, steep, 0.125)
            skipped.append(skip)
        return scales, skipped, np.isfinite(master).all()

    found = numbers["tf"]["dynamic"]
    return [
        Case(
            f"gradients as small as {min(numbers['exact']):.0e}",
            lambda f: f(np.zeros(len(inputs), np.float32), scale, small, -1.0)[0],
            np.array(numbers["tf"]["gradients"]["scaled"]),
            tolerance=1e-6,
        ),
        Case(f"{numbers['updates']} small updates", many, np.array(numbers["tf"]["weight"]["master"])),
        Case(
            "a steep loss",
            dynamic,
            {
                "the scales": np.array(found["scales"]),
                "the skipped steps": np.array(found["skipped"]),
                "finite weights": np.array(True),
            },
        ),
    ]


MIXED_STEP = Exercise(
    mixed_step,
    cases_of_mixed_step,
    "Take the scale out in float32, update the float32 master, and skip a step whose gradient is not finite",
    (
        Wrong(scale_left_in, "The loss scale is still in the gradient: divide by it before the update"),
        Wrong(scale_taken_out_in_half, "Divided in float16, small gradients are lost again: make them float32 first"),
        Wrong(weights_in_half, "The weights are kept in float16: update the float32 master, and round for use alone"),
        Wrong(applied_all_the_same, "A gradient that is not finite is applied: return the master as it was"),
        Wrong(scale_kept, "The scale stays after an overflow: halve it, or every step overflows"),
        Wrong(never_scaled, "The loss is not scaled: compute the gradient with the scale, and divide by it"),
    ),
)


def learning_rate(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    """Returns the learning rate of a step of a large batch: scaled linearly, and warmed up linearly from 0.

    step: from 0. rate: found good for `batch` examples a step. large_batch: examples a step now.
    warm_up_steps: steps after which the whole rate is reached, 0 for none.
    """
    scaled = rate * large_batch / batch
    return scaled * min(1.0, step / warm_up_steps) if warm_up_steps else scaled


def not_scaled(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    return rate * min(1.0, step / warm_up_steps) if warm_up_steps else rate


def not_warmed_up(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    return rate * large_batch / batch


def counted_from_one(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    scaled = rate * large_batch / batch
    return scaled * min(1.0, (step + 1) / warm_up_steps) if warm_up_steps else scaled


def from_the_small_rate(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    scaled = rate * large_batch / batch
    return rate + (scaled - rate) * min(1.0, step / warm_up_steps) if warm_up_steps else scaled


def beyond_the_warm_up(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    scaled = rate * large_batch / batch
    return scaled * step / warm_up_steps if warm_up_steps else scaled


def by_the_square_root(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    scaled = rate * float(np.sqrt(large_batch / batch))
    return scaled * min(1.0, step / warm_up_steps) if warm_up_steps else scaled


def divided_by_none(step: int, rate: float, batch: int, large_batch: int, warm_up_steps: int) -> float:
    return rate * large_batch / batch * min(1.0, step / warm_up_steps)


def cases_of_rate(numbers: Numbers) -> list[Case]:
    rate, batch, large = numbers["rate"], numbers["batch"], numbers["large"]

    def rates(answer: Any, warm_up_steps: int, large: int) -> Any:
        return [answer(step, rate, batch, large, warm_up_steps) for step in range(numbers["steps"])]

    measured = [np.array(each) for each in numbers["tf"]["rates"]]
    plain = [np.array(numbers["scaled"])] * numbers["steps"]
    warm_up = numbers["warm_up_steps"]
    return [
        Case(f"a warm-up of {warm_up} steps", lambda f: rates(f, warm_up, large), measured, "rate of step"),
        Case("no warm-up", lambda f: rates(f, 0, large), plain, "rate of step"),
    ]


SCALED_RATE = Exercise(
    learning_rate,
    cases_of_rate,
    "Scale the rate by large_batch / batch, and multiply it by step / warm_up_steps until that is 1",
    (
        Wrong(not_scaled, "The rate is not scaled: multiply it by large_batch / batch"),
        Wrong(not_warmed_up, "The rate is not warmed up: multiply it by step / warm_up_steps while that is below 1"),
        Wrong(counted_from_one, "The first step has the rate 0: multiply by step / warm_up_steps, without adding 1"),
        Wrong(from_the_small_rate, "The warm-up begins at 0, and not at the rate of the small batch"),
        Wrong(beyond_the_warm_up, "The rate goes on growing after the warm-up: let the factor be at most 1"),
        Wrong(by_the_square_root, "This is the square root rule: scale by large_batch / batch itself"),
        Wrong(divided_by_none, "Without warm-up steps there is nothing to divide by: return the scaled rate"),
    ),
)
