"""Two bugs at once: is either of them named?"""

import random
import tempfile
from pathlib import Path

from nets import drawn, drawn_size, fits, together
from tables import Table
from trial import Bug, planted, rank_of, shown

from parity.run import Sides, run_case
from parity.sides import SideFailed
from torch_ddp.planted import Mutation


def run_pairs(nets: list[str], bugs: list[Mutation | Table], number: int, chance: random.Random, sides: Sides) -> int:
    """Plants pairs of bugs and prints which of them are named; returns 0 where all pairs are detected."""
    both = one = detected = 0
    for _ in range(number):
        net = chance.choice(nets)
        pair = _drawn_pair(net, bugs, chance)
        with tempfile.TemporaryDirectory() as folder:
            case, its_sides = planted(drawn(net, [bug for bug, _ in pair], chance), pair, sides, Path(folder))
            try:
                result = run_case(case, its_sides, levels=("function",))
            except SideFailed as error:
                print(f"{net:15} {' + '.join(bug.name for bug, _ in pair)}: could not be compared: {error}", flush=True)
                continue
        named = [rank_of(bug, result.causes) > 0 for bug, _ in pair]
        both, one, detected = both + all(named), one + any(named), detected + (result.verdict != "same")
        told = " + ".join(
            f"{bug.name} ({size:.3g}){'' if found else ' NOT NAMED'}"
            for (bug, size), found in zip(pair, named, strict=True)
        )
        causes = " ".join(cause.name for cause in result.causes)
        print(f"{net:15} {told}: {shown(result.first_difference)}: {causes}", flush=True)
    print(
        f"\n{number} pairs of bugs: {detected} detected, both named in {both} ({both / number:.0%}), one at least in {one}"
    )
    return 0 if detected == number else 1


def _drawn_pair(net: str, bugs: list[Mutation | Table], chance: random.Random) -> list[Bug]:
    fitting = [bug for bug in bugs if fits(net, bug)]
    while True:
        one, other = chance.sample(fitting, 2)
        # Two bugs that one cause describes cannot be told from one.
        if together(one, other) and not set(one.causes) & set(other.causes):
            return [(one, drawn_size(one, chance)), (other, drawn_size(other, chance))]
