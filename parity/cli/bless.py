"""Prove a case, and keep what TensorFlow did as a golden trace for checks without TensorFlow."""

import argparse
import os
from pathlib import Path

from parity.cli.output import add_amount, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("case", type=Path, help="a case.toml, or the folder that holds one")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the golden trace (default: the folder golden next to the case)"
    )
    parser.add_argument(
        "--steps", type=int, metavar="N", help="number of updates, instead of the case's: few keep it small"
    )
    parser.add_argument("--tf-python", metavar="PATH", help="interpreter with TensorFlow (default: as for run)")
    add_amount(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the case; keeps the reference's part where the verdict is same, and nothing otherwise."""
    from parity.case import load_case
    from parity.experiment import keep_golden, open_sides, require_golden_folder, run_case
    from parity.report import report
    from parity.worker.process import fail_together
    from parity.worker.reaper import temporary_folder

    case = load_case(arguments.case, steps=arguments.steps)
    # The nearest to the user first: what is typed, what the shell says, what the case says.
    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
    golden = arguments.out or case.directory / "golden"
    # Before the run, which takes minutes.
    require_golden_folder(golden)
    with temporary_folder(prefix="parity-bless-") as folder, open_sides(python) as sides:
        fail_together(*sides.started)
        # In a folder that goes again: of a run only what a port is judged by is kept.
        recorded = Path(folder) / "run"
        with progress(arguments.quiet) as tick:
            result = run_case(case, sides, out=recorded, tick=tick, blessing=True)
        report(result, case.name, arguments.quiet, arguments.verbose)
        if result.verdict == "same":
            keep_golden(case, recorded, golden)
            if arguments.quiet:
                return result.exit_code
            size = sum(file.stat().st_size for file in golden.rglob("*") if file.is_file())
            print(f"\ngolden trace: {golden}, {size / 1e6:.1f} MB")
            print(f"check the port against it: parity run {arguments.case} --golden {golden}" + _steps(arguments.steps))
        elif not arguments.quiet:
            print("\nnothing is kept: only a port that is proven can be blessed")
    return result.exit_code


def _steps(steps: int | None) -> str:
    return f" --steps {steps}" if steps else ""
