"""Computes the steps at kinks once more from where weights are moved aside, or inputs too: rounding no longer decides."""

import numpy as np

from parity.trace import TraceWriter, jumps, quantity_of

KEPT = frozenset(["state", "loss", "tower_grad", "grad", "clip", "slot", "stat", "var"])


class Aside(object):
    """Leaves each step that has a kink, from the recorded state and feeds moved by up to 2^-30 of themselves.

    Whether it has one is seen by moving them both ways: a tie is broken the one way and then the other, so that gradients
    jump. Steps without one are not left: what is smooth has the same gradient everywhere near.

    Args:
      folder: for the trace.
      moved: what moves tensors by a seed and a direction, `moved_aside` or `moved_with_inputs`.
      producer, facts, described: what it says of itself.

    Attributes:
      found: number of steps that were left.
    """

    def __init__(self, folder, moved, producer, facts, described):
        self.found = 0
        self._moved = moved
        self._writer = TraceWriter(folder, producer, facts, described)
        self._writer.init({})

    def step(self, number, state, now, program):
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
        self._writer.step(number, {name: np.asarray(known[name]) for name in now if quantity_of(name) in KEPT})
        self.found += 1

    def close(self):
        """Marks the trace complete."""
        self._writer.close()


def fed_aside(now, number, moved, towards=1.0):
    """Returns the recorded values of a step with what is fed moved.

    Args:
      now: dict of trace name to recorded value.
      number: of the step.
      moved: as `Aside` takes it.
      towards: 1.0 or -1.0.
    """
    fed = {name: value for name, value in now.items() if quantity_of(name) == "feed"}
    return dict(now, **moved(fed, number, towards))
