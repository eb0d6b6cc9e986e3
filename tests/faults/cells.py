"""The cells: which faults come at which moments, what each may end with, and what became of it."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from .commands import COMMANDS, PATIENCE, ROOT, Command, Inputs
from .faults import (
    AT_A_MOMENT,
    AT_THE_START,
    FAULTS,
    OF_A_CHILD,
    Fault,
    Place,
    Struck,
    unmount,
    what_is_missing,
)
from .moments import MOMENTS, Moment
from .observation import LEFT_SECONDS, false_claims, partial_files, processes_left, temporary_left

HOOKS = Path(__file__).parent / "hooks"
MOST_SECONDS = 90.0 * PATIENCE
LOOK_SECONDS = 0.02
BEFORE = "before"  # the moment before the start
BUILD_OF_OURS = {"PARITY_TF_PYTHON", "PYTHONPATH", "TMPDIR", "XDG_CACHE_HOME"}


@dataclass(frozen=True)
class Cell:
    """A command, a moment and a fault.

    Attributes:
      command: what is run.
      moment: where the fault comes, None for before the start.
      fault: which.
    """

    command: Command
    moment: Moment | None
    fault: Fault

    @property
    def name(self) -> str:
        """As patterns see it."""
        return f"{self.command.name}/{self.moment.name if self.moment else BEFORE}/{self.fault.name}"

    def codes(self) -> set[int]:
        """Returns what the command may end with."""
        fault, command = self.fault.name, self.command.name
        moment = self.moment.name if self.moment else BEFORE
        if fault == "kill":
            return {-signal.SIGKILL}
        if fault == "stop":
            return {0}
        if command == "train":
            return _codes_of_training(fault, moment)
        if fault in ("term", "hup", "int"):
            return {130}
        if fault == "child-killed":
            if command == "record":
                # A script's exit code is its own; a shadow that could not be made is said, and what was recorded is whole.
                return {0} if moment.startswith("shadow") else {128 + signal.SIGKILL}
            return {128 + signal.SIGKILL} if command == "program" else {2}
        if fault == "child-frozen":
            return {2}
        # Done in spite of it, or said why not. A script that is recorded has exit codes of its own, and its framework aborts
        # for want of memory.
        aborts = {128 + signal.SIGABRT} if "memory" in fault else set()
        return {0, 1, 2} | aborts if command in ("record", "program") else {0, 2}


def _codes_of_training(fault: str, moment: str) -> set[int]:
    if fault == "term":
        # Before there is a handler the signal ends it. A rank that is still imported, or that is behind `Preemption`, dies
        # of it, and `spawn` ends with its code; ranks that are done by then have trained.
        return {"start": {-signal.SIGTERM}, "end": {0, 143}}.get(moment, {143})
    if fault == "hup":
        return {-signal.SIGHUP}
    if fault == "int":
        return {-signal.SIGINT}
    return {0, 1}


def cells() -> list[Cell]:
    """Returns all cells, those of one command one after the other."""
    found = []
    for number, moment in enumerate(MOMENTS):
        found += [_cell(moment.command, moment, name) for name in _faults_at(number, moment)]
    for command in COMMANDS:
        found += [_cell(command, None, fault.name) for fault in AT_THE_START if _concerns(command, fault.name)]
    return sorted(found, key=lambda cell: [*COMMANDS].index(cell.command.name))


def _cell(command: str, moment: Moment | None, fault: str) -> Cell:
    return Cell(COMMANDS[command], moment, FAULTS[fault])


FROZEN = {
    ("run", "reference"),
    ("run", "candidate"),
    ("golden", "torch-import"),
    ("program", "step"),
    ("replay", "candidate"),
    ("port", "proof"),
    ("train", "step"),
}


def _faults_at(number: int, moment: Moment) -> list[str]:
    names = ["kill", "term"]
    # Each moment has one of these; the longest and the only one without our command line have all.
    others = ["int", "hup", "stop"]
    names += others if moment.command in ("run", "train") else [others[number % len(others)]]
    if moment.whose == "child":
        names.append("child-killed")
    if (moment.command, moment.name) in FROZEN:
        names.append("child-frozen")
    # Two of those that come at a moment, the next moment the next two; the command that costs least has all.
    at = [fault.name for fault in AT_A_MOMENT]
    return names + (at if moment.command == "compare" else [at[(2 * number + step) % len(at)] for step in range(2)])


def _concerns(command: str, fault: str) -> bool:
    if command in ("golden", "bare"):
        return fault in ("out-a-file", "no-loopback", "temporary-missing", "few-handles")
    if command == "compare":
        return not fault.startswith("no-")
    # Of a script or program output and errors are its own.
    return not (command == "train" and fault.startswith("std"))


# ---- running one


@dataclass
class Outcome:
    """What became of a cell.

    Attributes:
      cell: its name.
      code: exit code, negative for a signal; None where it hung.
      seconds: from the fault, or the start where it came before, to the end.
      message: the line that says why, or the last.
      processes, temporary, partial, claims: as `observation` finds them.
      faults: what does not hold, one line each.
      skipped: why it could not be tried here.
    """

    cell: str
    code: int | None = None
    seconds: float = 0.0
    message: str = ""
    processes: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    skipped: str = ""


def run_cell(cell: Cell, inputs: Inputs, folder: Path, keep: bool = False) -> Outcome:
    """Runs a command with its fault and looks at what is left.

    Args:
      cell: which.
      inputs: of the commands.
      folder: a new one for the cell.
      keep: leave the folder.
    """
    missing = what_is_missing(cell.fault.needs)
    if missing:
        return Outcome(cell.name, skipped=missing)
    place = _place(folder)
    mark = f"faults-{uuid.uuid4().hex}"
    place.environment["FAULTS_MARK"] = mark
    words, cwd = cell.command.words(inputs, place.out), cell.command.folder(inputs) or folder / "work"
    if cell.moment:
        (place.meeting / "point.json").write_text(json.dumps(cell.moment.point()))
    try:
        if cell.fault.before:
            cell.fault.before(place)
        return _observed(cell, place, words, cwd, mark, folder)
    finally:
        _end_all(mark)
        unmount(place.out)
        unmount(place.temporary)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _place(folder: Path) -> Place:
    folder = folder.resolve()
    places = [folder / name for name in ("out", "temporary", "meeting", "work")]
    for each in places:
        each.mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if name not in BUILD_OF_OURS}
    environment = {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(HOOKS), str(ROOT)]),
        "TMPDIR": str(places[1]),
        "FAULTS_FOLDER": str(places[2]),
        "OMP_NUM_THREADS": "1",
    }
    return Place(*places[:3], environment)


def _observed(cell: Cell, place: Place, words: list[str], cwd: Path, mark: str, folder: Path) -> Outcome:
    outcome = Outcome(cell.name)
    stderr = folder / "stderr"
    with contextlib.ExitStack() as stack:
        process = _start(place, words, cwd, folder, stack)
        since = time.monotonic()
        if cell.moment:
            if not _reached(place, process):
                outcome.faults.append("the moment did not come")
            else:
                at = int((place.meeting / "reached").read_text())
                since = time.monotonic()
                assert cell.fault.at is not None
                cell.fault.at(Struck(place, process.pid, at))
                if cell.fault.goes_on:
                    place.go()
        try:
            outcome.code = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            outcome.faults.append(f"hangs for more than {MOST_SECONDS:g} s")
        outcome.seconds = time.monotonic() - since
        outcome.processes = processes_left(mark, LEFT_SECONDS)
        _end_all(mark)
        process.wait()
    outcome.message = _message(stderr.read_text(errors="replace"))
    outcome.temporary = temporary_left(place.temporary)
    outcome.partial = partial_files(place.out) if place.out.is_dir() else []
    outcome.claims = false_claims(place.out, outcome.code)
    outcome.faults += _faults_of(cell, place, outcome)
    return outcome


def _start(
    place: Place, words: list[str], cwd: Path, folder: Path, stack: contextlib.ExitStack
) -> "subprocess.Popen[bytes]":
    def become() -> None:
        # What a shell starts in the background ignores SIGINT, and so would all that it starts.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor, where in ((1, place.stdout), (2, place.stderr)):
            if where is None:
                os.close(descriptor)
        for limit in place.before:
            limit()

    streams = []
    for name, where in (("stdout", place.stdout), ("stderr", place.stderr)):
        streams.append(os.open(where or folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        stack.callback(os.close, streams[-1])
    (folder / "stderr").touch()
    return subprocess.Popen(
        [*place.prefix, *words],
        cwd=cwd,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        start_new_session=True,
        preexec_fn=become,
    )


def _reached(place: Place, process: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + MOST_SECONDS
    while not (place.meeting / "reached").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def _end_all(mark: str) -> None:
    while found := _ids_with(mark):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def _ids_with(mark: str) -> list[int]:
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if mark.encode() in file.read():
                found.append(int(path.split("/")[2]))
    return found


# ---- judging it

TELLING = re.compile(
    r"parity: |record: (?:expected|stopped)|trace: |[\w.]*(?:Error|Exception)\b|checkpoint: |torch_ddp: "
)
SENTENCE = re.compile(r"expected .*, (?:got|but)|stopped before|stopped recording|which does not run", re.S)


def _message(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.match(line)]
    return (telling or lines or [""])[0 if telling and telling[0].startswith("parity: ") else -1]


def _faults_of(cell: Cell, place: Place, outcome: Outcome) -> list[str]:
    found = []
    if outcome.code is not None and outcome.code not in cell.codes():
        found.append(f"ends with {outcome.code}, not {' or '.join(map(str, sorted(cell.codes())))}")
    if outcome.processes:
        found.append(f"leaves {len(outcome.processes)} processes: {outcome.processes[0][:80]}")
    if outcome.temporary:
        found.append(f"leaves temporary {', '.join(outcome.temporary[:3])}")
    # What dies in the middle of a write can not remove it; the next command that writes there does.
    dies = cell.fault in OF_A_CHILD or (outcome.code or 0) < 0
    kept = [name for name in outcome.partial if not (dies and name.endswith((".part", ".unfinished")))]
    # Nor can what may not write any more.
    if kept and "read-only" not in cell.fault.name:
        found.append(f"leaves {', '.join(kept[:3])}")
    found += outcome.claims
    if outcome.code == 0:
        found += [f"ends with 0 without {name}" for name in cell.command.whole if not [*place.out.glob(name)]]
    silent = place.stderr != ""
    if cell.command.ours and outcome.code in (2, 130) and not silent and not SENTENCE.search(outcome.message):
        found.append(f"says no sentence: {outcome.message[:200]!r}")
    return found


def chosen(patterns: list[str]) -> list[Cell]:
    """Returns the cells of which one of the patterns holds, all where there is none."""
    return [
        cell
        for cell in cells()
        if not patterns or any(fnmatch(cell.name, each) or each in cell.name for each in patterns)
    ]
