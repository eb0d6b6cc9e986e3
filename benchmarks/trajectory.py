"""Measures level 3: how often it calls a right port different, and which bugs it sees.

Launch: ``python benchmarks/trajectory.py [--seed N] [--right N] [--bugs N]``. Nets, optimizers, tower counts, batch sizes,
steps and batches are drawn from the printed seed. Right ports are judged as `parity run --levels 3` does; so are groups of
held-out runs of the reference, which are right by construction. Returns 0 when every bug is seen and no right port is called
different.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.case import Adam, Case, Momentum, Sgd, load_case
from parity.experiment import Recorder, Sides, open_sides
from parity.experiment.plant import Planted, plant
from parity.experiment.trajectories import record_trajectories
from parity.judge.allowances import TRAJECTORY_LIMIT
from parity.judge.binomial import rate_interval
from parity.judge.levels.trajectory import Trajectories, stray_of_candidate, strays
from torch_ddp.mutations import MUTATIONS

ROOT = Path(__file__).parents[1]
NETS = {
    "digits_mlp": ROOT / "examples" / "digits_mlp",
    "digits_convnet": ROOT / "examples" / "digits_convnet",
    "square": ROOT / "tests" / "cases" / "square",
}
OPTIMIZERS = (
    Sgd(name="sgd", learning_rate=0.05),
    Momentum(name="momentum", learning_rate=0.02, momentum=0.9),
    Adam(name="adam", learning_rate=1e-3),
)
BUGS = (
    ("another_learning_rate", 0.01),
    ("another_learning_rate", 0.02),
    ("another_learning_rate", 0.05),
    ("gradients_travel_in_float16", 1.0),
    ("statistics_never_move", 1.0),
    ("batch_norm_in_evaluation_mode", 1.0),
    ("statistics_of_the_last_rank", 1.0),
)


class Right(NamedTuple):
    """What a right port gave.

    Fields:
      stray: its own statistic.
      held_out: statistics of single held-out runs of the reference.
      groups: statistics of groups of held-out runs, each judged as a candidate is.
    """

    stray: float
    held_out: list[float]
    groups: list[float]


def drawn(net: str, chance: random.Random) -> Case:
    """Draws a case of a net."""
    towers = chance.choice([2, 3, 4])
    size = towers * chance.choice([2, 4, 8])
    case = load_case(
        NETS[net], steps=chance.choice([3, 5, 8]), towers=towers, batch_size=size, seed=chance.randrange(10**6)
    )
    return case.model_copy(update={"optimizer": chance.choice(OPTIMIZERS)})


def follow(case: Case, sides: Sides) -> Trajectories:
    """Records level 3 of a case and nothing else."""
    with tempfile.TemporaryDirectory(prefix="trajectory-") as folder:
        recorder = Recorder(case, sides, Path(folder), spread=False)
        begun = recorder.begin()
        return record_trajectories(recorder.playing, begun.join, begun.reference.result())[1]


def judged(found: Trajectories) -> Right:
    """Judges a right port, and the held-out runs beside it."""
    size = len(found.candidate)
    groups = [found.held_out[at : at + size] for at in range(0, len(found.held_out) - size + 1, size)]
    return Right(
        stray_of_candidate(found),
        [float(each) for each in strays(found, found.held_out)],
        [float(strays(found, np.median(group, axis=0)[np.newaxis])[0]) for group in groups],
    )


def planted(chance: random.Random, sides: Sides, times: int) -> Iterator[tuple[str, str, float]]:
    """Plants every bug `times` times in every net that can have it; yields bug, net and statistic."""
    for name, size in BUGS:
        for net in NETS:
            if "batch_norm" in MUTATIONS[name].needs and net != "digits_convnet":
                continue
            for _ in range(times):
                case = drawn(net, chance)
                with tempfile.TemporaryDirectory(prefix="planted-") as folder:
                    into = Path(folder) / "port" / case.directory.name
                    bug = plant(case, Planted(name, size), into, MUTATIONS[name].family == "optimizer")
                    yield f"{name} {size:g}", net, stray_of_candidate(follow(bug, sides))


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--right", type=int, default=20, help="right ports per net")
    parser.add_argument("--bugs", type=int, default=1, help="of every bug in every net")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}, limit {TRAJECTORY_LIMIT:g}")
    right: list[Right] = []
    with open_sides(None) as sides:
        for net in NETS:
            for _ in range(arguments.right):
                right.append(judged(follow(drawn(net, chance), sides)))
            _print_rate(f"right ports, {net}", [each.stray for each in right[-arguments.right :]])
        seen = list(planted(chance, sides, arguments.bugs))
    ports, groups = [each.stray for each in right], [stray for each in right for stray in each.groups]
    _print_rate("right ports", ports)
    _print_rate("groups of held-out runs, judged as ports are", groups)
    _print_rate("both", ports + groups)
    _print_rate("single held-out runs", [stray for each in right for stray in each.held_out])
    for bug in dict.fromkeys(bug for bug, _, _ in seen):
        found = [stray for name, _, stray in seen if name == bug]
        count = sum(stray > TRAJECTORY_LIMIT for stray in found)
        print(f"{bug:45} seen {count} of {len(found)}; {min(found):,.4g} to {max(found):,.4g}")
    alarms = sum(stray > TRAJECTORY_LIMIT for stray in ports)
    return 0 if not alarms and all(stray > TRAJECTORY_LIMIT for _, _, stray in seen) else 1


def _print_rate(what: str, found: list[float]) -> None:
    outside = sum(stray > TRAJECTORY_LIMIT for stray in found)
    low, high = rate_interval(outside, len(found))
    print(
        f"{what:45} beyond the limit {outside} of {len(found)}: {outside / len(found):.2%}, "
        f"95% interval {low:.2%} to {high:.2%}; largest {max(found):.3g}, median {np.median(found):.3g}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
