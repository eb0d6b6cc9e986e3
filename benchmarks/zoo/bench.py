"""Runs the zoo: right ports and bugs by authors who had not read the code that judges them.

Launch: ``python benchmarks/zoo/bench.py {learn,held,all} [--case NAME ...] [--right-only] [--jobs N] [--json FILE]``.
The cases are split in two by lot (`split.toml`). One half is there to learn from; the other is run when the work is
frozen, and its first run is the one that counts. Prints a line for each port and each bug, then the totals.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bugs import Bug, bugs_of, plant, planted_lines, tomllib

from parity.case import load_case
from parity.experiment import Sides, open_sides, run_case
from parity.judge.binomial import rate_interval
from parity.judge.result import Result

ZOO = Path(__file__).parent
LONGEST = 3600  # seconds that one case with its bugs may take
# What authors had one word for: gradients that are combined, clipped or not; updates, what
# an optimizer keeps for them, and the rate that they are made with; losses, and those that optimizers of their own minimise.
ONE_PLACE = ({"grad", "clip"}, {"var", "state", "slot"}, {"loss", "metric"})
HALVES = ("learn", "held", "all")
BY_PLACE = "other_operation"  # which names both lines of source, and not what is wrong with the port's


class Outcome(NamedTuple):
    """What became of one port of the zoo.

    Fields:
      case: its name.
      bug: the planted bug, or None for the right port.
      verdict: "same", "different", "incomparable", or "none" where the comparison ended with an error.
      first: step, quantity and names of the first difference; the error's first line where there is no verdict.
      placed: whether the first difference is at the bug's layer or quantity.
      at_bug: whether one of the planted lines is shown, or the very module that the bug is in.
      causes: identifiers of the causes named, best first.
      told: title and evidence of the first cause.
      seconds: it took.
    """

    case: str
    bug: Bug | None
    verdict: str
    first: str
    placed: bool
    at_bug: bool
    causes: list[str]
    told: str
    seconds: float

    @property
    def detected(self) -> bool:
        """Whether the verdict is the one that a bug should get."""
        return self.verdict == ("same" if self.bug and self.bug.equivalent else "different")

    @property
    def named(self) -> bool:
        """Whether a right cause comes first: one of the bug's, or that its very place computes another thing."""
        if self.bug is None or not self.causes:
            return False
        return self.causes[0] in self.bug.causes or self.by_place

    @property
    def by_place(self) -> bool:
        """Whether all that is named is the place, and rightly so."""
        return self.at_bug and self.causes[:1] == [BY_PLACE]

    @property
    def misnamed(self) -> bool:
        """Whether another cause comes first."""
        return bool(self.causes) and not self.named


def main() -> int:
    """Runs a half of the zoo; returns 0 where every right port is same and every bug is detected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("--case", nargs="*", help="only these of the half")
    parser.add_argument("--right-only", action="store_true", help="leave the bugs out")
    parser.add_argument("--tf-python", help="interpreter with TensorFlow (default: this one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome here")
    parser.add_argument("--jobs", type=int, default=1, help="cases at once, each in a process of its own (default: 1)")
    arguments = parser.parse_args()
    known = in_half(arguments.half)
    strange = sorted(set(arguments.case or ()) - set(known))
    if strange:
        parser.error(
            f"--case: expected cases of the half {arguments.half}, got {', '.join(strange)}. Known: {', '.join(known)}."
        )
    names = [name for name in known if not arguments.case or name in arguments.case]
    if arguments.jobs > 1:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            found = pool.map(lambda name: in_a_process(arguments, name), names)
            outcomes = [outcome for part in found for outcome in part]
    else:
        outcomes = list(outcomes_of(names, arguments.tf_python, arguments.right_only))
    if arguments.json:
        arguments.json.write_text(json.dumps([as_json(outcome) for outcome in outcomes], indent=1), encoding="utf-8")
    print_totals(outcomes)
    return (
        0
        if outcomes
        and all(outcome.verdict == "same" if outcome.bug is None else outcome.detected for outcome in outcomes)
        else 1
    )


def outcomes_of(names: list[str], tf_python: str | None, right_only: bool) -> Iterator[Outcome]:
    """Yields what becomes of the right port of each case, and of its bugs, and prints it."""
    with contextlib.ExitStack() as stack:
        sides = stack.enter_context(open_sides(tf_python))
        for name in names:
            case = ZOO / "cases" / name
            for bug in [None, *([] if right_only else bugs_of(case))]:
                outcome = attempt(case, bug, sides)
                print(line(outcome), flush=True)
                yield outcome
                # A side that hung was ended: the next bug is not to fall with it.
                if outcome.verdict == "none" or sides.lost:
                    stack.close()
                    sides = stack.enter_context(open_sides(tf_python))


def in_a_process(arguments: argparse.Namespace, name: str) -> list[Outcome]:
    """Returns the outcomes of one case, run by this program in a process of its own, which prints them."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
        kept = Path(scratch) / "outcomes.json"
        words = [sys.executable, __file__, arguments.half, "--case", name, "--json", str(kept)]
        words += ["--right-only"] * arguments.right_only
        words += ["--tf-python", arguments.tf_python] if arguments.tf_python else []
        try:
            ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=False)
        except subprocess.TimeoutExpired:
            return [Outcome(name, None, "none", f"no end after {LONGEST} s", False, False, [], "", float(LONGEST))]
        print(ended.stdout.partition("\n\n")[0], flush=True)
        if not kept.exists():
            return [Outcome(name, None, "none", f"exit status {ended.returncode}", False, False, [], "", 0.0)]
        return [as_outcome(each) for each in json.loads(kept.read_text(encoding="utf-8"))]


