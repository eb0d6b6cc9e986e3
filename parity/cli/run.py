"""Run a case on both sides, compare, report."""

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any

from parity.cli.output import (
    add_amount,
    add_report_files,
    add_strict,
    byte_count,
    claim_report_files,
    level_names,
    progress,
    seconds,
    shows_tensors,
    write_report_files,
)

DEFAULT_BUDGET = 2 * 10**9  # bytes of all runs of a case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "case", type=Path, nargs="+", help="a case.toml, or the folder that holds one; of several each gets a line"
    )
    parser.add_argument(
        "-j", "--jobs", type=_jobs, default=1, metavar="N", help="of several cases, how many run at a time (default: 1)"
    )
    parser.add_argument(
        "--fail-fast", action="store_true", help="of several cases, start no more after one that does not exit with 0"
    )
    parser.add_argument(
        "--levels",
        type=level_names,
        default=["function", "float32"],
        metavar="1,2",
        help="levels to decide, by number or name: 1 function, 2 float32, 3 trajectory, 4 mixed (default: 1,2)",
    )
    parser.add_argument("--steps", type=int, metavar="N", help="number of updates, instead of the case's")
    parser.add_argument("--towers", type=int, metavar="N", help="number of towers and ranks, instead of the case's")
    parser.add_argument("--precision", choices=("float32", "float64"), help="of level 2, instead of the case's")
    parser.add_argument(
        "--opt-level", choices=("O0", "O1", "O2", "O3"), help="of level 4, Apex's names, instead of the case's"
    )
    parser.add_argument(
        "--half-dtype", choices=("float16", "bfloat16"), help="half precision of --opt-level, instead of the case's"
    )
    parser.add_argument(
        "--tf-python",
        metavar="PATH",
        help="interpreter with TensorFlow, e.g. of a Python 3.7 environment (default: $PARITY_TF_PYTHON, the case's, this)",
    )
    parser.add_argument(
        "--prove", action="store_true", help="plant known bugs in this case, and say which are found and named"
    )
    parser.add_argument(
        "--golden",
        type=Path,
        metavar="DIR",
        help="check against what `parity bless` kept, without TensorFlow; of several cases, DIR in each one's folder",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the traces and the sides' logs here")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="decide level 1 by lockstep alone: no free runs, and nothing is run twice",
    )
    parser.add_argument(
        "--budget",
        type=byte_count,
        metavar="2GB",
        help="bytes that the runs may take on disk: where all of them take more, each step is judged and removed before the "
        "next, and fewer steps are made where that does not fit either (default: 2GB, and all steps)",
    )
    parser.add_argument(
        "--reproduce",
        type=Path,
        metavar="DIR",
        help="where something differs, leave a script for each framework here that shows it alone, and its numbers",
    )
    parser.add_argument(
        "--annotations",
        action="store_true",
        help="print what differs as commands that mark lines in a GitHub workflow",
    )
    add_strict(parser)
    add_report_files(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=300.0,
        metavar="S",
        help="seconds without a heartbeat after which a side is ended (default: 300)",
    )
    add_amount(parser)


def _jobs(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of cases from 1, got {text!r}")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Runs the case and prints the report, or several cases; returns the exit code."""
    if len(arguments.case) > 1:
        from parity.cli.batch.command import run_several

        return run_several(arguments)
    return _run_one(arguments, arguments.case[0])


def _run_one(arguments: argparse.Namespace, path: Path) -> int:
    from parity.case import load_case
    from parity.cli.errors import CommandError
    from parity.cli.output import claim_reproduction, claimed_folder
    from parity.worker.launch import open_sides
    from parity.worker.process import fail_together

    claim_report_files(arguments)
    if arguments.prove and arguments.golden:
        raise CommandError(
            "--prove: expected live TensorFlow, got --golden, which knows the right port only. Leave one out."
        )
    given = ("steps", "towers", "precision", "opt_level", "half_dtype")
    overrides = {name: getattr(arguments, name) for name in given}
    if arguments.golden and arguments.steps is None:
        from parity.experiment.sides.golden_side import golden_steps

        # Blessed with --steps: the golden trace knows of how many updates it is a proof.
        overrides["steps"] = golden_steps(arguments.golden)
    case = load_case(path, **overrides)
    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
    reproduction = claim_reproduction(arguments.reproduce) if arguments.reproduce else None
    with (
        claimed_folder(arguments.out) as out,
        open_sides(python, arguments.timeout, out, not arguments.golden) as sides,
    ):
        # Both start at the same time, which takes seconds each: if one of them cannot, the other is not waited for.
        fail_together(*sides.started)
        # Only now: it takes as long as everything before, and the sides import their frameworks meanwhile.
        from parity.experiment.session import run_case
        from parity.experiment.stepwise.sizes import Budget

        with progress(arguments.quiet) as tick:
            result = run_case(
                case,
                sides,
                ["function"] if arguments.quick else arguments.levels,
                out,
                tick,
                arguments.golden,
                shows_tensors(arguments),
                reproduction,
                budget=Budget(arguments.budget or DEFAULT_BUDGET, strict=arguments.budget is not None),
                quick=arguments.quick,
            )
            # Bugs planted in a port that differs already could not be told from what it has.
            power = _power(case, result, sides, tick) if arguments.prove and result.verdict == "same" else None
        sides.hang_up()  # they end while the report is written and printed
        write_report_files(arguments, result, case.name, power, lambda: _provenance(case, path))
        _print(arguments, path, case.name, result, power)
    if reproduction and not result.reproduction:
        with contextlib.suppress(OSError):  # nothing is left in it: an empty folder would promise something
            reproduction.rmdir()
    return result.strict_exit_code if arguments.strict else result.exit_code


def _print(arguments: argparse.Namespace, path: Path, name: str, result: Any, power: Any) -> None:
    from parity.report.terminal import report

    report(result, name, arguments.quiet, arguments.verbose)
    if arguments.annotations:
        from parity.cli.batch.command import annotations_of
        from parity.report.json_file import as_json

        for line in annotations_of(path, as_json(result)):
            print(line)
    if power is not None:
        from parity.report.power import show_power

        show_power(power, arguments.quiet)
    if arguments.reproduce and result.reproduction and not arguments.quiet:
        print("\nreproduced by: " + ", ".join(f"python {script}" for script in result.reproduction))
    if arguments.prove and power is None and not arguments.quiet:
        print("\n--prove: nothing is planted in a case whose verdict is not same")


def _provenance(case: Any, path: Path) -> Any:
    from parity.report.provenance import files_of, provenance

    return provenance(case.directory, files_of(case, path))


def _power(case: Any, result: Any, sides: Any, tick: Any) -> Any:
    from parity.experiment.power import prove

    # By the names that TensorFlow's layers give: bugs of batch norm are planted only where there is one.
    statistics = any(pair[0].endswith(("moving_mean", "moving_variance")) for pair in result.pairs)
    return prove(case, sides, statistics, tick)
