"""Goes on as long as it is told: workers that are begun anew when they die or hang, a table, and findings to be replayed."""

import contextlib
import itertools
import math
import mmap
import multiprocessing
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .demands import MOST_SECONDS, Guard, Outcome, limit_memory, look, temporary_files_in
from .inputs import Files, Place, as_json
from .readers import Reader

SLICE = 0.2  # seconds that a worker gives one reader before the next: every reader has the same share of the time
PATIENCE = 0.5  # seconds between two looks at the workers
CLEARED = 5000  # inputs after which a place is emptied of what readers have left
SLOT = struct.Struct("<qqd")  # place of the reader, number of the input, when it began; -1 for none


@dataclass
class Tally:
    """What became of one reader's inputs.

    Attributes:
      inputs, accepted, refused, findings: how many.
      seconds: that reading and making them took.
      slowest: seconds of the slowest, with its number.
    """

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)

    def add(self, other: "Tally") -> None:
        """Adds another's."""
        for name in ("inputs", "accepted", "refused", "findings", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest = max(self.slowest, other.slowest)


@dataclass
class Finding:
    """An input whose reader does what must not be.

    Attributes:
      reader, number: whose, and which.
      outcome: what it does.
      count: how many inputs showed the same.
    """

    reader: str
    number: int
    outcome: Outcome
    count: int = 1


@dataclass
class Campaign:
    """Reads inputs until it is told to end.

    Attributes:
      readers: who reads.
      seed: of all inputs.
      workers: how many processes.
      most_seconds: after which a reader hangs.
      tallies: by reader.
      findings: by reader and what is known of them.
    """

    readers: Sequence[Reader]
    seed: int = 0
    workers: int = 1
    most_seconds: float = MOST_SECONDS
    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def run(self, seconds: float, inputs: int | None = None, findings: int | None = None) -> None:
        """Runs for so long, or until so many inputs have been read, or so many different findings been made."""
        most_inputs, most_findings = (math.inf if most is None else most for most in (inputs, findings))
        self.tallies = {reader.name: Tally() for reader in self.readers}
        with scratch() as folder:
            seeds = made_seeds(self.readers, folder / "seeds")
            crew = [_Worker(self, seeds, folder / f"worker-{place}", place) for place in range(self.workers)]
            deadline = time.monotonic() + seconds
            try:
                while time.monotonic() < deadline and self.total < most_inputs and len(self.findings) < most_findings:
                    wait([worker.reports for worker in crew], PATIENCE)
                    for worker in crew:
                        worker.attend()
            finally:
                for worker in crew:
                    worker.end()

    @property
    def total(self) -> int:
        """How many inputs were read."""
        return sum(tally.inputs for tally in self.tallies.values())

    def note(self, reader: str, number: int, outcome: Outcome) -> None:
        """Adds a finding to those that are known."""
        known = self.findings.setdefault((reader, outcome.what), Finding(reader, number, outcome, 0))
        known.count += 1

    def table(self) -> str:
        """Returns a line for each reader."""
        lines = [
            f"{'reader':<12}{'inputs':>10}{'accepted':>10}{'refused':>10}{'findings':>10}{'slowest s':>11}{'inputs/s':>10}"
        ]
        whole = Tally()
        for name, tally in self.tallies.items():
            whole.add(tally)
            lines.append(_line(name, tally))
        return "\n".join([*lines, _line("all", whole)])

    def leave(self, out: Path) -> list[Path]:
        """Writes each finding with its input, to be replayed; returns the files."""
        out.mkdir(parents=True, exist_ok=True)
        files = []
        with scratch() as folder:
            seeds = made_seeds(self.readers, folder)
            readers = {reader.name: reader for reader in self.readers}
            for place, found in enumerate(self.findings.values()):
                path = out / f"{found.reader}-{place}.json"
                path.write_text(as_json(readers[found.reader].input(self.seed, found.number, seeds[found.reader])))
                told = f"{found.reader} input {found.number} of seed {self.seed}, {found.count} times"
                text = f"{told}\n{found.outcome.what}\n\n{found.outcome.detail}"
                path.with_suffix(".txt").write_text(text, errors="backslashreplace")
                files.append(path)
        return files


def _line(name: str, tally: Tally) -> str:
    rate = tally.inputs / tally.seconds if tally.seconds else 0.0
    counts = f"{tally.inputs:>10,}{tally.accepted:>10,}{tally.refused:>10,}{tally.findings:>10,}"
    return f"{name:<12}{counts}{tally.slowest[0]:>11.3f}{rate:>10,.0f}"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Gives a folder in memory, where there is such a file system, which is removed again."""
    memory = "/dev/shm"
    parent = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def made_seeds(readers: Sequence[Reader], folder: Path) -> dict[str, list[Files]]:
    """Returns the seeds of each reader; makers that several readers share are asked once."""
    known: dict[Any, list[Files]] = {}
    for reader in readers:
        if reader.seeds not in known:
            known[reader.seeds] = reader.seeds(folder / reader.name)
    return {reader.name: known[reader.seeds] for reader in readers}


# ---- one worker


class _Worker:
    """A process that reads; it leaves the number of each input before it reads it, where the parent sees it."""

    def __init__(self, campaign: Campaign, seeds: dict[str, list[Files]], folder: Path, place: int) -> None:
        self._campaign, self._seeds, self._folder, self._place = campaign, seeds, folder, place
        self._slot = mmap.mmap(-1, SLOT.size)
        # The numbers that each reader has come to: a worker that is begun anew goes on behind the input that ended it.
        self._next = {reader.name: place for reader in campaign.readers}
        self._start(0)

    def _start(self, first: int) -> None:
        self.reports, theirs = multiprocessing.Pipe(duplex=False)
        self._slot[:] = SLOT.pack(-1, -1, 0.0)
        context = multiprocessing.get_context("fork")  # with all that was imported
        arguments = (self._campaign, self._seeds, self._folder, dict(self._next), first, self._slot, theirs)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def attend(self) -> None:
        """Takes what the worker has to say; ends it where it hangs, and begins it anew where it has ended."""
        alive = self._take()
        place, number, began = SLOT.unpack(self._slot[:])
        if alive and (place < 0 or time.monotonic() - began <= self._campaign.most_seconds):
            return
        hung = alive
        self._process.kill()
        self._process.join()
        self._take()
        place, number, began = SLOT.unpack(self._slot[:])
        if place >= 0:
            reader = self._campaign.readers[place].name
            what = (
                f"hangs for more than {self._campaign.most_seconds:g} s"
                if hung
                else f"ends the process ({self._process.exitcode})"
            )
            self._campaign.note(reader, number, Outcome("finding", what))
            self._campaign.tallies[reader].add(
                Tally(1, 0, 0, 1, time.monotonic() - began, (time.monotonic() - began, number))
            )
            self._next[reader] = number + self._campaign.workers
        self._start(place + 1)  # a reader that ends each worker leaves the others their turn

    def _take(self) -> bool:
        """Whether the worker is there still."""
        with contextlib.suppress(EOFError, OSError):
            while self.reports.poll():
                name, following, tally, found = self.reports.recv()
                self._next[name] = following
                self._campaign.tallies[name].add(tally)
                for number, outcome in found:
                    self._campaign.note(name, number, outcome)
            return self._process.is_alive()
        return False

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()
        self._take()


def _work(
    campaign: Campaign,
    seeds: dict[str, list[Files]],
    folder: Path,
    following: dict[str, int],
    first: int,
    slot: mmap.mmap,
    reports: Connection,
) -> None:
    reading = Reading(folder)
    for reader in campaign.readers:  # what is imported late is imported before memory is counted
        for files in seeds[reader.name]:
            with contextlib.suppress(Exception):
                reading.look(reader, files)
    limit_memory()
    for turn in itertools.count(first):
        place = turn % len(campaign.readers)
        reader = campaign.readers[place]
        tally, found, began = Tally(), [], time.monotonic()
        while time.monotonic() - began < SLICE * reader.share:
            number, start = following[reader.name], time.monotonic()
            slot[:] = SLOT.pack(place, number, start)
            outcome = reading.look(reader, reader.input(campaign.seed, number, seeds[reader.name]))
            took = time.monotonic() - start
            following[reader.name] += campaign.workers
            counts = [outcome.kind == kind for kind in ("accepted", "refused", "finding")]
            tally.add(Tally(1, *counts, took, (took, number)))
            if outcome.kind == "finding":
                found.append((number, outcome))
        slot[:] = SLOT.pack(-1, -1, 0.0)
        reports.send((reader.name, following[reader.name], tally, found))


class Reading:
    """Gives inputs to readers in this process.

    Args:
      folder: of its own; everything else must stay as it is.
    """

    def __init__(self, folder: Path) -> None:
        self._place = Place(folder / "input")
        temporary_files_in(folder / "temporary")
        self._guard = Guard(folder)
        self._count = 0

    def look(self, reader: Reader, files: Files) -> Outcome:
        """Returns what became of an input."""
        self._count += 1
        if self._count % CLEARED == 0:
            self._place.clear()
        return look(self._guard, lambda: reader.read(self._place, files))
