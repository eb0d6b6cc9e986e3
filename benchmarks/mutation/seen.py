"""The map of what each test enters: gathered once, kept in a file, gathered anew for tests whose file has changed."""

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from mutation.draw import digest
from mutation.imports import Imports
from mutation.sites import MODULE


class Known(NamedTuple):
    """One test.

    Fields:
      seconds: that it took, watched.
      entered: names of functions, "path::name".
    """

    seconds: float
    entered: frozenset[str]


class Seen:
    """What tests enter.

    Args:
      file: where it is kept.
      root: of the checkout.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self._file, self._root = file, root
        self._imports = Imports(root)
        kept = json.loads(file.read_text()) if file.exists() else {"files": {}, "functions": [], "tests": {}}
        self._files: dict[str, str] = kept["files"]
        functions = kept["functions"]
        self.tests = {
            name: Known(seconds, frozenset(functions[place] for place in entered))
            for name, (seconds, entered) in kept["tests"].items()
        }

    def missing(self, files: list[str]) -> list[str]:
        """Returns those of test files that nothing is known of as they, and the modules that they enter, are now called."""
        gone = {
            test.partition("::")[0]
            for test, known in self.tests.items()
            if not all((self._root / path).is_file() for path in {name.partition("::")[0] for name in known.entered})
        }
        return [path for path in files if path in gone or self._files.get(path) != digest(self._root / path)]

    def take(self, folder: Path, files: list[str]) -> None:
        """Takes what a run has written: tests that passed, and of files that ran to the end also that they are known."""
        entered = defaultdict[int, set[str]](set)
        for written in folder.glob("entered-*"):
            for line in written.read_text().splitlines():
                number, _, name = line.partition("\t")
                entered[int(number)].add(name)
        told = folder / "tests.jsonl"
        for path in files:
            self._files[path] = digest(self._root / path)
            self.tests = {test: known for test, known in self.tests.items() if test.partition("::")[0] != path}
        for line in told.read_text().splitlines() if told.exists() else ():
            test = json.loads(line)
            if test["passed"]:
                parts = [entered[number] for number in (test["number"], *test["fixtures"])]
                self.tests[test["test"]] = Known(test["seconds"], frozenset[str]().union(*parts))
        self._keep()

    def of(self, path: str, function: str) -> list[str]:
        """Returns the tests that can see a change of a function, the quickest file first.

        What stands outside functions is seen by whatever enters one of the module, and where nothing is entered, as in a
        module of tables, by the tests of files that import it.
        """
        name, module = f"{path}::{function}", f"{path}::"
        found = [test for test, known in self.tests.items() if name in known.entered]
        if function == MODULE or not found:
            found = [
                test for test, known in self.tests.items() if any(each.startswith(module) for each in known.entered)
            ]
        if not found:
            found = [test for test in self.tests if path in self._imports.reached(test.partition("::")[0])]
        seconds = defaultdict[str, float](float)
        for test in found:
            seconds[test.partition("::")[0]] += self.tests[test].seconds
        return sorted(found, key=lambda test: (seconds[test.partition("::")[0]], test.partition("::")[0]))

    def _keep(self) -> None:
        functions = {
            name: place for place, name in enumerate(sorted(set().union(*(k.entered for k in self.tests.values()))))
        }
        kept = {
            "files": self._files,
            "functions": list(functions),
            "tests": {
                test: [known.seconds, sorted(functions[name] for name in known.entered)]
                for test, known in self.tests.items()
            },
        }
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(kept))
        written.replace(self._file)
