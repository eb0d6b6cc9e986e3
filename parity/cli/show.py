"""Show a trace: facts, steps, names, shapes, norms."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("trace", type=Path, help="a folder with a trace.json")
    parser.add_argument("--step", type=int, metavar="N", help="show the tensors of this step (default: the first)")


def run(arguments: argparse.Namespace) -> int:
    """Prints the trace; returns 0."""
    from rich.markup import escape

    from parity.judge.metrics import norm
    from parity.report.console import open_console
    from parity.report.plain_table import PlainTable
    from parity.report.view import flat, plain, print_trimmed
    from parity.trace import Trace, TraceError

    # Of a run that was killed too: what it did so far is what one wants to look at then.
    trace = Trace(arguments.trace, whole=False)
    steps = trace.step_numbers[:1] if arguments.step is None else [arguments.step]
    if not set(steps) <= set(trace.step_numbers):
        raise TraceError(
            f"show: expected a step among {trace.step_numbers or 'none'} of {arguments.trace}, got {arguments.step}. "
            "Name one of them."
        )
    console = open_console()
    state = "complete" if trace.complete else "its writer stopped early"
    console.print(
        f"[bold]{escape(str(arguments.trace))}[/bold]: {len(trace.step_numbers)} steps, {state}", soft_wrap=True
    )
    for name, value in sorted(flat({**trace.producer, **trace.facts}).items()):
        console.print(escape(f"  {name}: {plain(value)}"), soft_wrap=True)
    for number in steps:
        file = trace.step(number)
        table = PlainTable("tensor", "dtype", "shape", "norm")
        for text in file.names():
            table.add_row(escape(text), file.dtype(text), str(list(file.shape(text))), f"{norm(file.read(text)):.6g}")
        console.print(f"step {number}", style="bold")
        print_trimmed(console, table)
    return 0
