"""Prints the share of the packages' lines that tests run, in whatever process and interpreter that is.

``python benchmarks/line_coverage.py [--checkout FOLDER] [-- WORDS FOR PYTEST]``: ``-- -n 2`` for the default tier
in two processes. Lines are counted as `mutation/watch.py` sees them, so that ranks, workers, scripts under Python 3.7 and
processes that are killed count as well. Another checkout, of an older commit, is measured by the same rule.
"""

import argparse
import dis
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType

from mutation.checkout import Checkout
from mutation.imports import PACKAGES
from mutation.seen import lines_in

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 7200.0


def main(words: Sequence[str] | None = None) -> int:
    """Runs the tests, prints the shares; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another one than that of this file")
    parser.add_argument("--missing", action="store_true", help="print the lines that no test runs, by module")
    parser.add_argument("pytest", nargs="*", help="words for pytest, after --")
    arguments = parser.parse_args(words)
    checkout = Checkout(arguments.checkout.resolve())
    run: defaultdict[str, set[int]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as folder:
        checkout.watched(arguments.pytest, Path(folder), SECONDS, by_test=False)
        for found in lines_in(Path(folder)).values():
            for (path, _), lines in found.items():
                run[path] |= lines
    print(checkout.log.splitlines()[-1])
    there = {path.relative_to(checkout.root).as_posix(): lines_of(path) for path in modules(checkout.root)}
    for package in [*PACKAGES, ""]:
        own = [path for path in there if path.startswith(package)]
        count = sum(len(there[path]) for path in own)
        seen = sum(len(there[path] & run[path]) for path in own)
        print(f"{package or 'all':12}{seen:8} of {count:6} lines: {seen / count:.2%}")
    if arguments.missing:
        for path, lines in there.items():
            if lines - run[path]:
                print(f"{path}: {', '.join(map(str, sorted(lines - run[path])))}")
    return 0


def modules(root: Path) -> Iterator[Path]:
    """Returns the modules of the packages; not their own __init__, in which watching begins."""
    for package in PACKAGES:
        yield from (path for path in sorted((root / package).rglob("*.py")) if path != root / package / "__init__.py")


def lines_of(path: Path) -> set[int]:
    """Returns the numbers of a module's lines that can be run."""
    lines: set[int] = set()
    codes = [compile(path.read_text(), str(path), "exec")]
    while codes:
        code = codes.pop()
        lines |= {line for _, line in dis.findlinestarts(code) if line}
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return lines


if __name__ == "__main__":
    sys.exit(main())
