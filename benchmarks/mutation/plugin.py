"""Has pytest say which test runs, for `watch`, or run chosen tests in a given order."""

import json
import mmap
import os
from collections.abc import Generator
from pathlib import Path

import pytest


class Gathering:
    """Numbers tests and the setups of fixtures that outlive one, and writes what each test took and needed.

    Args:
      folder: for `now` and `tests.jsonl`.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "now").open("r+b") as file:
            self._now = memoryview(mmap.mmap(file.fileno(), 4)).cast("i")
        self._out = (folder / "tests.jsonl").open("a")
        self._numbers: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Says that a test runs."""
        self._now[0] = self._number(item.nodeid)
        try:
            return (yield)
        finally:
            self._now[0] = 0
            definitions = getattr(item, "_fixtureinfo", None)
            names = definitions.name2fixturedefs if definitions else {}
            shared = [of(each) for found in names.values() for each in found if each.scope != "function"]
            told = {
                "test": item.nodeid,
                "number": self._numbers[item.nodeid],
                "seconds": round(self._seconds.get(item.nodeid, 0.0), 3),
                "passed": item.nodeid not in self._failed,
                "fixtures": [self._number(name) for name in shared],
            }
            self._out.write(json.dumps(told) + "\n")
            self._out.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef) -> Generator[None, object, object]:
        """Says that what runs is of a fixture, where several tests share it."""
        before = self._now[0]
        if fixturedef.scope != "function":
            self._now[0] = self._number(of(fixturedef))
        try:
            return (yield)
        finally:
            self._now[0] = before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up seconds."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)


def of(fixturedef: pytest.FixtureDef) -> str:
    """Returns the name of a fixture, that of no test."""
    return f"fixture {fixturedef.baseid} {fixturedef.argname}"


class Chosen:
    """Runs what was chosen, in the order of a file's lines.

    Args:
      tests: ids.
    """

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out all others."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


def pytest_configure(config: pytest.Config) -> None:
    """Does what the environment asks for."""
    if os.environ.get("MUTANTS_WATCH"):
        config.pluginmanager.register(Gathering(Path(os.environ["MUTANTS_WATCH"])))
    if os.environ.get("MUTANTS_TESTS"):
        config.pluginmanager.register(Chosen(Path(os.environ["MUTANTS_TESTS"]).read_text().split("\n")))
