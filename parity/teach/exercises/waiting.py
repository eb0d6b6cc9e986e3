"""To program in lesson 17: an accumulator that waits for some gradients, and turns away those of older steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity.teach.exercises.exercise import Case, Exercise, Numbers, Wrong
from parity.trace.arrays import Array

Arrivals = Sequence[tuple[int, Array]]


def updated(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    """Returns the weights [n] behind the last update, and how many gradients were turned away.

    arrivals: pairs of the step at which a gradient was computed, and the gradient [n], in the order in which they come.
    The first step is 0. A gradient of an older step than the one that is waited for is turned away. As soon as `needed`
    gradients of the step are there, rate times their mean is subtracted from the weights, and the next step begins, with
    nothing accumulated.
    """
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) == needed:
            weights = weights - rate * np.mean(waiting, axis=0)
            step, waiting = step + 1, []
    return weights, away


def stale_taken(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    whole = len(arrivals) // needed
    for at in range(whole):
        weights = weights - rate * np.mean([each for _, each in arrivals[at * needed : (at + 1) * needed]], axis=0)
    return weights, 0


def summed(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) == needed:
            weights = weights - rate * np.sum(waiting, axis=0)
            step, waiting = step + 1, []
    return weights, away


def never_emptied(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) % needed == 0:
            weights = weights - rate * np.mean(waiting, axis=0)
            step += 1
    return weights, away


def one_behind_taken(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step - 1:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) == needed:
            weights = weights - rate * np.mean(waiting, axis=0)
            step, waiting = step + 1, []
    return weights, away


def not_waited_for(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    for _, gradient in arrivals:
        weights = weights - rate * gradient / needed
    return weights, 0


def rest_applied(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) == needed:
            weights = weights - rate * np.mean(waiting, axis=0)
            step, waiting = step + 1, []
    return (weights - rate * np.mean(waiting, axis=0) if waiting else weights), away


def rest_turned_away(arrivals: Arrivals, needed: int, weights: Array, rate: float) -> tuple[Any, Any]:
    step, waiting, away = 0, [], 0
    for of_step, gradient in arrivals:
        if of_step < step:
            away += 1
            continue
        waiting.append(gradient)
        if len(waiting) == needed:
            weights = weights - rate * np.mean(waiting, axis=0)
            step, waiting = step + 1, []
    return weights, away + len(waiting)


def cases_of_updated(numbers: Numbers) -> list[Case]:
    few = [
        (0, np.array([2.0, 0.0])),
        (0, np.array([0.0, 4.0])),
        (0, np.array([10.0, 10.0])),
        (1, np.array([1.0, 1.0])),
        (0, np.array([-7.0, 3.0])),
        (1, np.array([3.0, 0.0])),
        (2, np.array([5.0, 5.0])),
    ]
    start = np.array([1.0, -1.0])
    arrived = [(step, np.array(gradient)) for _, step, gradient, _ in numbers["arrived"]]
    last = np.array(numbers["runs"]["one is slow"])
    return [
        Case(
            "7 gradients, 2 needed",
            lambda f: f(few, 2, start.copy(), 0.5),
            {"the weights": np.array([-0.5, -2.25]), "the number turned away": np.array(2)},
        ),
        Case(
            f"{numbers['steps']} steps of TensorFlow",
            lambda f: f(arrived, numbers["needed"], np.zeros_like(last), numbers["shard_rate"]),
            {"the weights": last, "the number turned away": np.array(numbers["turned_away"]["one is slow"])},
        ),
    ]


WAIT_FOR = Exercise(
    updated,
    cases_of_updated,
    "Turn away what is of an older step, wait for as many as are needed, apply their mean, and begin anew",
    (
        Wrong(stale_taken, "Gradients of older steps are taken: turn them away, and count them"),
        Wrong(summed, "This is the sum of the gradients: apply their mean"),
        Wrong(never_emptied, "Gradients of earlier steps are applied again: begin each step with nothing accumulated"),
        Wrong(one_behind_taken, "Gradients that are one step behind are taken: turn away every older step"),
        Wrong(not_waited_for, "Each gradient is applied as it comes: wait until as many as are needed are there"),
        Wrong(rest_applied, "The last step has too few gradients: what is not complete is not applied"),
        Wrong(rest_turned_away, "What waits at the end was not turned away: count gradients of older steps alone"),
    ),
)