def as_outcome(kept: dict[str, Any]) -> Outcome:
    """Returns an outcome as `as_json` left it."""
    return Outcome(**{**kept, "bug": Bug.model_validate(kept["bug"]) if kept["bug"] else None})


def in_half(half: str) -> list[str]:
    """Returns the names of the cases of "learn", "held" or "all"."""
    split = tomllib.loads((ZOO / "split.toml").read_text(encoding="utf-8"))
    return sorted(split["learn"] + split["held"] if half == "all" else split[half])


def attempt(case: Path, bug: Bug | None, sides: Sides) -> Outcome:
    """Compares a case's port, right or with a bug planted, at levels 1 and 2."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
        folder = plant(case, bug, Path(scratch) / case.name) if bug else case
        try:
            result = run_case(load_case(folder), sides)
        except Exception as error:  # no verdict, whoever's fault it is
            told = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            return Outcome(case.name, bug, "none", told, False, False, [], "", time.monotonic() - begun)
    planted = planted_lines(case, bug) if bug else range(0)
    first = result.causes[0] if result.causes else None
    return Outcome(
        case.name,
        bug,
        result.verdict,
        where(result),
        bool(bug) and at_its_place(bug, result, planted),
        bool(bug) and (at_its_line(bug, result, planted) or in_its_module(bug, result)),
        [cause.name for cause in result.causes],
        f"{first.title}: {first.evidence}" if first else "",
        time.monotonic() - begun,
    )


def where(result: Result) -> str:
    """Returns run, step and tensor of the first difference."""
    first = result.first_difference
    return f"{first.check.run} {first.check.step} {first.check.key}" if first else ""


def at_its_place(bug: Bug, result: Result, planted: range) -> bool:
    """Says whether a user is shown the bug's place.

    That is the case where the line of the port that the report shows, or one that calls it, is among the planted ones;
    where the bug's module is the one that is wrong first, the next one that is, holds one of them, or owns the variable that
    differs first; where a bug of evaluation shows in evaluation; and where the first difference is of the bug's quantity and
    it has no module, such as a loss behind all layers.

    Args:
      bug: that was planted.
      result: of the port with it.
      planted: numbers of the lines of its file that were planted.
    """
    first = result.first_difference
    if first is None:
        return False
    if at_its_line(bug, result, planted):
        return True
    if bug.kind == "evaluation" and first.quantity == "eval":
        return True
    owners = [name.strip() for pair in result.pairs if pair[0] == first.name for name in pair[1].split("+")]
    modules = [each for each in (first.module, first.next_module, first.name, *owners) if each]
    if bug.module and any(f"{each}.".startswith(f"{bug.module}.") for each in modules):
        return True
    if bug.module and first.quantity in ("act", "loss"):
        return False
    return any({first.quantity, bug.quantity} <= place for place in ({bug.quantity}, *ONE_PLACE))


def at_its_line(bug: Bug, result: Result, planted: range) -> bool:
    """Says whether the line of the port that the report shows, or one that calls it, is among the planted ones."""
    line = result.first_difference.lines[1] if result.first_difference else None
    shown = [] if line is None else [(line.file, line.line), *(each[:2] for each in line.callers)]
    return any(file == bug.file and number in planted for file, number in shown)


def in_its_module(bug: Bug, result: Result) -> bool:
    """Says whether the port's module that is wrong first is the one that the bug is in."""
    first = result.first_difference
    return bool(bug.module and first and first.module == bug.module)


def line(outcome: Outcome) -> str:
    """Returns one row of the table."""
    if outcome.bug is None:
        return f"{outcome.case:22} {'(right)':32} {outcome.verdict:12} {outcome.seconds:5.1f} s  {outcome.first}"
    named = "named" if outcome.named else f"misnamed {outcome.causes[0]}" if outcome.misnamed else "-"
    place = "placed" if outcome.placed else "elsewhere"
    return (
        f"{outcome.case:22} {outcome.bug.id:32} {outcome.verdict:12} {outcome.seconds:5.1f} s  {named:28} "
        f"{place:9} {outcome.first}"
    )


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Returns an outcome as a JSON object."""
    return {**outcome._asdict(), "bug": outcome.bug.model_dump() if outcome.bug else None}


def print_totals(outcomes: list[Outcome]) -> None:
    """Prints how many right ports are same, and how many bugs are detected, placed, named and misnamed."""
    right = [outcome for outcome in outcomes if outcome.bug is None]
    planted = [outcome for outcome in outcomes if outcome.bug is not None]
    effective = [outcome for outcome in planted if not outcome.bug.equivalent]
    print(f"\n{len(right)} cases, {len(planted)} bugs")
    for what, count, total in (
        ("right ports same, no mapping", sum(outcome.verdict == "same" for outcome in right), len(right)),
        ("bugs detected", sum(outcome.detected for outcome in planted), len(planted)),
        ("first difference in place", sum(outcome.placed for outcome in effective), len(effective)),
        ("right cause first", sum(outcome.named for outcome in effective), len(effective)),
        ("  by its place alone", sum(outcome.by_place for outcome in effective), len(effective)),
        ("wrong cause first", sum(outcome.misnamed for outcome in effective), len(effective)),
    ):
        if total:
            low, high = rate_interval(count, total)
            print(f"  {what:30} {count:4} of {total:4}  {count / total:6.1%}  ({low:.0%} to {high:.0%})")


if __name__ == "__main__":
    sys.exit(main())
