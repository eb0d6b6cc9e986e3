"""Ends a test that pytest-timeout cannot: its main thread is in C code and holds the interpreter's lock.

pytest-timeout sets an alarm, whose handler is Python and never comes to run there. So another process is told, over a pipe,
which test runs and for how long it may. What outlives that by a grace is printed by its name, with where its threads are,
and killed with all that it has started: under xdist the test then fails as a crashed worker's, and the run goes on; without
workers it ends.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXIT_SECONDS = 60.0  # from the last test to the end of the process, destructors included


def grace(limit: float) -> float:
    """Returns the seconds that pytest-timeout has to fail a test by itself, its fixtures' teardown included."""
    return max(1.0, limit / 10)


class Watchdog:
    """Feeds the other process; starts it with the first test."""

    def __init__(self) -> None:
        self._errors = os.dup(2)  # the terminal's: during tests 2 is where pytest captures
        faulthandler.register(signal.SIGUSR1, file=self._errors, all_threads=True)
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, name: str, limit: float) -> None:
        """Expects `name` to be over within `limit` seconds and the grace."""
        if self._process is None:
            program = str(Path(__file__).with_name("watchdog_process.py"))
            command = [sys.executable, "-I", "-S", program, str(os.getpid())]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=self._errors)
        self._tell({"name": name, "limit": limit, "grace": grace(limit)})

    def rest(self) -> None:
        """Expects nothing until the next test."""
        if self._process is not None:
            self._tell({})

    def watch_the_exit(self) -> None:
        """Expects this process to end: the pipe is left open, and closes with it."""
        if self._process is not None:
            self.watch("the end of the process, after all its tests", EXIT_SECONDS)
            self._process.returncode = 0  # nobody waits for it: it goes when this process has gone

    def _tell(self, message: dict[str, object]) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


KEY = pytest.StashKey[Watchdog]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEY] = Watchdog()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings) -> None:
    item.config.stash[KEY].watch(item.nodeid, settings.timeout)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    item.config.stash[KEY].rest()


def pytest_enter_pdb(config: pytest.Config) -> None:
    config.stash[KEY].rest()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[KEY].watch_the_exit()
