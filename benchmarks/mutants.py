"""Changes the packages a little, again and again, and counts how often a test notices.

Launch: ``python benchmarks/mutants.py [--count N] [--seed S] [--areas JUDGE,TRACE] [--budget SECONDS]``. What is drawn, and
how much of it where, stands in `mutation/draw.py`. Every mutant is applied alone, in a temporary copy of the checkout, and
the tests of the default tier that run its line are run, the quickest file first, up to the first that fails. Which these
are, a map knows that is gathered once (`--gather` does no more than that) and kept beside the results in `--out`.
Called again it goes on where it was. Returns 0 when nine of ten mutants are killed.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutation.checkout import Checkout
from mutation.draw import AREAS, Mutant, Source, digest
from mutation.equivalent import is_equivalent
from mutation.seen import Seen

ROOT = Path(__file__).resolve().parents[1]
WANTED = 0.9
QUICK = 8  # files of tests that are run before all others: collecting costs as much as running them
STATES = ("killed", "timed out", "survived", "not run", "equivalent")


def main(words: Sequence[str] | None = None) -> int:
    """Draws, runs, prints; returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the tests under way end too
    arguments = _parser().parse_args(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    checkout = Checkout(ROOT)
    seen = Seen(arguments.out / "seen.json", checkout.root)
    files = [path for path in checkout.test_files() if not arguments.tests or path.startswith(tuple(arguments.tests))]
    gather(seen, checkout, files)
    if arguments.gather:
        return 0
    kept = arguments.out / f"results-{arguments.seed}.json"
    results: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    chosen = arguments.areas.split(",") if arguments.areas else list(AREAS)
    drawn = [mutant for mutant in Source(ROOT).draw(arguments.count, arguments.seed) if mutant.area in chosen]
    for mutant in drawn:
        known = results.get(mutant.name)
        if known is None or known["module"] != digest(ROOT / mutant.path) or known["state"] in arguments.again:
            results[mutant.name] = judged(mutant, seen, checkout, arguments.budget)
            kept.write_text(json.dumps(results, indent=1))
            print(f"{results[mutant.name]['state']:11} {mutant.name}", flush=True)
    found = [results[mutant.name] for mutant in drawn]
    print(told(found))
    return 0 if share_killed(found) >= WANTED else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="mutants; the first are the same whatever the number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--areas", default="", help=f"judge those alone, of {', '.join(AREAS)}")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of tests for one mutant, the quickest first"
    )
    parser.add_argument("--tests", nargs="*", default=[], help="files or folders of tests to use; all by default")
    parser.add_argument("--again", nargs="*", default=[], choices=STATES, help="states that are judged once more")
    parser.add_argument("--gather", action="store_true", help="make the map of what tests run, and stop")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--out", type=Path, default=cache / "tower-parity/mutants", help="folder of map and results")
    return parser


def gather(seen: Seen, checkout: Checkout, files: list[str], together: int = 12) -> None:
    """Runs the tests of which the map does not know what they run, some files at a time."""
    missing = seen.missing(files)
    for begin in range(0, len(missing), together):
        some = missing[begin : begin + together]
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            checkout.watched(some, Path(folder), 1800.0)
            seen.take(Path(folder), some)
        print(
            f"watched {', '.join(some)}: {time.monotonic() - started:.0f} s, {checkout.log.splitlines()[-1]}",
            flush=True,
        )


def judged(mutant: Mutant, seen: Seen, checkout: Checkout, budget: float) -> dict[str, Any]:
    """Returns what became of a mutant: its state, of `STATES`, with the seconds and the number of tests."""
    started = time.monotonic()
    tests, spent = [], 0.0
    could = seen.of(mutant)
    for test in could:
        spent += seen.tests[test].seconds
        if spent > budget and tests:
            break
        tests.append(test)
    state = "equivalent" if is_equivalent(mutant) else _state(mutant, tests, checkout, 60.0 + 5.0 * min(spent, budget))
    return {
        "area": mutant.area,
        "mutant": mutant.name,
        "function": mutant.site.function,
        "state": state,
        "tests": len(tests),
        "tests_that_run": len(could),
        "seconds": round(time.monotonic() - started, 1),
        "module": digest(ROOT / mutant.path),
    }


def _state(mutant: Mutant, tests: list[str], checkout: Checkout, limit: float) -> str:
    if not tests:
        return "not run"
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    first = [test for test in tests if test.partition("::")[0] in files[:QUICK]]
    with checkout.changed(mutant.path, mutant.site.applied((checkout.root / mutant.path).read_text())):
        for some in (first, tests[len(first) :]):
            failed = checkout.fails(some, limit) if some else False
            if failed is not False:
                return "timed out" if failed is None else "killed"
    return "survived"


def share_killed(found: Sequence[dict[str, Any]]) -> float:
    """Returns the share of mutants that were killed, by a failure or by time, of those that can be."""
    states = Counter(each["state"] for each in found)
    able = len(found) - states["equivalent"]
    return (states["killed"] + states["timed out"]) / able if able else 1.0


def told(found: Sequence[dict[str, Any]]) -> str:
    """Returns the table of areas, and the survivors."""
    lines = ["", f"{'area':15}" + "".join(f"{state:>12}" for state in STATES)]
    for area in [*AREAS, "all"]:
        states = Counter(each["state"] for each in found if area in (each["area"], "all"))
        if states:
            lines.append(f"{area:15}" + "".join(f"{states[state]:12}" for state in STATES))
    lines += ["", f"killed: {share_killed(found):.0%} in {sum(each['seconds'] for each in found):.0f} s"]
    for each in found:
        if each["state"] in ("survived", "not run"):
            lines.append(f"{each['state']}: {each['mutant']} ({each['tests']} of {each['tests_that_run']} tests)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
