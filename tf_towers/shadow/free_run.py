"""Trains a recorded script once more in float64 from its first weights, with nobody resetting it in between."""

import os
import zlib
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple

import numpy as np

from parity.trace import ROW_INDICES, ROW_VALUES, SHADOW_FREE, SHADOW_SPREAD, TraceWriter, quantity_of
from parity.trace.arrays import Array, Tensors, dense_rows
from tf_towers.shadow.program import Program, settled, wide, widened

# Runs of which the largest distance from the free run is kept.
REPLICAS = 3
QUANTITIES_OF_FREE_RUN = frozenset(["state", "loss", "grad", "clip", "slot", "stat", "var", "ema"])
MEASURED = QUANTITIES_OF_FREE_RUN - frozenset(["state"])
# Nothing else is perturbed: counters, rates and draws are the recorded ones in every replica.
MOVED = frozenset(["feed", "var"])


class FreeRun:
    """Carries weights, slots, statistics and averages from step to step, in the run itself and in replicas an ulp away.

    Counters are those of the recording in every step, like feeds, draws and the learning rate: a graph counts, decays and
    multiplies powers of beta in float32, and so must whoever repeats it.

    Args:
      folder: that of the shadow; the run goes to `free` in it, and the largest distance of a replica from it to `spread`.
      start: dict of trace name to array, the state to start from.
      variables: dict of trace name to the name of a variable.
      producer, facts, described: what both traces say of themselves.

    Counterpart: parity.experiment.runs.replicas
    """

    def __init__(
        self,
        folder: str,
        start: Tensors,
        variables: Iterable[str],
        producer: Mapping[str, Any],
        facts: Mapping[str, Any],
        described: Mapping[str, Dict[str, Any]],
    ) -> None:
        self._counters = [name for name in variables if quantity_of(name) == "state"]
        self._states = [start] + [moved(start, seed) for seed in range(1, REPLICAS + 1)]
        self._free = TraceWriter(os.path.join(folder, SHADOW_FREE), producer, facts, described)
        self._free.init({name: widened(name, value) for name, value in start.items()})
        self._spread = TraceWriter(os.path.join(folder, SHADOW_SPREAD), producer, facts)
        self._spread.init({})
        # Distance of the start states: the judge divides by it to learn how far a step carries an ulp.
        # The smallest, so that the amplification is not underrated.
        self._ulp = min(float(_apart(start, each)) for each in self._states[1:])

    def step(self, number: int, now: Tensors, program: Program) -> None:
        """Trains one step.

        Args:
          number: of the step.
          now: dict of trace name to recorded value.
          program: the `Program` of it.
        """
        found = []
        for replica, state in enumerate(self._states):
            # Before the step: a counter is recorded as it was then, everything else as it was after.
            state.update((name, now[name]) for name in self._counters if name in now)
            # Another seed in every step and replica, none of which repeats.
            given = moved(now, REPLICAS * number + replica) if replica else now
            found.append(program.step(state, given))
            state.update((name, value) for name, value in found[-1].items() if name in state)
        kept = [name for name in now if quantity_of(name) in QUANTITIES_OF_FREE_RUN]
        self._free.step(number, {name: settled(name, now[name], found[0]) for name in kept})
        measured = [name for name in kept if name in found[0] and quantity_of(name) in MEASURED]
        distances = [largest_distance(name, found[0], found[1:]) for name in measured]
        self._spread.step(number, {name: value for name, value in distances if value is not None})

    def close(self) -> None:
        """Marks both traces complete."""
        self._free.close()
        self._spread.close(ulp=self._ulp)


def moved(tensors: Mapping[str, Any], seed: int) -> Tensors:
    """Returns a copy with every float of weights and feeds in float64 and at a neighbour, up or down at random.

    What several towers are fed alike stays alike: the draw depends on the values.

    Args:
      tensors: dict of trace name to array.
      seed: of the draw.
    """
    copy = dict(tensors)
    for name, value in tensors.items():
        value = wide(value)
        if quantity_of(name) in MOVED and value.dtype.kind == "f":
            # crc32 and RandomState give the same on Python 3.7 and 3.11, unlike hash().
            random = np.random.RandomState(zlib.crc32(value.tobytes()) ^ seed)
            copy[name] = np.nextafter(value, np.where(random.random_sample(value.shape) < 0.5, -np.inf, np.inf))
    return copy


def _apart(one: Tensors, other: Tensors) -> float:
    weights = [name for name in one if quantity_of(name) == "var"]
    return np.sqrt(sum(np.sum(np.square(wide(one[name]) - other[name])) for name in weights))


def largest_distance(name: str, computed: Tensors, others: Sequence[Tensors]) -> Tuple[str, Optional[Array]]:
    """Returns the name of a tensor and the largest distance of it; of a sparse one that of what it stands for.

    Args:
      name: trace name.
      computed: dict of trace name to array, of one step.
      others: list of the same of the step computed otherwise.

    Returns:
      ``(name, distance)``, float64; the distance is None where there is nothing to measure.
    """
    # Rows come in the same order in all runs, since what is looked up is recorded: values can be subtracted one by one.
    base = np.asarray(computed[name])
    if base.dtype.kind != "f" or name.endswith(ROW_INDICES):
        return name, None
    apart = [np.asarray(each[name]) - base for each in others]
    if name.endswith(ROW_VALUES):
        name = name[: -len(ROW_VALUES)]
        rows = np.asarray(computed[name + ROW_INDICES])
        # (rows of the table up to the last one looked up, ...)
        last = int(rows.max()) + 1 if rows.size else 0
        apart = [dense_rows(wide(each), rows, (last,) + each.shape[1:]) for each in apart]
    return name, np.array(max(np.linalg.norm(each) for each in apart), np.float64)
