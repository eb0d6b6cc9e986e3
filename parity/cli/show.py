"""Show a trace: facts, steps, names, shapes, norms; or its recorded graph as a page."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.output import claim_file

if TYPE_CHECKING:
    from parity.report.towers import HazardPage
    from parity.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("trace", type=Path, help="a folder with a trace.json")
    parser.add_argument("--step", type=int, metavar="N", help="show the tensors of this step (default: the first)")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="draw the graph of a recorded TensorFlow script instead, as a page that opens in a browser, without a network "
        "(-: standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the trace, or writes the page of its graph; returns 0."""
    from parity.trace import Trace

    if arguments.html:
        claim_file("--html", arguments.html)
    # Of a run that was killed too: what it did so far is what one wants to look at then.
    trace = Trace(arguments.trace, whole=False)
    return _draw(arguments, trace) if arguments.html else _print(arguments, trace)


def _draw(arguments: argparse.Namespace, trace: "Trace") -> int:
    from parity.report.towers import write_graph_html

    write_graph_html(trace, arguments.html, str(arguments.trace), explain_hazard)
    if str(arguments.html) != "-":
        print(f"wrote {arguments.html}")
    return 0


def explain_hazard(name: str) -> "HazardPage | None":
    """Returns what the documentation has of a hazard of the recorder: the page of the rule that finds it in source."""
    from parity.report.towers import HazardPage
    from parity.scan.rules import SCAN_RULES

    rule = next((each for each in SCAN_RULES.values() if name in each.hazards), None)
    if rule is None:
        return None
    sections = [("What the code does:", rule.does), ("Under DistributedDataParallel:", rule.under_ddp)]
    return HazardPage(f"docs/rules/{rule.id}.md", [*sections, ("In the port:", rule.port)])


def _print(arguments: argparse.Namespace, trace: "Trace") -> int:
    from rich.markup import escape

    from parity.console import open_console
    from parity.judge.metrics import norm
    from parity.report.plain_table import PlainTable
    from parity.report.view import flat, plain, print_trimmed
    from parity.trace import TraceError

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
