"""Times `parity run` on the smallest example beside what importing the two frameworks costs.

Launch: ``python benchmarks/startup.py [--pairs 5]``. Prints both medians, their spread and the ratio; the promise is at
most 2.5. The two are measured in turn, in pairs, so that a busy machine is busy for both; the first pair warms the disk
and is not counted. All find their modules compiled, as pip leaves an installed package.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 2.5
IMPORTS = (
    [sys.executable, "-c", "import tensorflow.compat.v1"],
    [sys.executable, "-c", "import torch"],
)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
RUN = [sys.executable, "-m", "parity.cli", "run", str(ROOT / "examples" / "digits_mlp")]


def seconds(*commands: list[str]) -> float:
    """Returns the wall time of the commands, one after the other, in seconds."""
    begin = time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=300, env=ENVIRONMENT)
    return time.perf_counter() - begin


def main() -> int:
    """Measures and prints; returns 0 when the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    found = [(seconds(*IMPORTS), seconds(RUN)) for _ in range(pairs + 1)][1:]
    imports, runs = zip(*found, strict=True)
    ratios = sorted(run / importing for importing, run in found)
    print(f"import tensorflow, then torch   median {statistics.median(imports):.2f} s")
    print(f"parity run examples/digits_mlp  median {statistics.median(runs):.2f} s")
    print(f"ratio  median {statistics.median(ratios):.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f}), promised {LIMIT}")
    return 0 if statistics.median(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
