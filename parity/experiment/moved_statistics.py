"""Says how the reference moves its moving statistics, beside how the candidate does."""

from collections.abc import Iterator

import numpy as np

from parity.judge.levels.function import Lockstep
from parity.mapping.trace_map import Join
from parity.trace import parse_key

# Of two columns of length 1: where their product is as near to 1 as this, they are one direction, and what is left between
# them is rounding of float64 (1e-16) more than anything else.
ONE_DIRECTION = 1e-6


def moved_statistics(join: Join, traces: Lockstep) -> dict[str, tuple[float, float]]:
    """Returns by the candidate's name of a moving statistic how the reference moves it: `(ratio, drift)`.

    From a state that both share, the reference moves it by `ratio` times what the candidate does, and by `drift` times
    what it was. A graph that takes `1 - m` of what is new has a drift of 0; one that keeps `k` and takes `t`, constants
    that are each rounded to float32, has one of `k + t - 1`, which is not 0.

    Args:
      join: names and layouts.
      traces: both sides' float64 runs, and the states before each step.
    """
    # By name: the columns' products with each other, float64 [3, 3], summed over elements and steps.
    products: dict[str, np.ndarray] = {}
    for step in traces.reference64.step_numbers:
        for name, columns in _moves(join, traces, step):
            products[name] = products.get(name, 0.0) + columns @ columns.T
    return {name: _fitted(found) for name, found in products.items() if found[0, 0] > 0.0}


def _moves(join: Join, traces: Lockstep, step: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the candidate's name, with how far it moves, what was there, and how much farther the reference moves.

    The last are float64 of shape [3, elements].
    """
    one_file, other_file, before = (
        trace.step(step) for trace in (traces.reference64, traces.candidate64, traces.states)
    )
    for text in one_file.names():
        key = parse_key(text)
        other = join.read(key, other_file) if key.quantity == "stat" and text in before else None
        if other is None or other.shape != one_file.read(text).shape:
            continue
        # In lockstep: both sides moved the statistic from the same state.
        start = np.asarray(before.read(text), np.float64)
        columns = np.stack([np.ravel(value) for value in (other - start, start, one_file.read(text) - other)])
        for name in join.candidates(key):
            yield parse_key(name).name, columns


def _fitted(products: np.ndarray) -> tuple[float, float]:
    """Least squares of the third column on the first two, by the products of all three."""
    sizes = np.sqrt(np.diagonal(products)[:2])
    if sizes[1] > 0.0 and 1.0 - abs(products[0, 1]) / (sizes[0] * sizes[1]) > ONE_DIRECTION:
        farther, drift = np.linalg.solve(products[:2, :2], products[:2, 2])
    else:
        farther, drift = products[0, 2] / products[0, 0], 0.0
    return 1.0 + float(farther), float(drift)
