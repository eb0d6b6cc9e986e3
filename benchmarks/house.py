"""Measures the layout of the packages: modules, folders, what is defined or spelt more than once, comments.

    python benchmarks/house.py

Reads source only, in about five seconds. Prints a table, measure by measure; docs/extending.md says what the rules are, and
tests/parity/test_layers.py holds those of them that are not to be broken at all.
"""

import ast
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PACKAGES = ("parity", "tf_towers", "torch_ddp")
NUMERICS = ("parity/judge", "parity/diagnose/detectors", "parity/diagnose/layers")

sys.path.insert(0, str(ROOT / "tests" / "parity"))


class Module(NamedTuple):
    """A file of a package.

    Fields:
      path: relative to the checkout.
      tree: its syntax.
      lines: their number.
      comments: lines that are nothing but a comment, or end in one.
    """

    path: Path
    tree: ast.Module
    lines: int
    comments: int


def read() -> list[Module]:
    """Returns every module of the packages."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            with path.open("rb") as file:
                comments = sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(file.readline))
            found.append(Module(path.relative_to(ROOT), ast.parse(text), text.count("\n"), comments))
    return found


def calls(module: Module, name: str) -> int:
    """Returns how often a module calls a function or method of this name."""
    called = (node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return sum(getattr(each, "id", getattr(each, "attr", "")) == name for each in called)


def requests(module: Module, verb: str) -> int:
    """Returns how often a module asks a child process for something, by its name in the protocol."""
    asked = (n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "ask")
    return sum(bool(n.args) and isinstance(n.args[0], ast.Constant) and n.args[0].value == verb for n in asked)


def instances_of_sides(module: Module) -> int:
    """Returns how often a module asks whether something is an instance of a side."""
    found = (n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "isinstance")
    return sum(getattr(node.args[1], "id", "").endswith("Side") for node in found)


def key_prefixes(module: Module) -> int:
    """Returns how many strings, or pieces of formatted ones, spell the name of a tensor themselves."""
    from test_layers import spelt

    return len(list(spelt(module.tree)))


def constants(modules: list[Module]) -> Iterator[str]:
    """Yields names of constants that several modules define with several values."""
    values: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.tree.body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_"):
                    values[target.id].add(ast.dump(node.value))
    yield from (name for name, known in values.items() if len(known) > 1)


def upward_imports(modules: list[Module]) -> int:
    """Returns how many imports go against the order of the layers."""
    from test_layers import upward

    return sum(len(upward(str(module.path), ast.unparse(module.tree))) for module in modules)


def density(modules: list[Module]) -> str:
    """Returns comments in 100 lines."""
    return f"{100 * sum(m.comments for m in modules) / max(1, sum(m.lines for m in modules)):.1f}"


def measures(modules: list[Module]) -> Iterator[tuple[str, object, str]]:
    """Yields name, figure and target of every measure."""
    parity = [module for module in modules if module.path.parts[0] == "parity"]
    folders = Counter(module.path.parent for module in modules)
    folder, most = folders.most_common(1)[0]
    longest = max(modules, key=lambda module: module.lines)
    numeric = [module for module in modules if str(module.path).startswith(NUMERICS)]
    outside = [module for module in parity if "catalogue" not in str(module.path)]
    yield "modules", len(modules), "about 245 for 35,000 lines"
    yield "lines", f"{sum(module.lines for module in modules):,}", ""
    yield "lines of the longest module", f"{longest.lines} ({longest.path})", "about 400"
    yield "files in the largest folder", f"{most} ({folder})", "20"
    yield "places that check a pair before any number", sum(calls(m, "precheck") for m in parity), "1"
    yield "places that ask a side for a run", sum(requests(m, "run") for m in parity), "1"
    yield "instances of a side asked for", sum(map(instances_of_sides, modules)), "0"
    keys = [module for module in modules if module.path != Path("parity/trace/keys.py")]
    yield "literals of key prefixes outside trace/keys.py", sum(map(key_prefixes, keys)), "0"
    yield "places that build a cause outside the catalogue", sum(calls(m, "Cause") for m in outside), "0"
    yield "upward imports", upward_imports(modules), "0"
    yield "constants of one name and several values", len(list(constants(modules))), "0"
    yield "comments in 100 lines", density(modules), "6"
    yield "comments in 100 lines of numerics", density(numeric), "10 to 20"


def main() -> None:
    """Prints the table."""
    table = Table("measure", "now", "target")
    for name, now, target in measures(read()):
        table.add_row(name, str(now), target)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
