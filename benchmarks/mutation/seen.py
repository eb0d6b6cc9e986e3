"""The map of the lines each test runs: gathered once, kept in a file, gathered anew for tests whose file has changed."""

import ast
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from mutation.draw import Mutant, digest
from mutation.imports import Imports
from mutation.sites import MODULE

AT_IMPORT = (MODULE, "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # what Python calls what a table is made in


class Block(NamedTuple):
    """Lines of a function that a test runs.

    Fields:
      path: of the module, from the root.
      module: its digest when it was watched: of another one the lines say nothing.
      function: its name.
      lines: their numbers.
    """

    path: str
    module: str
    function: str
    lines: tuple[int, ...]

    def runs(self, statement: tuple[int, int]) -> bool:
        """Returns whether one of the lines is of a statement."""
        return any(statement[0] <= line <= statement[1] for line in self.lines)


class Known(NamedTuple):
    """One test.

    Fields:
      seconds: that it took, watched.
      blocks: that it runs.
    """

    seconds: float
    blocks: frozenset[Block]


class Seen:
    """What tests run.

    Args:
      file: where it is kept.
      root: of the checkout.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self._file, self._root = file, root
        self._imports = Imports(root)
        kept = json.loads(file.read_text()) if file.exists() else {"files": {}, "blocks": [], "tests": {}}
        self._files: dict[str, str] = kept["files"]
        blocks = [Block(path, module, function, tuple(lines)) for path, module, function, lines in kept["blocks"]]
        self.tests = {
            name: Known(seconds, frozenset(blocks[place] for place in places))
            for name, (seconds, places) in kept["tests"].items()
        }

    def missing(self, files: list[str]) -> list[str]:
        """Returns those of test files that nothing is known of as they, and the modules that they enter, are now called."""
        paths = {block.path for known in self.tests.values() for block in known.blocks}
        gone = {path for path in paths if not (self._root / path).is_file()}
        stale = {
            test.partition("::")[0]
            for test, known in self.tests.items()
            if gone and any(block.path in gone for block in known.blocks)
        }
        return [path for path in files if path in stale or self._files.get(path) != digest(self._root / path)]

    def take(self, folder: Path, files: list[str]) -> None:
        """Takes what a run has written: tests that passed, and of files that ran to the end also that they are known."""
        lines = lines_in(folder)
        modules = {path: digest(self._root / path) for path in {path for found in lines.values() for path, _ in found}}
        for path in files:
            self._files[path] = digest(self._root / path)
            self.tests = {test: known for test, known in self.tests.items() if test.partition("::")[0] != path}
        told = folder / "tests.jsonl"
        for row in told.read_text().splitlines() if told.exists() else ():
            test = json.loads(row)
            if test["passed"]:
                blocks = {
                    Block(path, modules[path], function, tuple(sorted(found)))
                    for number in (test["number"], *test["fixtures"])
                    for (path, function), found in lines[number].items()
                }
                self.tests[test["test"]] = Known(test["seconds"], frozenset(blocks))
        self._keep()

    def of(self, mutant: Mutant) -> list[str]:
        """Returns the tests that can see a change, the quickest file first.

        These are the tests that run a line of the statement. Where nobody does, or the module is not the one that was
        watched, they are those that enter the function, else those that enter one of the module, as for what stands outside
        functions, else, as for a module of tables or types, those of files that import it.
        """
        path, site = mutant.path, mutant.site
        module = digest(self._root / path)
        blocks = {block for known in self.tests.values() for block in known.blocks if block.path == path}
        inside = {block for block in blocks if block.function == site.function}
        at = {block for block in blocks if site.statement and block.module == module and block.runs(site.statement)}
        right = at or (inside if site.function != MODULE else set()) or self._called(blocks)
        found = [test for test, known in self.tests.items() if known.blocks & right]
        if not found:
            found = [test for test in self.tests if path in self._imports.reached(test.partition("::")[0])]
        seconds = defaultdict[str, float](float)
        for test in found:
            seconds[test.partition("::")[0]] += self.tests[test].seconds
        return sorted(found, key=lambda test: (seconds[test.partition("::")[0]], test.partition("::")[0]))

    def _called(self, blocks: set[Block]) -> set[Block]:
        """Blocks of functions: who only imports a module runs its tables and its classes, and looks at none."""
        trees = {path: ast.parse((self._root / path).read_text()) for path in {block.path for block in blocks}}
        classes = {
            (path, node.name)
            for path, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }
        return {
            block for block in blocks if block.function not in AT_IMPORT and (block.path, block.function) not in classes
        }

    def _keep(self) -> None:
        places: dict[Block, int] = {}
        tests = {
            test: [known.seconds, sorted(places.setdefault(block, len(places)) for block in known.blocks)]
            for test, known in self.tests.items()
        }
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps({"files": self._files, "blocks": list(places), "tests": tests}))
        written.replace(self._file)


def lines_in(folder: Path) -> defaultdict[int, defaultdict[tuple[str, str], set[int]]]:
    """Returns the lines by test or fixture, then by path and function, of what `watch` wrote."""
    lines = defaultdict[int, defaultdict[tuple[str, str], set[int]]](lambda: defaultdict(set))
    for written in folder.glob("lines-*"):
        functions: dict[str, tuple[str, str]] = {}
        for row in written.read_text().splitlines():
            first, second, *words = row.split(" ")
            if first == "+":
                path, _, name = " ".join(words).rpartition(" ")
                functions[second] = (path, name)
            else:
                lines[int(first)][functions[second]].add(int(words[0]))
    return lines
