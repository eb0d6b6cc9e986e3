"""Combines gradients wrongly in whole training programs, and says what `parity replay` finds and names.

Launch: ``python benchmarks/zoo/ways.py [--kind dense|sparse] [--only ID ...] [--work DIR] [--jobs N] [--kept] [--page]``.
`programs/ways/ways.toml` lists passages of right programs that are replaced, with the causes that would be right to
name; its authors had not read the code that judges them. Of the right programs that compute the same the first is recorded
(``parity record --steps 5 --shadow``), and replayed on all of them, as they are and with each of their passages replaced:
``parity replay RIGHT -- torchrun --nproc_per_node 2 PROGRAM``. Recordings in ``--work`` are used again. Prints a
line for each, then totals; ``--page`` writes the table into docs/method.md. Returns 0 where every right program is the same
and every wrong one is not.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs" / "ways"
PAGE = ROOT / "docs" / "method.md"
BEGIN, END = "<!-- ways -->", "<!-- end of ways -->"
STEPS = 5
LONGEST = 600  # seconds for one recording or replay
RIGHT = "right"


class Planted(NamedTuple):
    """A program that is launched.

    Fields:
      id: of the row.
      way: key of the way, or `RIGHT`.
      kind: "dense" or "sparse".
      base: file of the right program.
      reference: file of the right program that it is compared with.
      edits: passages of the base and what replaces them.
      causes: any of which is right to be named first.
    """

    id: str
    way: str
    kind: str
    base: str
    reference: str
    edits: tuple[tuple[str, str], ...]
    causes: tuple[str, ...]


class Outcome(NamedTuple):
    """What became of one program.

    Fields:
      planted: which it was.
      verdict: as of the report; "none" where there was none.
      first: the first difference; the last line that was printed where there is no verdict.
      causes: that were named, best first.
      seconds: it took.
    """

    planted: Planted
    verdict: str
    first: str
    causes: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether what was said is right: *same* of a right program, a right cause first of a wrong one."""
        if self.planted.way == RIGHT:
            return self.verdict == "same"
        return self.verdict == "different" and bool(self.causes) and self.causes[0] in self.planted.causes


def read_manifest() -> list[Planted]:
    """Returns the right programs and the wrong ones."""
    table = tomllib.loads((PROGRAMS / "ways.toml").read_text(encoding="utf-8"))
    groups: list[list[str]] = table["same_programs"]
    # What computes the same is compared with one of them: a port is seldom in the style of what it was ported from.
    reference = {base: group[0] for group in groups for base in group}
    right = [
        Planted(Path(base).stem, RIGHT, base.partition("_")[0], base, first, (), ())
        for base, first in reference.items()
    ]
    wrong = [
        Planted(
            each["id"],
            each["way"],
            each["kind"],
            each["base"],
            reference[each["base"]],
            tuple((edit["old"], edit["new"]) for edit in each["edits"]),
            tuple(each["causes"]),
        )
        for each in table["way"]
    ]
    return [*right, *wrong]


def write_program(planted: Planted, folder: Path) -> Path:
    """Writes a program; raises ValueError where a passage does not stand in it just once."""
    source = (PROGRAMS / planted.base).read_text(encoding="utf-8")
    for old, new in planted.edits:
        if source.count(old) != 1:
            raise ValueError(f"{planted.id}: expected {old!r} once in {planted.base}, got it {source.count(old)} times")
        source = source.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "train.py"
    file.write_text(source, encoding="utf-8")
    return file


def launched(file: Path) -> list[str]:
    """Returns the command of a program."""
    return ["torchrun", "--standalone", "--nproc_per_node", "2", str(file), "--batch-size", "8"]


