"""Makes what a replay needs where rounding decides: steps from moved weights, what moves structurally zero gradients."""

from typing import AbstractSet, Any, Callable, Dict, Mapping, Optional, Set

import numpy as np

from parity.trace import GRADIENTS, OPTIMIZED, TraceWriter, jumps, parse_key, quantity_of
from parity.trace.arrays import Tensors
from tf_towers.shadow.free_run import largest_distance, moved
from tf_towers.shadow.program import Program

# Measures how far rounding moves gradients that are nothing but rounding, and what optimizers make of them.

Mover = Callable[..., Tensors]  # moves tensors by a seed and a direction, as `break_ties` does

# Draws of which the largest distance is kept, for each variable and slot.
DRAWS = 3
# Of a bias in front of a batch norm float32 leaves 6.6e-8 and float64 1.8e-16, 2^-28.5 of it. The error of a gradient
# that is there is 2^-24 of it times its condition number, which would have to be 2^40.
NUMERICALLY_ZERO = 2.0**-16  # float64 rounds 2^-29 of what float32 does; the port's float32 may do far more
# Elements. A sum that is zero by structure cancels to exactly 0 in float32 in one of three steps (36 runs with two to four
# examples a tower); eight at once do so in one of 6,561.
CANCELS = 8
# What has one row for each example.
ORDERED = frozenset(["feed", "noise"])
# Of losses and gradients in float64. Two implementations are 6e-12 apart at a depth of 40 layers, other functions wholly.
SAME_FUNCTION = 2.0**-20


