"""Records public TensorFlow 1 tower scripts, scans them as they lie in their repositories, and prints where the two differ.

Launch: ``python benchmarks/public_hazards.py --sources DIR [--only NAME ...] [--tf-python PATH] [--work DIR]``.
Scripts, ``DIR`` and recordings are those of public_ports.py; a recording that is there already is read again. What is
scanned is the folder of a script without any edit; a finding counts where it is in the script, or in a module that the
recorded run imported. Prints for each script the hazards of the recording, the rules that speak of hazards and have
findings, what only one of them names and the page of a rule says that this one alone may, and what no page speaks of;
then how many of each. Returns 0 where every script is recorded and nothing differs without a page that says so.
"""

import argparse
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import public_ports
import tomllib

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.scan_and_record import allowed_by_a_page, disagreements  # noqa: E402

from parity.scan.result import Finding  # noqa: E402
from parity.scan.rules import SCAN_RULES  # noqa: E402
from parity.scan.scan import rules_of, scan  # noqa: E402
from parity.trace import Trace  # noqa: E402


@dataclass(frozen=True)
class Comparison:
    """What a recording and a scan say of one script.

    Attributes:
      name: of the script.
      recorded: names of hazards.
      found: identifiers of rules that speak of hazards.
      allowed: what only one of them names, and the page of a rule speaks of.
      disagreements: what only one of them names, and no page speaks of.
    """

    name: str
    recorded: tuple[str, ...]
    found: tuple[str, ...]
    allowed: tuple[str, ...]
    disagreements: tuple[str, ...]

    def row(self) -> str:
        """One row of the table."""
        cells = (self.recorded, self.found, self.allowed, self.disagreements)
        return " | ".join([f"| {self.name}", *(", ".join(cell) or "-" for cell in cells)]) + " |"


def compare(script: dict, sources: Path, folder: Path) -> Comparison:
    """Returns what the recording in a folder and the scan of the unedited script say."""
    recorded = sorted({hazard["name"] for hazard in Trace(folder / "trace", whole=False).facts["hazards"]})
    found = [rule for rule in rules_of(findings_of(script, sources, folder)) if SCAN_RULES[rule].hazards]
    allowed, differing = allowed_by_a_page(recorded, found), disagreements(recorded, found)
    return Comparison(script["name"], tuple(recorded), tuple(found), tuple(allowed), tuple(differing))


def findings_of(script: dict, sources: Path, folder: Path) -> list[Finding]:
    """Returns what a scan of the script's folder says of the files that its recording ran."""
    checkout = sources / script["repository"].replace("/", "+")
    place = Path(script.get("folder", "."))
    ran = {place / script["command"][0], *imported(folder / "checkout")}
    return [each for each in scan([checkout / place]).findings if Path(each.place.path).relative_to(checkout) in ran]


def imported(checkout: Path) -> set[Path]:
    """Returns the modules that a run imported from a fresh checkout, by what Python compiled there, as paths in it."""
    compiled = checkout.rglob("__pycache__/*.pyc")
    return {Path(importlib.util.source_from_cache(str(path))).relative_to(checkout) for path in compiled}


def counts(comparisons: list[Comparison]) -> str:
    """How often the two name the same, as one line."""
    hazards = sum(len(each.recorded) for each in comparisons)
    rules = sum(len(each.found) for each in comparisons)
    allowed = sum(len(each.allowed) for each in comparisons)
    differing = sum(len(each.disagreements) for each in comparisons)
    same = sum(not each.disagreements for each in comparisons)
    return (
        f"{len(comparisons)} scripts, {hazards} hazards recorded, {rules} rules found: {same} scripts say the same or "
        f"a page says why not ({allowed} times), {len(comparisons) - same} differ ({differing} times)"
    )


def main() -> int:
    """Runs what was asked for, one script at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--work", type=Path, default=Path("public-ports"))
    parser.add_argument("--tf-python", default=str(Path.home() / ".cache/tower-parity/tf1.15/bin/python"))
    arguments = parser.parse_args()
    sources, work = arguments.sources.resolve(), arguments.work.resolve()
    scripts = tomllib.loads(public_ports.MANIFEST.read_text(encoding="utf-8"))["script"]
    comparisons, failed = [], 0
    print("| script | recorded | found | a page says | differs |\n" + "|--" * 5 + "|")
    for script in scripts:
        if arguments.only and script["name"] not in arguments.only:
            continue
        reasons = public_ports.record_once(script, sources, work, arguments.tf_python)
        if reasons:
            failed += 1
            print(f"| {script['name']} | not recorded: {' '.join(reasons)[:160]} | | | |", flush=True)
            continue
        comparisons.append(compare(script, sources, work / script["name"]))
        print(comparisons[-1].row(), flush=True)
    print(f"\n{counts(comparisons)}; {failed} not recorded")
    return int(failed > 0 or any(each.disagreements for each in comparisons))


if __name__ == "__main__":
    sys.exit(main())
