"""Plants bugs in a drawn case and says what became of them."""

import tempfile
from pathlib import Path
from typing import NamedTuple

from plain import judged_plainly
from tables import Table, told

from parity.case import Case
from parity.experiment import Sides, run_case
from parity.experiment.plant import Planted, plant
from parity.judge.result import Cause, FirstDifference
from torch_ddp.mutations import Mutation

Bug = tuple[Mutation | Table, float]


class Outcome(NamedTuple):
    """What became of one planted bug.

    Fields:
      net: where it was planted.
      bug: its name.
      size: what it is off by.
      detected: whether the verdict is other than same.
      where: run, step and tensor of the first difference.
      first_right: whether it is a quantity that the bug can show in first.
      rank: place of a right cause among those named, from 1; 0 where none is.
      named: the causes that are named.
      plain: what the hand-written comparisons say.
    """

    net: str
    bug: str
    size: float
    detected: bool
    where: str
    first_right: bool
    rank: int
    named: list[str]
    plain: dict[str, bool]


def planted(case: Case, bugs: list[Bug], sides: Sides, into: Path) -> tuple[Case, Sides]:
    """Returns a case, and sides to run it with, that have the bugs."""
    of_the_port = [Planted(bug.name, size) for bug, size in bugs if isinstance(bug, Mutation)]
    own_optimizer = any(bug.family == "optimizer" for bug, _ in bugs if isinstance(bug, Mutation))
    if of_the_port:
        case = plant(case, of_the_port, into / "port" / "planted", own_optimizer)
    for bug, size in bugs:
        if isinstance(bug, Table):
            sides = told(sides, bug, size)
    return case, sides


def try_bug(case: Case, bug: Mutation | Table, size: float, sides: Sides) -> Outcome:
    """Plants one bug and says what became of it."""
    with tempfile.TemporaryDirectory() as folder:
        buggy, its_sides = planted(case, [(bug, size)], sides, Path(folder))
        out = Path(folder) / "out"
        result = run_case(buggy, its_sides, levels=("function",), out=out)
        return Outcome(
            case.name,
            bug.name,
            size,
            result.verdict != "same",
            shown(result.first_difference),
            result.first_difference is not None and result.first_difference.quantity in bug.first,
            rank_of(bug, result.causes),
            [cause.name for cause in result.causes],
            judged_plainly(buggy, out),
        )


def rank_of(bug: Mutation | Table, causes: list[Cause]) -> int:
    """Returns the place of a cause that says what the bug is, from 1; 0 where none does."""
    return next((place for place, cause in enumerate(causes, start=1) if cause.name in bug.causes), 0)


def shown(first: FirstDifference | None) -> str:
    """Returns run, step and tensor of a first difference."""
    return f"{first.check.run} {first.check.step} {first.check.key}" if first else ""
