"""Plants the mistakes of a careless editor in files that `parity port` wrote, and counts what their proof says of them.

Launch: ``python benchmarks/port_mutations.py [--work DIR] [--tf-python PATH] [--port NAME ...] [--only ID ...]
[--json FILE] [--page]``.
``port_mutations.toml`` lists scripts of this repository and, for each, passages of its generated port.py or train.py
that are replaced, with labels that were written before anything was run: where it sits, and which causes would be right
to name. Each script is recorded on TensorFlow 1.15 and ported once into ``--work``; a recording that is there already is
used again. Every mutated folder is then judged as its test_port.py does: by the replay of the recording, and by a run of
its `train`. What counts as in place and as named is what counts in the zoo (zoo/README.md); what sits in train.py is in
place only where the run of `train` is what differs first. Prints a line for each, then totals; ``--page`` writes a table
into docs/port.md. Returns 0 where every port is the same as it was written, and every mutation is found.

The first run, before anything was learned from it: 12 of 12 ports as written same; of 58 mutations 51 found, 47 in
place, 34 with a right cause first, 31 both in place and named, 5 with another cause first. Of the 7 that were not found
4 ended with an error and no verdict (a parameter or a draw that is not used, a loss without a gradient), 2 were moving
averages, which were not judged, and 1 is no difference at all: slim's batch norm takes the unbiased variance as torch's
does, and its label was wrong. Of the other labels one lacked a right cause, `op_left_out` of a factor that is left out.
Since then what a run of `train` does otherwise is named, averages are judged, and what ended with an error has a verdict.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "benchmarks" / "port_mutations.toml"
PAGE = ROOT / "docs" / "port.md"
BEGIN, END = "<!-- mutations -->", "<!-- end of mutations -->"
sys.path.insert(0, str(ROOT / "benchmarks" / "zoo"))

from bench import Outcome, at_its_line, at_its_place, in_its_module, line, where  # noqa: E402
from bugs import Bug, plant, planted_lines  # noqa: E402

from parity.diagnose.catalogue import CAUSES  # noqa: E402
from parity.experiment.replay.training import TRAINING  # noqa: E402
from parity.judge.result import Result  # noqa: E402
from parity.port.prove import prove_folder, write_port  # noqa: E402
from parity.port.source.program import port_of  # noqa: E402
from parity.worker.launch import launch_torch  # noqa: E402
from parity.worker.process import SideProcess  # noqa: E402

SILENCE = 120.0  # seconds without a heartbeat after which a mutated port is ended


class Mutation(Bug):
    """One mistake in a generated file.

    Attributes:
      port: name of the port that it is planted in.
      sort: what kind of mistake it is, in the words of the table.
    """

    port: str
    sort: str


class Script(NamedTuple):
    """A script that is ported.

    Fields:
      name: of its port.
      path: in this repository.
      steps: that are recorded.
      about: what it has.
    """

    name: str
    path: str
    steps: int
    about: str


def read_manifest() -> tuple[list[Script], list[Mutation]]:
    """Returns the scripts and the mutations; raises ValueError where two share an id, or a cause is unknown."""
    table = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    mutations = [Mutation.model_validate(entry) for entry in table["mutation"]]
    names = [f"{each.port}/{each.id}" for each in mutations]
    if len(set(names)) < len(names):
        raise ValueError(f"{MANIFEST.name}: expected ids that differ, got {sorted(names)}")
    for each in mutations:
        unknown = sorted(set(each.causes) - set(CAUSES))
        if unknown:
            raise ValueError(f"{each.port}/{each.id}: expected causes of parity.diagnose.catalogue, got {unknown}")
    return [Script(**entry) for entry in table["port"]], mutations


def write_ports(scripts: list[Script], work: Path, python: str) -> None:
    """Records each script where it is not recorded yet, and writes its port."""
    for script in scripts:
        folder = work / script.name
        folder.mkdir(parents=True, exist_ok=True)
        trace = folder / "trace"
        if not (trace / "trace.json").is_file():
            command = [sys.executable, "-m", "parity.cli", "record", "--steps", str(script.steps), "--out", str(trace)]
            command += ["--tf-python", python, "--", str(ROOT / script.path)]
            with (folder / "record.log").open("w", encoding="utf-8") as log:
                environment = {**os.environ, "PYTHONPATH": str(ROOT)}
                subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=True)
        write_port(port_of(trace), folder / "port", None, trace)


def check(folder: Path, mutation: Mutation) -> None:
    """Raises ValueError where a mutation's passage does not stand once in its file, or what it leaves is no Python."""
    source = (folder / mutation.file).read_text(encoding="utf-8")
    if source.count(mutation.find) != 1:
        raise ValueError(
            f"{mutation.port}/{mutation.id}: expected {mutation.find!r} once in {mutation.file}, "
            f"got it {source.count(mutation.find)} times"
        )
    compile(source.replace(mutation.find, mutation.replace), mutation.file, "exec")


