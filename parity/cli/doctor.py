"""Report what is usable here, and what is missing for what; of a case, predict what a run takes."""

import argparse
import os
from pathlib import Path

from parity.exit_codes import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "case",
        type=Path,
        nargs="?",
        help="a case.toml, or its folder: predict seconds and disk of `parity run`, by a step of each side that is timed",
    )
    parser.add_argument("--tf-python", metavar="PATH", help="also look at this interpreter")


def run(arguments: argparse.Namespace) -> int:
    """Prints what is there, or a prediction for a case; returns 0 if `parity run` can work, else 2."""
    import sys

    from rich.markup import escape

    from parity.console import open_console
    from parity.report.plain_table import PlainTable
    from parity.report.view import print_trimmed
    from parity.worker.interpreters import gpus, legacy_interpreters, probe

    if arguments.case is not None:
        return _forecast(arguments.case, arguments.tf_python)
    here = probe(sys.executable) or {}
    named = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON")
    # In a process of its own: neither framework is imported here, and the other interpreter may be another Python.
    other = probe(named) if named else None
    legacy = legacy_interpreters(named)
    of_tf = (other or {}) if named else here
    has_tf = "tensorflow" in of_tf
    table = PlainTable("for", "state")
    cures: list[str] = []

    def row(purpose: str, good: bool, state: str, cure: str) -> None:
        mark = "[green]yes[/]" if good else "[yellow]no[/] "
        table.add_row(purpose, f"{mark} {escape(state)}")
        if not good:
            cures.append(f"{purpose}: {cure}")

    row("torch side", "torch" in here, f"torch {here.get('torch', 'missing')}", "pip install torch")
    found = f"tensorflow {of_tf.get('tensorflow', 'missing')}" + (f" in {named}" if named else "")
    if named and other is None:
        found = f"{named} does not run"
    row("TensorFlow side", has_tf, found, "pip install tensorflow tf_keras, or --tf-python PATH")
    keras = of_tf.get("tf_keras")
    # Keras 3, which came with TensorFlow 2.16, has no tf.layers; 1.x has its own.
    needs_keras = not of_tf.get("tensorflow", "2").startswith("1.")
    row(
        "tf.layers on TensorFlow 2",
        bool(keras) or not needs_keras,
        f"tf_keras {keras}" if keras else "tf_keras missing" if needs_keras else "not needed",
        "pip install tf_keras, of TensorFlow's version",
    )
    ready = [each for each in legacy if each.get("tensorflow", "").startswith("1.")]
    row(
        "genuine TensorFlow 1.15",
        bool(ready),
        ", ".join(f"{each['tensorflow']} in {each['executable']}" for each in ready) or _found(legacy),
        # 1.15.5 needs Python 3.7 at most, and an older protobuf than pip would choose: its generated code is refused by
        # 4.
        "python3.7 -m venv tf1 && tf1/bin/pip install tensorflow==1.15.5 'protobuf<3.21', then --tf-python tf1/bin/python",
    )
    count = gpus() if "torch" in here else 0
    row("GPUs (NCCL)", count > 0, f"{count} seen by torch", "not needed: ranks run on the CPU over gloo")
    row("NVIDIA Apex", False, _apex(here), "not needed: Apex's semantics are built in")
    row(
        "examples",
        "scikit-learn" in here,
        f"scikit-learn {here.get('scikit-learn', 'missing')}",
        "pip install scikit-learn",
    )
    console, works = open_console(), has_tf and "torch" in here
    print_trimmed(console, table)
    # A line each, however long, so that commands can be copied.
    for cure in cures:
        console.print(f"\n{cure}", markup=False, soft_wrap=True)
    told = "works here" if works else "needs what the first two lines lack"
    console.print(f"\n`parity run` {told}.", markup=False)
    return ExitCode.SAME if works else ExitCode.INCOMPARABLE


def _forecast(path: Path, tf_python: str | None) -> int:
    from parity.case import load_case
    from parity.cli.output import progress
    from parity.cli.run import DEFAULT_BUDGET
    from parity.console import open_console
    from parity.experiment import open_sides
    from parity.experiment.stepwise.forecast import forecast

    case = load_case(path)
    python = tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
    with progress() as tick, open_sides(python) as sides:
        found = forecast(case, sides, tick)
    open_console().print(f"{case.name}: {found.sentence(DEFAULT_BUDGET)}", markup=False, soft_wrap=True)
    return ExitCode.SAME


def _found(legacy: list[dict[str, str]]) -> str:
    if not legacy:
        return "no Python 3.7 on PATH, under pyenv or in PARITY_TF_PYTHON"
    return f"Python {legacy[0]['version']} at {legacy[0]['executable']}, without TensorFlow"


def _apex(here: dict[str, str]) -> str:
    if "apex" not in here:
        return "not installed"
    # PyPI's package of this name is a web toolkit; NVIDIA's calls itself 0.1.
    if here["apex"].startswith("0.9"):
        return f"'apex' {here['apex']} is the Pyramid toolkit of that name, not NVIDIA's"
    return f"apex {here['apex']}"