def parity(words: Sequence[str], log: Path) -> int:
    """Runs a command of this tool; returns its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as printed:
        command = [sys.executable, "-m", "parity.cli", *words]
        return subprocess.run(command, env=environment, stdout=printed, stderr=printed, timeout=LONGEST).returncode


def record(base: str, work: Path) -> None:
    """Leaves the recording of a right program, with its shadow, where it is not there yet."""
    folder = work / "references" / Path(base).stem
    trace = folder / "trace"
    if not (trace / "trace.json").is_file():
        file = write_program(Planted(base, RIGHT, "", base, base, (), ()), folder)
        words = ["record", "--steps", str(STEPS), "--shadow", "--out", str(trace), "--", *launched(file)]
        parity(words, folder / "record.log")


def attempt(planted: Planted, work: Path, kept: bool = False) -> Outcome:
    """Replays the recording of its reference on a program; `kept` takes the result that is there already."""
    begun, folder = time.monotonic(), work / "replays" / planted.id.replace(" ", "-")
    file = write_program(planted, folder)
    found, log = folder / "result.json", folder / "replay.log"
    if not kept:
        found.unlink(missing_ok=True)
    trace = work / "references" / Path(planted.reference).stem / "trace"
    try:
        if not found.is_file():
            words = ["replay", str(trace), "--json", str(found), "--timeout", "60"]
            parity([*words, "--", *launched(file)], log)
    except subprocess.TimeoutExpired:
        return Outcome(planted, "none", f"no end in {LONGEST} s", (), time.monotonic() - begun)
    seconds = time.monotonic() - begun
    if not found.is_file():
        return Outcome(planted, "none", last_line(log if log.is_file() else trace.parent / "record.log"), (), seconds)
    result: dict[str, Any] = json.loads(found.read_text("utf-8"))
    causes = [cause["name"] for cause in result.get("causes", ())]
    return Outcome(planted, result["verdict"], first_difference(result), tuple(causes), seconds)


def last_line(log: Path) -> str:
    """Returns the last line that was printed."""
    lines = [each for each in log.read_text("utf-8").splitlines() if each.strip()]
    return (lines or [""])[-1]


def first_difference(result: dict[str, Any]) -> str:
    """Returns step and key of the first difference in a result's JSON, or an empty text."""
    first = result.get("first_difference")
    return f"step {first['step']}, {first['key']}" if first else ""


def line(outcome: Outcome) -> str:
    """Returns what is printed of a program."""
    causes = ", ".join(outcome.causes[:3]) or "no cause"
    said = outcome.verdict if outcome.planted.way == RIGHT else f"{outcome.verdict}: {causes}"
    mark = " " if outcome.right else "!"
    wanted = "" if outcome.right or not outcome.planted.causes else f"   (wanted {' or '.join(outcome.planted.causes)})"
    return f"{mark} {outcome.planted.id:34} {said}{wanted}   {outcome.first}   {outcome.seconds:.0f} s"


def outcomes_of(chosen: Sequence[Planted], work: Path, jobs: int, kept: bool) -> Iterator[Outcome]:
    """Yields what becomes of each program, and prints it."""
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda base: record(base, work), sorted({each.reference for each in chosen})))
        for outcome in pool.map(lambda each: attempt(each, work, kept), chosen):
            print(line(outcome), flush=True)
            yield outcome


def totals(outcomes: Sequence[Outcome]) -> list[tuple[str, int, int]]:
    """Returns what is counted, how many there are, and of how many."""
    right = [each for each in outcomes if each.planted.way == RIGHT]
    counted = [("right programs: same", sum(each.right for each in right), len(right))]
    for kind in ("dense", "sparse"):
        wrong = [each for each in outcomes if each.planted.way != RIGHT and each.planted.kind == kind]
        counted += [
            (f"{kind}: found", sum(each.verdict == "different" for each in wrong), len(wrong)),
            (f"{kind}: a right cause first", sum(each.right for each in wrong), len(wrong)),
        ]
    return [each for each in counted if each[2]]


def table(outcomes: Sequence[Outcome]) -> str:
    """Returns what is written into the page: totals, and of each way the cause that is named first."""
    wrong = [each for each in outcomes if each.planted.way != RIGHT]
    rows = ["| way | dense | sparse |", "|---|---|---|"]
    for way in dict.fromkeys(each.planted.way for each in wrong):
        cells = [
            ", ".join(_cell(each) for each in wrong if (each.planted.way, each.planted.kind) == (way, kind)) or "-"
            for kind in ("dense", "sparse")
        ]
        rows.append(f"| {way.replace('_', ' ')} | {' | '.join(cells)} |")
    told = "\n".join(f"- {what}: {count} of {of}" for what, count, of in totals(outcomes))
    return f"{told}\n\n" + "\n".join(rows)


def _cell(outcome: Outcome) -> str:
    if outcome.verdict != "different":
        return f"*{outcome.verdict}*"
    if not outcome.causes:
        return "no cause"
    return f"`{outcome.causes[0]}`" + ("" if outcome.right else ", which is wrong")


def main(words: Sequence[str] | None = None) -> int:
    """Runs, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=("dense", "sparse"))
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--work", type=Path, default=Path("parity-out/ways"), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--kept", action="store_true", help="replay those alone of which --work has no result")
    parser.add_argument("--page", action="store_true", help="write the table into docs/method.md")
    arguments = parser.parse_args(words)
    chosen = [
        each
        for each in read_manifest()
        if arguments.kind in (None, each.kind) and (not arguments.only or each.id in arguments.only)
    ]
    outcomes = list(outcomes_of(chosen, arguments.work.resolve(), arguments.jobs, arguments.kept))
    for what, count, of in totals(outcomes):
        print(f"{count:4} of {of:3}  {what}")
    if arguments.page:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}", encoding="utf-8")
    found = all(each.right if each.planted.way == RIGHT else each.verdict == "different" for each in outcomes)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