class EmptyGradients:
    """Leaves how far a gradient that is nothing but rounding moves in three draws, and the update by it: largest distances.

    In a draw the step is made once more from the recorded state, other weights and the inputs one unit in the last place of
    float64 away and the examples of each shard in another order, as far as that changes nothing but rounding.

    Args:
      folder: for the trace.
      producer, facts: what it says of itself.

    Counterpart: parity.experiment.rejudge.ill_conditioned.measure_live
    """

    def __init__(self, folder: str, producer: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        self._writer = TraceWriter(folder, producer, facts)
        self._writer.init({})

    def step(self, number: int, state: Tensors, now: Tensors, exact: Tensors, program: Program) -> None:
        """Measures one step.

        Args:
          number: of the step.
          state: dict of trace name to value before the step.
          now: dict of trace name to recorded value.
          exact: the same of the shadow.
          program: the `Program` of it.
        """
        names = _empty(now, exact)
        kept = OPTIMIZED | GRADIENTS
        updated = [key for key in exact if quantity_of(key) in kept and parse_key(key).name in names]
        if not updated:
            return
        draws = [_drawn(DRAWS * number + draw, state, now, exact, names, program) for draw in range(DRAWS)]
        distances = [largest_distance(key, exact, draws) for key in updated if key in draws[0]]
        self._writer.step(number, {key: value for key, value in distances if value is not None})

    def close(self) -> None:
        """Marks the trace complete."""
        self._writer.close()


def _empty(now: Tensors, exact: Tensors) -> Set[str]:
    dense = [key for key in now if quantity_of(key) == "grad" and not key.endswith((".values", ".indices"))]
    sizes = {key: (np.linalg.norm(exact[key]), np.linalg.norm(now[key] - exact[key])) for key in dense}
    return {
        parse_key(key).name
        for key, (size, rough) in sizes.items()
        if size <= NUMERICALLY_ZERO * rough or (np.size(now[key]) <= CANCELS and not np.any(now[key]))
    }


def _drawn(
    seed: int, state: Tensors, now: Tensors, exact: Tensors, names: AbstractSet[str], program: Program
) -> Tensors:
    others = moved(state, seed)
    # Weights whose gradients are zero, and their slots, stay: how far these go is what is measured.
    others.update((key, state[key]) for key in state if parse_key(key).name in names)
    fed = moved(now, seed)
    shuffled = _reordered(fed, seed)
    if shuffled is not None:
        computed = program.step(others, shuffled)
        if _is_alike(computed, exact):
            return computed
    return program.step(others, fed)


def _reordered(fed: Tensors, seed: int) -> Optional[Tensors]:
    """The examples of every shard in another order, the same for all towers: what they share stays shared."""
    keys = [key for key in fed if quantity_of(key) in ORDERED and np.ndim(fed[key])]
    # Examples are exchanged only where all inputs hold as many: else it is not known which rows belong together.
    sizes = {np.shape(fed[key])[0] for key in keys}
    if len(sizes) != 1:
        return None
    order = np.random.RandomState(seed).permutation(sizes.pop())
    return dict(fed, **{key: fed[key][order] for key in keys})


def _is_alike(computed: Tensors, exact: Tensors) -> bool:
    # Where the first axis holds no examples, or they hang together, another order is another function.
    return all(_apart(quantity, computed, exact) <= SAME_FUNCTION for quantity in ("loss", "grad"))


def _apart(quantity: str, computed: Tensors, exact: Tensors) -> float:
    keys = [key for key in exact if quantity_of(key) == quantity and key in computed and not key.endswith(".indices")]
    # As where rows that are looked up several times come together in another order.
    if any(np.shape(computed[key]) != np.shape(exact[key]) for key in keys):
        return np.inf
    apart = np.sqrt(sum(np.sum(np.square(computed[key] - exact[key])) for key in keys))
    size = np.sqrt(sum(np.sum(np.square(exact[key])) for key in keys))
    return apart / size if size else apart


# Computes the steps at kinks once more from where weights are moved aside, or inputs too: rounding no longer
# decides.

WRITTEN_QUANTITIES = frozenset(["state", "loss", "tower_grad", "grad", "clip", "slot", "stat", "var"])


class Aside:
    """Leaves each step that has a kink, from the recorded state and feeds moved by up to 2^-30 of themselves.

    Whether it has one is seen by moving them both ways: a tie is broken the one way and then the other, so that gradients
    jump. Steps without one are not left: what is smooth has the same gradient everywhere near.

    Args:
      folder: for the trace.
      moved: what moves tensors by a seed and a direction, `break_ties` or `break_ties_of_inputs`.
      producer, facts, described: what it says of itself.

    Attributes:
      found: number of steps that were left.
    """

    def __init__(
        self,
        folder: str,
        moved: Mover,
        producer: Mapping[str, Any],
        facts: Mapping[str, Any],
        described: Mapping[str, Dict[str, Any]],
    ) -> None:
        self.found = 0
        self._moved = moved
        self._writer = TraceWriter(folder, producer, facts, described)
        self._writer.init({})

    def step(self, number: int, state: Tensors, now: Tensors, program: Program) -> None:
        """Computes one step both ways, and leaves it where they are apart.

        Args:
          number: of the step.
          state: dict of trace name to value before the step.
          now: dict of trace name to recorded value.
          program: the `Program` of it.
        """
        start = self._moved(state, number)
        there = program.step(start, fed_aside(now, number, self._moved))
        back = program.step(self._moved(state, number, -1.0), fed_aside(now, number, self._moved, -1.0))
        if not jumps(there, back):
            return
        # What the graph of this step does not touch stays as it was moved; counters stay the recorded ones.
        known = dict(now)
        for found in (start, there):
            known.update((name, value) for name, value in found.items() if quantity_of(name) != "state")
        self._writer.step(
            number, {name: np.asarray(known[name]) for name in now if quantity_of(name) in WRITTEN_QUANTITIES}
        )
        self.found += 1

    def close(self) -> None:
        """Marks the trace complete."""
        self._writer.close()


def fed_aside(now: Tensors, number: int, moved: Mover, towards: float = 1.0) -> Tensors:
    """Returns the recorded values of a step with what is fed moved.

    Args:
      now: dict of trace name to recorded value.
      number: of the step.
      moved: as `Aside` takes it.
      towards: 1.0 or -1.0.
    """
    fed = {name: value for name, value in now.items() if quantity_of(name) == "feed"}
    return dict(now, **moved(fed, number, towards))