class Prover:
    """Proves folders on one torch process, and starts another where one was lost."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._side: SideProcess | None = None

    def __call__(self, folder: Path, trace: Path) -> Result:
        """Proves the port in a folder, as its test_port.py does."""
        if self._side is None or self._side.lost:
            self.close()
            self._side = launch_torch(self._log, SILENCE)
        return prove_folder(folder, trace, SILENCE, side=self._side)

    def close(self) -> None:
        """Ends the process."""
        if self._side is not None:
            self._side.close()
        self._side = None


def attempt(folder: Path, mutation: Mutation | None, prove: Callable[[Path, Path], Result]) -> Outcome:
    """Judges the port of a script's folder, as it was written or with a mutation in it."""
    begun, port, name = time.monotonic(), folder / "port", folder.name
    with tempfile.TemporaryDirectory(prefix="port-mutations-") as scratch:
        mutated = plant(port, mutation, Path(scratch) / "port") if mutation else port
        try:
            result = prove(mutated, folder / "trace")
        except Exception as error:  # no verdict, whoever's fault it is
            told = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            return Outcome(name, mutation, "none", told, False, False, [], "", time.monotonic() - begun)
    planted = planted_lines(port, mutation) if mutation else range(0)
    first = result.causes[0] if result.causes else None
    return Outcome(
        name,
        mutation,
        result.verdict,
        where(result),
        mutation is not None and is_placed(mutation, result, planted),
        mutation is not None and (at_its_line(mutation, result, planted) or in_its_module(mutation, result)),
        [cause.name for cause in result.causes],
        f"{first.title}: {first.evidence}" if first else "",
        time.monotonic() - begun,
    )


def is_placed(mutation: Mutation, result: Result, planted: range) -> bool:
    """Says whether a user is shown the place: as in the zoo, and of train.py that it is `train` that differs first."""
    first = result.first_difference
    if mutation.file == "train.py" and (first is None or first.check.run != TRAINING):
        return False
    return at_its_place(mutation, result, planted)


def outcomes_of(scripts: list[Script], mutations: list[Mutation], work: Path) -> Iterator[Outcome]:
    """Yields what becomes of each port as it was written, and of its mutations, and prints it."""
    with contextlib.closing(Prover(work / "torch.log")) as prove:
        for script in scripts:
            for mutation in [None, *(each for each in mutations if each.port == script.name)]:
                outcome = attempt(work / script.name, mutation, prove)
                print(line(outcome), flush=True)
                if outcome.bug and not outcome.bug.equivalent and not (outcome.placed and outcome.named):
                    print(f"{'':22} expected {' or '.join(outcome.bug.causes)}, got: {outcome.told or 'no cause'}")
                yield outcome


def totals(outcomes: list[Outcome]) -> list[tuple[str, int, int]]:
    """Returns what is counted, how many there are, and of how many."""
    right = [outcome for outcome in outcomes if outcome.bug is None]
    planted = [outcome for outcome in outcomes if outcome.bug is not None and not outcome.bug.equivalent]
    both = sum(outcome.detected and outcome.placed and outcome.named for outcome in planted)
    return [
        ("ports as written: same", sum(outcome.verdict == "same" for outcome in right), len(right)),
        ("found", sum(outcome.detected for outcome in planted), len(planted)),
        ("in place", sum(outcome.placed for outcome in planted), len(planted)),
        ("a right cause named first", sum(outcome.named for outcome in planted), len(planted)),
        ("of these by their place alone", sum(outcome.by_place for outcome in planted), len(planted)),
        ("in place and named", both, len(planted)),
        ("another cause named first", sum(outcome.misnamed for outcome in planted), len(planted)),
    ]


def table(outcomes: list[Outcome]) -> str:
    """Returns the table of the page: what was planted, by sort."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if isinstance(outcome.bug, Mutation) and not outcome.bug.equivalent:
            rows.setdefault(outcome.bug.sort, []).append(outcome)
    head = "| what was changed | planted | found | in place | named first |\n|" + "--|" * 5
    lines = [
        f"| {sort} | {len(each)} | {sum(one.detected for one in each)} | {sum(one.placed for one in each)} "
        f"| {sum(one.named for one in each)} |"
        for sort, each in sorted(rows.items())
    ]
    return "\n".join([head, *lines])


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("port-mutations"))
    parser.add_argument("--tf-python", default=str(Path.home() / ".cache/tower-parity/tf1.15/bin/python"))
    parser.add_argument("--port", nargs="*", help="only these ports")
    parser.add_argument("--only", nargs="*", help="only these mutations")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome here")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    scripts, mutations = read_manifest()
    mutations = [each for each in mutations if not arguments.only or each.id in arguments.only]
    wanted = arguments.port or {each.port for each in mutations}
    scripts, work = [script for script in scripts if script.name in wanted], arguments.work.resolve()
    mutations = [each for each in mutations if each.port in wanted]
    write_ports(scripts, work, arguments.tf_python)
    for each in mutations:
        check(work / each.port / "port", each)
    outcomes = list(outcomes_of(scripts, mutations, work))
    print()
    for what, count, total in totals(outcomes):
        print(f"  {what:30} {count:4} of {total}")
    if arguments.json:
        kept = [{**each._asdict(), "bug": each.bug.model_dump() if each.bug else None} for each in outcomes]
        arguments.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    if arguments.page:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table(outcomes)}\n\n{END}{after}", encoding="utf-8")
    written = all(outcome.verdict == "same" if outcome.bug is None else outcome.detected for outcome in outcomes)
    return 0 if outcomes and written else 1


if __name__ == "__main__":
    sys.exit(main())
