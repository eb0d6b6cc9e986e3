"""Two bugs at once: is either of them named?

Of a pair that is not named in full each bug is then planted alone, from the same draw. Where the port with both computes
what the port with one of them computes, the other is without effect beside it: nothing can name it, and that is said with
the figure. Such a pair counts as not named all the same.
"""

import random
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from nets import drawn, drawn_size, fits, together
from tables import Table
from trial import Bug, planted, rank_of, shown

from parity.case import Case
from parity.experiment import Sides, run_case
from parity.judge.metrics import distance, norm
from parity.judge.result import Result
from parity.trace import Trace
from parity.worker.failures import SideFailed
from torch_ddp.mutations import Mutation

# Of what the bugs together change: less than this is what is left of computing the same another time.
WITHOUT_EFFECT = 1e-9


class Counts(NamedTuple):
    """What became of the pairs.

    Fields:
      detected: another verdict than same.
      both, one: both bugs named, one at least.
      masked: not both named, and one of them without effect beside the other.
    """

    detected: int = 0
    both: int = 0
    one: int = 0
    masked: int = 0


def run_pairs(nets: list[str], bugs: list[Mutation | Table], number: int, chance: random.Random, sides: Sides) -> int:
    """Plants pairs of bugs and prints which of them are named; returns 0 where all pairs are detected."""
    counts = Counts()
    for _ in range(number):
        net = chance.choice(nets)
        pair = _drawn_pair(net, bugs, chance)
        case = drawn(net, [bug for bug, _ in pair], chance)
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = _run(case, pair, sides, Path(folder) / "both")
            except SideFailed as error:
                print(f"{net:15} {' + '.join(bug.name for bug, _ in pair)}: could not be compared: {error}", flush=True)
                continue
            named = [rank_of(bug, result.causes) > 0 for bug, _ in pair]
            hidden = [] if all(named) else _without_effect(case, pair, sides, Path(folder))
        counts = Counts(
            counts.detected + (result.verdict != "same"),
            counts.both + all(named),
            counts.one + any(named),
            counts.masked + bool(hidden),
        )
        told = " + ".join(
            f"{bug.name} ({size:.3g}){'' if found else ' NOT NAMED'}"
            for (bug, size), found in zip(pair, named, strict=True)
        )
        causes = " ".join(cause.name for cause in result.causes)
        print(f"{net:15} {told}: {shown(result.first_difference)}: {causes}{''.join(hidden)}", flush=True)
    print(
        f"\n{number} pairs of bugs: {counts.detected} detected, both named in {counts.both} ({counts.both / number:.0%}), "
        f"one at least in {counts.one}; in {counts.masked} of those not named in full one bug has no effect beside the other"
    )
    return 0 if counts.detected == number else 1


def _run(case: Case, bugs: list[Bug], sides: Sides, into: Path) -> Result:
    into.mkdir()
    buggy, its_sides = planted(case, bugs, sides, into)
    return run_case(buggy, its_sides, levels=("function",), out=into / "out")


def _without_effect(case: Case, pair: list[Bug], sides: Sides, folder: Path) -> list[str]:
    told = []
    for kept, other in (pair, pair[::-1]):
        into = folder / kept[0].name
        try:
            _run(case, [kept], sides, into)
        except SideFailed:
            continue
        effect = _effect(*(Trace(path / "out" / "torch" / "float64") for path in (folder / "both", into)))
        if effect <= WITHOUT_EFFECT:
            told.append(f" [{other[0].name} moves no tensor by more than {effect:.2g} of itself beside {kept[0].name}]")
    return told


def _effect(one: Trace, other: Trace) -> float:
    # The largest difference of any tensor of any step, relative to the tensor.
    largest = 0.0
    for step in one.step_numbers:
        ones, others = one.step(step), other.step(step)
        for text in ones.names():
            value = np.asarray(ones.read(text), np.float64)
            if text not in others or others.shape(text) != value.shape:
                return np.inf
            largest = max(largest, distance(others.read(text), value) / max(norm(value), 1e-30))
    return largest


def _drawn_pair(net: str, bugs: list[Mutation | Table], chance: random.Random) -> list[Bug]:
    fitting = [bug for bug in bugs if fits(net, bug)]
    while True:
        one, other = chance.sample(fitting, 2)
        # Two bugs that one cause describes cannot be told from one.
        if together(one, other) and not set(one.causes) & set(other.causes):
            return [(one, drawn_size(one, chance)), (other, drawn_size(other, chance))]
