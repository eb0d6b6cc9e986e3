"""Replays recorded TensorFlow scripts on their ports, whole training programs that nobody edits.

Launch: ``python benchmarks/zoo/programs.py [--only NAME ...] [--tf-python PATH] [--work DIR] [--jobs N]``.
`programs/pairs` holds scripts and right ports by an author who had not read the code that judges them. Each script is
recorded once (``parity record --steps 5``), and its port replayed, with a mapping where the pair has one: ``parity replay
TRACE -- torchrun --nproc_per_node 2 train_ddp.py``, started as their README says. Returns 0 where all are *same*.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ways import LONGEST, first_difference, last_line, parity

PAIRS = Path(__file__).parent / "programs" / "pairs"
STEPS = 5


class Outcome(NamedTuple):
    """What became of one port.

    Fields:
      name: of the pair.
      verdict: as of the report; "none" where there was none.
      levels: verdict of each level that was asked for.
      first: the first difference; the last line that was printed where there is no verdict.
      causes: that were named, best first.
      seconds: it took.
    """

    name: str
    verdict: str
    levels: dict[str, str]
    first: str
    causes: list[str]
    seconds: float


def launched(name: str) -> list[str]:
    """Returns the command of a port, with the size of a rank's batch that the README says."""
    port = f"{name}/train_ddp.py"
    found = re.search(rf"`{re.escape(port)} ([^`]+)`", (PAIRS / "README.md").read_text(encoding="utf-8"))
    words = found.group(1).split() if found else []
    return ["torchrun", "--standalone", "--nproc_per_node", "2", str(PAIRS / port), *words]


def attempt(name: str, work: Path, tf_python: str | None) -> Outcome:
    """Records the script of a pair where it is not recorded yet, and replays its port."""
    begun, folder = time.monotonic(), work / name
    folder.mkdir(parents=True, exist_ok=True)
    trace, found = folder / "trace", folder / "result.json"
    found.unlink(missing_ok=True)
    log = folder / "record.log"
    try:
        if not (trace / "trace.json").is_file():
            chosen = ["--tf-python", tf_python] if tf_python else []
            script = str(PAIRS / name / "train_tf.py")
            parity(["record", "--steps", str(STEPS), "--out", str(trace), *chosen, "--", script], log)
        if (trace / "trace.json").is_file():
            log = folder / "replay.log"
            lines = PAIRS / name / "map.toml"
            words = ["replay", str(trace), "--json", str(found), "--levels", "1,2"]
            words += ["--map", str(lines)] if lines.is_file() else []
            parity([*words, "--", *launched(name)], log)
    except subprocess.TimeoutExpired:
        return Outcome(name, "none", {}, f"no end in {LONGEST} s", [], time.monotonic() - begun)
    seconds = time.monotonic() - begun
    if not found.is_file():
        return Outcome(name, "none", {}, last_line(log), [], seconds)
    result: dict[str, Any] = json.loads(found.read_text("utf-8"))
    levels = {each: level["verdict"] for each, level in result["levels"].items() if level["verdict"] != "not_run"}
    causes = [cause["name"] for cause in result["causes"]]
    return Outcome(name, result["verdict"], levels, first_difference(result), causes, seconds)


def main(words: Sequence[str] | None = None) -> int:
    """Runs, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--tf-python", metavar="PATH", help="interpreter with the TensorFlow to record on")
    parser.add_argument("--work", type=Path, default=Path("parity-out/programs"), metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    arguments = parser.parse_args(words)
    names = sorted(each.name for each in PAIRS.iterdir() if each.is_dir())
    chosen = [name for name in names if not arguments.only or name in arguments.only]
    outcomes = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        work = arguments.work.resolve()
        for outcome in pool.map(lambda name: attempt(name, work, arguments.tf_python), chosen):
            levels = ", ".join(f"{name} {verdict}" for name, verdict in outcome.levels.items())
            causes = ", ".join(outcome.causes[:3])
            told = "   ".join(filter(None, [levels, outcome.first, causes]))
            print(f"{outcome.name:28} {outcome.verdict}   {told}   {outcome.seconds:.0f} s", flush=True)
            outcomes.append(outcome)
    same = sum(outcome.verdict == "same" for outcome in outcomes)
    print(f"{same:4} of {len(outcomes):3}  same at the levels that were decided")
    return 0 if same == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
