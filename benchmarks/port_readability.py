"""Writes the ports of recorded scripts and prints how they read: lines, names, types, functions found, seconds.

Launch: ``python benchmarks/port_readability.py TRACE ... [--page]``. Each TRACE is a folder as ``parity record`` leaves it.
Each is ported twice in processes of their own, under two hash seeds: the text must be the same. ``--page`` writes the table
into docs/port.md.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parity.port.source.citations import common
from parity.port.source.code import identifier
from parity.port.tower.regions import Frame
from parity.trace import read_graph

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "port.md"
BEGIN, END = "<!-- readability -->", "<!-- end of readability -->"
LAYER = re.compile(
    r" = (nn|like_tf)\.(?!Sequential|Parameter)[A-Z]\w*\(|\b(nn|like_tf)\.(?:Conv|Linear|BatchNorm)\w*\("
)
LAYER_OPS = ("Conv2D", "Conv3D", "MatMul", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Gather", "GatherV2")
COUNTED = re.compile(r"[a-z]_?\d{2,}|_?\d+")
# Times the port alone, without the interpreter's start, in seconds of the processor.
CHILD = (
    "import sys, time; begin = time.process_time()\n"
    "from parity.cli import main\n"
    "main(['port', sys.argv[1], '--out', sys.argv[2], '--no-prove'])\n"
    "print('seconds', time.process_time() - begin)"
)


@dataclass
class Reading:
    """How a port reads."""

    name: str
    ops: int
    lines: int
    layers: int
    in_classes: int
    longest: int
    op_names: list[str]
    functions: tuple[int, int]
    ruff: bool
    mypy: bool
    seconds: float
    same_text: bool

    def row(self) -> str:
        """The line of the table."""
        found, there = self.functions
        checks = " ".join(
            name if clean else f"not {name}" for name, clean in (("ruff", self.ruff), ("mypy", self.mypy))
        )
        cells = [
            self.name,
            self.ops,
            self.lines,
            self.layers,
            f"{self.in_classes / max(self.layers, 1):.1f}",
            self.longest,
        ]
        cells += [", ".join(self.op_names) or "-", f"{found} of {there}", checks, f"{self.seconds:.1f}"]
        cells.append("yes" if self.same_text else "no")
        return f"| {' | '.join(map(str, cells))} |"


HEAD = (
    "| trace | recorded ops | lines | layers | lines of `__init__` and `forward` for each | longest line "
    "| names that are op types or numbers | functions named | clean | seconds | same bytes |\n"
    "|--|--|--|--|--|--|--|--|--|--|--|"
)


def statements_of_modules(source: str) -> int:
    """Returns the number of lines of the constructors and forwards of a port, those of comments not counted."""
    classes = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef))
    methods = (each for one in classes for each in one.body if isinstance(each, ast.FunctionDef))
    lines = source.splitlines()
    inside = [line for each in methods for line in lines[each.lineno - 1 : each.end_lineno]]
    return sum(not line.lstrip().startswith("#") for line in inside)


def layers_of(source: str) -> int:
    """Returns the number of layers that the classes of a port make."""
    return len(LAYER.findall(source))


def names_in(source: str) -> Iterator[str]:
    """Yields what a source gives names to: variables, arguments, attributes, functions, classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def names_of_ops(source: str, kinds: set[str], script: str) -> list[str]:
    """Returns the names of a source that are those of types of ops, or numbers, and none of the script's own.

    Args:
      source: of a port.
      kinds: the types of the script's ops.
      script: the text of the lines of the script that made them.
    """
    types = {identifier(kind) for kind in kinds} | {kind.lower() for kind in kinds}
    own = set(re.findall(r"\w+", script.lower()))
    found = {
        name for name in names_in(source) if re.sub(r"_?\d+$", "", name.lower()) in types or COUNTED.fullmatch(name)
    }
    return sorted(name for name in found if not {name.lower(), re.sub(r"_?\d+$", "", name.lower())} & own)


def functions_named(source: str, trace: Path) -> tuple[int, int]:
    """Returns how many of the script's functions that make layers a port names, and how many there are."""
    graph = read_graph(trace)
    known = [Frame(str(file), int(line), str(function), str(text)) for file, line, function, text in graph.frames]
    made = (node["name"] for node in graph.nodes if node["op"] in LAYER_OPS and "gradients" not in node["name"])
    stacks = [[known[number] for number in graph.callers[name]] for name in made if graph.callers.get(name)]
    begin = max(len(common(stacks)) - 1, 0)
    wanted = {frame.function for stack in stacks for frame in stack[begin:] if not frame.function.startswith("<")}
    return sum(f" {name}()" in source for name in wanted), len(wanted)


def reading(trace: Path) -> Reading:
    """Ports a script twice and reads what comes out."""
    with tempfile.TemporaryDirectory() as name:
        texts, seconds = zip(*(_ported(trace, Path(name) / seed, seed) for seed in ("1", "2")), strict=True)
        source, graph = texts[0]["port.py"], read_graph(trace)
        folder, files = Path(name) / "1", ["port.py", "train.py"]
        options = ["--isolated", "--line-length", "120"]
        ruff = _passes(folder, "ruff", "format", "--check", *options, *files)
        ruff &= _passes(folder, "ruff", "check", "--select", "E,F,W,I,B,UP,C4,RET,SIM", *options, *files)
        return Reading(
            trace.name,
            len(graph.nodes),
            len(source.splitlines()),
            layers_of(source),
            statements_of_modules(source),
            max(map(len, source.splitlines())),
            names_of_ops(
                source, {node["op"] for node in graph.nodes}, "\n".join(str(each[3]) for each in graph.frames)
            ),
            functions_named(source, trace),
            ruff,
            _passes(folder, "mypy", "--strict", *files),
            max(seconds),
            texts[0] == texts[1],
        )


def _passes(folder: Path, *command: str) -> bool:
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, env=environment, cwd=folder)
    return done.returncode == 0


def _ported(trace: Path, out: Path, seed: str) -> tuple[dict[str, str], float]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", CHILD, str(trace), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(out.iterdir())}
    return texts, float(done.stdout.rpartition("seconds ")[2])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--page", action="store_true", help="write the table into docs/port.md")
    options = parser.parse_args()
    table = "\n".join([HEAD, *(reading(trace).row() for trace in options.traces)])
    print(table)
    if options.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
