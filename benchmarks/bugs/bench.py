"""Plants porting bugs in right ports and counts what is detected and named, beside the comparisons people write by hand.

Launch: ``python benchmarks/bugs/bench.py [--seed N] [--draws N] [--net NAME ...]``. Sizes of bugs, tower counts and batches
are drawn at run time from the printed seed: a size is log-uniform from 0.1% to 100%. Prints a line for each planted bug
and the totals; returns 0 when every bug is detected, and no right port raises an alarm.
"""

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from plain import judged_plainly

from parity.case import Adam, Case, Momentum, load_case
from parity.prove import Planted, plant
from parity.run import Sides, open_sides, run_case
from torch_ddp.planted import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
NETS = {
    "digits_mlp": {"relu", "images", "classes"},
    "digits_convnet": {"relu", "images", "classes", "conv", "batch_norm"},
}
OPTIMIZERS = {
    "adam": Adam(name="adam", learning_rate=1e-3),
    "momentum": Momentum(name="momentum", learning_rate=0.02, momentum=0.9),
}
WAYS = ("assert_close", "rtol=1e-5", "loss curve 1%")


class Outcome(NamedTuple):
    """What became of one planted bug.

    Fields:
      detected: whether the verdict is other than same.
      where: run, step and tensor of the first difference.
      first_right: whether it is a quantity that the bug can show in first.
      rank: place of a right cause among those named, from 1; 0 where none is.
      named: how many causes are named.
      plain: what the hand-written comparisons say.
    """

    detected: bool
    where: str
    first_right: bool
    rank: int
    named: int
    plain: dict[str, bool]


def drawn(net: str, mutation: Mutation | None, chance: random.Random) -> tuple[Case, float]:
    """Draws a case for a net, and a size for a bug."""
    optimizer = next((need for need in mutation.needs if need in OPTIMIZERS), "") if mutation else ""
    towers = chance.choice([2, 3, 4])
    case = load_case(
        ROOT / "examples" / net, steps=3, towers=towers, batch_size=4 * towers, seed=chance.randrange(1000)
    )
    case = case.model_copy(update={"optimizer": OPTIMIZERS[optimizer or chance.choice(list(OPTIMIZERS))]})
    size = math.exp(chance.uniform(math.log(1e-3), 0.0)) if mutation and mutation.sized else 1.0
    return case, size


def try_bug(case: Case, mutation: Mutation, size: float, sides: Sides) -> Outcome:
    """Plants one bug and says what became of it."""
    with tempfile.TemporaryDirectory() as folder:
        planted = plant(
            case, Planted(mutation.name, size), Path(folder) / "port" / "planted", mutation.family == "optimizer"
        )
        out = Path(folder) / "out"
        result = run_case(planted, sides, levels=("function",), out=out)
        first = result.first_difference
        names = [cause.name for cause in result.causes]
        return Outcome(
            result.verdict != "same",
            f"{first.check.run} {first.check.step} {first.check.key}" if first else "",
            first is not None and first.quantity in mutation.first,
            next((place for place, name in enumerate(names, start=1) if name in mutation.causes), 0),
            len(names),
            judged_plainly(planted, out),
        )


def try_right_port(case: Case, sides: Sides) -> tuple[bool, dict[str, bool]]:
    """Runs a right port and says who raises an alarm."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_case(case, sides, out=Path(folder))
        return result.verdict != "same", judged_plainly(case, Path(folder))


def main() -> int:
    """Runs the bench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="of every bug in every net")
    parser.add_argument("--right", type=int, default=10, help="right ports per net")
    parser.add_argument("--net", nargs="*", default=list(NETS), choices=list(NETS))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    outcomes: list[tuple[Mutation, Outcome]] = []
    alarms: Counter[str] = Counter()
    with open_sides(None) as sides:
        for net in arguments.net:
            for mutation in MUTATIONS.values():
                if not set(mutation.needs) <= NETS[net] | set(OPTIMIZERS):
                    continue
                for _ in range(arguments.draws):
                    case, size = drawn(net, mutation, chance)
                    outcome = try_bug(case, mutation, size, sides)
                    outcomes.append((mutation, outcome))
                    _print(net, mutation, size, outcome)
            for _ in range(arguments.right):
                alarm, plain = try_right_port(drawn(net, None, chance)[0], sides)
                alarms.update(["parity"] if alarm else [], **{way: int(found) for way, found in plain.items()})
    return _summarise(outcomes, alarms, arguments.right * len(arguments.net))


def _print(net: str, mutation: Mutation, size: float, outcome: Outcome) -> None:
    named = f"named {outcome.rank} of {outcome.named}" if outcome.rank else f"not named ({outcome.named} others)"
    plain = " ".join("alarm" if outcome.plain[way] else "-" for way in WAYS)
    verdict = "detected" if outcome.detected else "MISSED"
    print(f"{net:15} {mutation.name:40} {size:8.3g} {verdict} {outcome.where:45} {named:22} {plain}", flush=True)


def _summarise(outcomes: list[tuple[Mutation, Outcome]], alarms: Counter[str], right: int) -> int:
    total = len(outcomes)
    found = [outcome for _, outcome in outcomes]
    wrong = sum(outcome.named > 0 and outcome.rank != 1 for outcome in found)
    print(f"\n{total} planted bugs of {len({mutation.name for mutation, _ in outcomes})} kinds, {right} right ports")
    for what, count in (
        ("detected", sum(outcome.detected for outcome in found)),
        ("first quantity right", sum(outcome.first_right for outcome in found)),
        ("cause named first", sum(outcome.rank == 1 for outcome in found)),
        ("cause among the first three", sum(0 < outcome.rank <= 3 for outcome in found)),
        ("another cause named first", wrong),
    ):
        print(f"  {what:28} {count:4}  {count / total:.1%}")
    print(f"  false alarms                 {alarms['parity']:4} of {right}")
    for way in WAYS:
        detected = sum(outcome.plain[way] for outcome in found)
        print(f"beside it, {way:14} detected {detected / total:.1%}, false alarms {alarms[way]} of {right}")
    return 0 if all(outcome.detected for outcome in found) and not alarms["parity"] else 1


if __name__ == "__main__":
    sys.exit(main())
