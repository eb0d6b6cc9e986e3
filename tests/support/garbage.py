"""Leaves what pytest has collected, and all modules that are imported, out of every garbage collection.

They live as long as the process: a million and more objects, which each full collection, and each look through all objects
as at the end of a process group, goes through for a second. What a test makes is looked through, as in a program.
"""

import gc
import sys
from collections.abc import Iterator

import pytest

MANY = 100  # modules, as a framework brings with its first optimizer


class Frozen:
    """Freezes what there is, and again where many modules have come."""

    def __init__(self) -> None:
        self._modules = 0

    def freeze(self) -> None:
        """Leaves all that is alive now out of what is collected later."""
        if len(sys.modules) >= self._modules + MANY:
            gc.collect()
            gc.freeze()
            self._modules = len(sys.modules)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[object]:
        """Comes after a test's own fixtures are torn down."""
        try:
            return (yield)
        finally:
            self.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Frozen(), "frozen")
