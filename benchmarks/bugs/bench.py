"""Plants porting bugs in right ports and counts what is detected and named, beside the comparisons people write by hand.

Launch: ``python benchmarks/bugs/bench.py [--seed N] [--draws N] [--right N] [--once] [--net NAME ...] [--bug NAME ...]
[--pairs N]``.
Sizes of bugs, tower counts and batches are drawn at run time from the printed seed: a size is log-uniform from 0.1% to
100%. Prints a line for each planted bug and the totals; returns 0 when every bug is detected, and no right port raises an
alarm. With ``--pairs`` it plants that many pairs of bugs instead, and counts how many of each are named.
"""

import argparse
import os
import random
import sys
from collections import Counter

from nets import NETS, drawn, drawn_size, fits
from pairs import run_pairs
from right import RightPort, print_variations, run_right_ports
from tables import TABLES, Table
from trial import Outcome, try_bug

from parity.experiment import Sides, open_sides
from torch_ddp.mutations import MUTATIONS, Mutation

WAYS = ("assert_close", "rtol=1e-5", "loss curve 1%")
BUGS: dict[str, Mutation | Table] = {**MUTATIONS, **{table.name: table for table in TABLES}}


def main() -> int:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="of every bug in every net")
    parser.add_argument("--right", type=int, default=10, help="right ports per net, on every TensorFlow there is")
    parser.add_argument("--once", action="store_true", help="every bug in one net, drawn from those that can have it")
    parser.add_argument("--pairs", type=int, default=0, help="plant so many pairs of bugs instead")
    parser.add_argument("--net", nargs="*", default=list(NETS), choices=list(NETS))
    parser.add_argument("--bug", nargs="*", default=list(BUGS), choices=list(BUGS), metavar="NAME")
    parser.add_argument(
        "--tf-python",
        help="interpreter with TensorFlow; by default this one, and for right ports PARITY_TF_PYTHON beside it",
    )
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    bugs = [BUGS[name] for name in arguments.bug]
    with open_sides(arguments.tf_python) as sides:
        if arguments.pairs:
            return run_pairs(arguments.net, bugs, arguments.pairs, chance, sides)
        plan = _planned(arguments.net, bugs, arguments.draws, arguments.once, chance)
        outcomes = [_plant(net, bug, chance, sides) for net, bug in plan]
    other = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON")
    return _summarise(outcomes, run_right_ports(arguments.net, arguments.right, chance, other))


def _planned(
    nets: list[str], bugs: list[Mutation | Table], draws: int, once: bool, chance: random.Random
) -> list[tuple[str, Mutation | Table]]:
    if once:
        fitting = [([net for net in nets if fits(net, bug)], bug) for bug in bugs]
        return [(chance.choice(found), bug) for found, bug in fitting for _ in range(draws) if found]
    return [(net, bug) for net in nets for bug in bugs for _ in range(draws) if fits(net, bug)]


def _plant(net: str, bug: Mutation | Table, chance: random.Random, sides: Sides) -> Outcome:
    case, size = drawn(net, [bug], chance), drawn_size(bug, chance)
    outcome = try_bug(case, bug, size, sides)
    _print(outcome)
    return outcome


def _print(outcome: Outcome) -> None:
    causes = " ".join(outcome.named)
    named = f"named {outcome.rank} of {len(outcome.named)}" if outcome.rank else f"NOT NAMED ({causes or 'nothing'})"
    plain = " ".join("alarm" if outcome.plain[way] else "-" for way in WAYS)
    verdict = "detected" if outcome.detected else "MISSED"
    where = outcome.where + ("" if outcome.first_right else " UNEXPECTED")
    print(f"{outcome.net:15} {outcome.bug:40} {outcome.size:8.3g} {verdict} {where:45} {named:22} {plain}", flush=True)


def _summarise(found: list[Outcome], ports: list[RightPort]) -> int:
    total, right = max(len(found), 1), len(ports)
    alarms = Counter(way for port in ports for way, alarm in port.plain.items() if alarm)
    false = sum(bool(port.alarm) for port in ports)
    if ports:
        print_variations(ports)
    print(f"\n{len(found)} planted bugs of {len({outcome.bug for outcome in found})} kinds, {right} right ports")
    for what, count in (
        ("detected", sum(outcome.detected for outcome in found)),
        ("first quantity right", sum(outcome.first_right for outcome in found)),
        ("cause named first", sum(outcome.rank == 1 for outcome in found)),
        ("cause among the first three", sum(0 < outcome.rank <= 3 for outcome in found)),
        ("another cause named first", sum(bool(outcome.named) and outcome.rank != 1 for outcome in found)),
    ):
        print(f"  {what:28} {count:4}  {count / total:.1%}")
    print(f"  false alarms                 {false:4} of {right}")
    for way in WAYS:
        detected = sum(outcome.plain[way] for outcome in found)
        print(f"beside it, {way:14} detected {detected / total:.1%}, false alarms {alarms[way]} of {right}")
    return 0 if all(outcome.detected for outcome in found) and not false else 1


if __name__ == "__main__":
    sys.exit(main())
