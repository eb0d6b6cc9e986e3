"""Runs cases, each in a process of its own, several at a time."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from parity.cli.batch.outcome import Outcome
from parity.worker.reaper import temporary_folder

# With the process that looks after them they end: a command that is killed leaves none of its cases running.
COMMAND = (
    "import sys; from parity.worker.parent import die_with_parent; die_with_parent({parent}); "
    "from parity.cli import main; sys.exit(main())"
)
REPORTS = {"json": "result.json", "markdown": "result.md", "junit": "result.xml"}


def run_cases(
    cases: Sequence[tuple[str, Sequence[str]]], jobs: int, fail_fast: bool, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Runs cases and returns what became of each, in order.

    Args:
      cases: the label of each, and the words of `parity` that run it, without those for JSON, Markdown and JUnit.
      jobs: how many run at a time, from 1.
      fail_fast: start no more of them after one that does not end with 0.
      done: is told of each that has ended, in the order in which they end.
    """
    outcomes = [Outcome(label, None, {}) for label, _ in cases]
    with temporary_folder("parity-cases-") as folder, _Children() as children, ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[Outcome], int] = {}
        waiting = list(enumerate(cases))
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    place, (label, words) = waiting.pop(0)
                    running[pool.submit(children.run, label, words, Path(folder) / str(place))] = place
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    outcomes[running.pop(future)] = outcome = future.result()
                    done(outcome)
                    waiting = [] if fail_fast and outcome.code else waiting
        except BaseException:
            # Before the pool waits for its threads, which wait for these.
            children.end()
            raise
    return outcomes


class _Children:
    """The processes that run now, and how all of them are ended."""

    def __init__(self) -> None:
        self._lock, self._running, self._ended = threading.Lock(), set[subprocess.Popen[str]](), False

    def __enter__(self) -> "_Children":
        return self

    def __exit__(self, *failure: object) -> None:
        self.end()

    def end(self) -> None:
        """Has every process end as one that is interrupted, and starts no more."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.terminate()

    def run(self, label: str, words: Sequence[str], folder: Path) -> Outcome:
        """Runs one case to its end."""
        folder.mkdir()
        reports = [word for name, file in REPORTS.items() for word in (f"--{name}", str(folder / file))]
        command = [sys.executable, "-c", COMMAND.format(parent=os.getpid()), *words, *reports]
        begun = time.monotonic()
        with self._started(command) as process:
            if process is None:
                return Outcome(label, None, {})
            _, printed = process.communicate()
        texts = {name: _read(folder / file) for name, file in REPORTS.items()}
        result = json.loads(texts["json"]) if texts["json"] else {}
        seconds = time.monotonic() - begun
        return Outcome(label, process.returncode, result, seconds, texts["markdown"], texts["junit"], printed)

    @contextlib.contextmanager
    def _started(self, command: Sequence[str]) -> "Iterator[subprocess.Popen[str] | None]":
        with self._lock:
            if self._ended:
                yield None
                return
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
            self._running.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._running.discard(process)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
