"""How large the page of a run is, and how soon a browser has drawn it: 2,000 tensors by 200 steps, 100,000 by 5.

Random mantissas, which compress worst, both levels in lockstep. Of several openings the quickest counts, each in a tab of
its own; beside it stands how long an empty page takes to be drawn on this machine now.

Run: python benchmarks/report_sizes.py [--openings 3]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.chromium import Chromium  # noqa: E402
from support.machine import chromium  # noqa: E402

from parity.judge.result import Check, FirstDifference, Level, Result  # noqa: E402
from parity.report import write_html  # noqa: E402

SIZES = ((2_000, 200), (100_000, 5))
MOST_BYTES, MOST_MILLISECONDS = 20e6, 1000
EMPTY = "<!DOCTYPE html><title>x</title><script>document.documentElement.dataset.drawn = performance.now();</script>"


def judged(keys: list[str], steps: int, seed: int) -> list[Check]:
    """Returns the checks of a run in lockstep; in the last half of the steps the last third of the tensors is wrong."""
    random = np.random.default_rng(seed)
    allowed = np.exp(random.normal(-31, 1, (steps, len(keys))))
    error = allowed * np.exp(random.normal(-4, 1, (steps, len(keys))))
    error[steps // 2 :, len(keys) * 2 // 3 :] *= 1e9
    return [
        Check("lockstep", step, key, "same" if one <= most else "different", one, most, 1.0, 1.0)
        for step in range(steps)
        for key, one, most in zip(keys, error[step].tolist(), allowed[step].tolist(), strict=True)
    ]


def result_of(tensors: int, steps: int) -> Result:
    quantities = ("act/0", "tower_grad/0", "grad", "var")
    keys = [f"{quantities[4 * n // tensors]}/stage{n % 7}/block{n % 1000}/conv{n}/kernel" for n in range(tensors)]
    checks = judged(keys, steps, 0)
    first = FirstDifference(next(check for check in checks if check.verdict == "different"), "grad", "x", "", None)
    function = Level("function", "different", "", checks, first)
    levels = {"function": function, "float32": Level("float32", "different", "", judged(keys, steps, 1))}
    return Result(levels, {"towers": 8}, {"ranks": 8})


def drawn(path: Path, folder: Path, openings: int) -> float:
    """Returns the milliseconds from the navigation until the map is drawn, by the page's clock: the least of some."""
    found = []
    for number in range(openings):
        tab = Chromium(chromium(), folder / f"profile-{path.stem}-{number}")
        try:
            found.append(float(tab.open(path)))
        finally:
            tab.close()
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--openings", type=int, default=3)
    openings = parser.parse_args().openings
    holds = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.html").write_text(EMPTY, encoding="utf-8")
        print(f"{'empty page':<24}{'':>12}  drawn after {drawn(folder / 'empty.html', folder, openings):5.0f} ms")
        for tensors, steps in SIZES:
            path, began = folder / f"{tensors}.html", time.perf_counter()
            result = result_of(tensors, steps)
            made = time.perf_counter()
            write_html(result, path, "x")
            wrote, size, took = time.perf_counter() - made, path.stat().st_size, drawn(path, folder, openings)
            print(f"{tensors:>7,} by {steps:>3} steps     {size / 1e6:8.1f} MB  drawn after {took:5.0f} ms", end="  ")
            print(f"(written in {wrote:.0f} s, made in {made - began:.0f} s)")
            holds &= size < MOST_BYTES and took < MOST_MILLISECONDS
    print(f"under {MOST_BYTES / 1e6:.0f} MB and {MOST_MILLISECONDS} ms: {'holds' if holds else 'does not hold'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
