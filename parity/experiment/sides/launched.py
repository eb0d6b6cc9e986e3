"""A training program that nobody edits as one side: each request is a launch of its command."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from parity.experiment.sides.program_answers import (
    TORCH_SIDE,
    Recorded,
    in_sections,
    joined_towers,
    named_sections,
    prepared_as,
    where_clipped,
    with_clipped,
    without_clipped,
)
from parity.record.launch import Program
from parity.record.merge import Ranks, merge, read_ranks
from parity.trace import (
    GLOBAL_STEP,
    Trace,
    TraceWriter,
    batch_input,
    parse_key,
    quantity_of,
    read_json,
    trace_name,
)
from parity.trace.arrays import Tensors
from parity.worker.failures import SideFailed, failure, last_lines, last_words, task_of, telling_stacks
from parity.worker.process import LOG_LINES, STACK_LINES, STACK_SECONDS
from parity.worker.program_request import DESCRIBE, REPLAY, ProgramRequest

REFUSED, DESCRIBED, SEEN = "refused-*.json", "described-*.json", "seen-*.json"
OWN_FOLDER = "{out}"  # in a command
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 10.0  # in which a program may end by itself once all is recorded
# What is asked of a step that only this project's own step can do.
NOT_OF_A_PROGRAM = ("noise", "cut", "uncut", "detached")
# Of a run of the side's own, and not of the request that its ranks get.
OF_THE_PARENT = ("out", "prepared", "quantities", "evaluation", *NOT_OF_A_PROGRAM)
# Facts that count what a whole launch did, which is as long as a request needs it: they would differ from a recording's.
OF_A_WHOLE_LAUNCH = ("forwards", "passes", "samplers", "schedules", "collectives")
DIFFERING_STEPS = "steps_where_ranks_differ"  # fact, of steps
COUNT = parse_key(GLOBAL_STEP)
OF_TOWERS = frozenset(["loss", "tower_grad", "tower_clip"])
HAZARD = "{name} in the program: {evidence}"
IN_HALF = "the program casts to {what} ({place}), where nothing is widened to float64: that keeps it from level 1"
OF_NARROW = {"autocast": "autocast ({place}) leaves float64 alone: level 1 is decided without it, level 2 with it"}

Report = Callable[[int, int], None]


class LaunchedProgram:
    """Answers `prepare` and `run` as a torch side does, each by a launch of a program's own command.

    Args:
      command: as it would be typed; `{out}` in a word of it is a folder of each launch's own.
      recorded: what it trains on.
      folder: for logs and for what its ranks leave.
      silence: seconds without a step or a line of output after which a launch is ended.

    Attributes:
      notes: what a report is to say of how the recording was given to the program.
    """

    side = TORCH_SIDE

    def __init__(self, command: Sequence[str], recorded: Recorded, folder: Path, silence: float) -> None:
        self._command, self._recorded, self._folder, self._silence = list(command), recorded, folder, silence
        self._log = folder / "logs" / "program.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.write_bytes(b"")
        self._launches = 0
        self.notes: list[str] = []
        self._described: dict[str, Any] | None = None
        self._closing = False
        # One at a time, in the order in which they are asked, as a side's process answers.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="program")

    def ask(self, request: str, on_progress: Report | None = None, **arguments: Any) -> "Future[Any]":
        """Launches the program for a request; the future gives the answer, or raises `SideFailed`."""
        answers = {"prepare": self._prepare, "run": self._run, "forward": self._forward}
        if request not in answers:
            return self._worker.submit(self._refuse, request)
        return self._worker.submit(answers[request], arguments, on_progress)

    def close(self) -> None:
        """Ends what runs, and waits for it."""
        self._closing = True
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _refuse(self, what: str) -> None:
        raise SideFailed(
            TORCH_SIDE, f"expected to {what}, which a program that is launched as it is cannot do. Leave it out."
        )

    def _prepare(self, arguments: Mapping[str, Any], on_progress: Report | None) -> dict[str, Any]:
        return prepared_as(self.described(), self._recorded, arguments)

    def described(self) -> dict[str, Any]:
        """Returns what the program trains, by a launch of its own the first time."""
        if self._described is None:
            self._described = self._describe()
        return self._described

    def _describe(self) -> dict[str, Any]:
        with self._launched("prepare", DESCRIBE, {}, 1, 0, None) as ranks:
            found = _read_all(ranks, DESCRIBED)
            # Rank 0's stands for all: they run one program, and its weights are those that are recorded.
            first = next(each for each in found if not each["rank"])
            trace = merge(read_ranks(str(ranks)), str(ranks.parent / "merged"), True)
        if first["ranks"] not in (1, self._recorded.towers):
            raise SideFailed(
                TORCH_SIDE,
                f"expected {self._recorded.towers} ranks, one for each recorded tower, or a single one, got "
                f"{first['ranks']}. Launch as many, e.g. with torchrun --nproc_per_node {self._recorded.towers}.",
            )
        first["sections"] = named_sections(self._recorded.sections, first)
        # On its own data: what stands in for that hides, as of ranks that read the same.
        self.notes += [HAZARD.format(**each) for each in trace.facts.get("hazards", [])]
        facts = self._facts(trace)
        return {**first, "facts": facts}

    def _run(self, arguments: Mapping[str, Any], on_progress: Report | None) -> dict[str, Any]:
        # Refused, not left out: an experiment that changed nothing would clear what it was to accuse.
        for name in NOT_OF_A_PROGRAM:
            if arguments.get(name):
                self._refuse(f"run with {name}")
        steps, first = list(arguments["steps"]), self._recorded.first
        if self._recorded.sections and steps[0] != first:
            self._refuse("make one of the steps of several optimizers without those before it")
        asked = {**json.loads(arguments["prepared"]), "first": first}
        asked.update((name, value) for name, value in arguments.items() if name not in OF_THE_PARENT)
        # A program comes to a step by the steps before, on numbers of its own, as its schedule counts.
        skip, count = steps[0] - first, steps[-1] - steps[0] + 1
        with self._launched("run", REPLAY, asked, count, skip, on_progress) as ranks:
            seen = _read_all(ranks, SEEN)
            trace = merge(read_ranks(str(ranks)), str(ranks.parent / "merged"), True)
            self._write(trace, arguments, asked, seen)
        return {}

    def _forward(self, arguments: Mapping[str, Any], on_progress: Report | None) -> dict[str, Any]:
        if arguments.get("ends_at"):
            self._refuse("show the forward pass up to an output beside the loss")
        step, first = int(arguments["step"]), self._recorded.first
        wanted = {name: arguments.get(name) for name in ("tower", "out", "gradients")}
        asked = {
            **json.loads(arguments["prepared"]),
            **{name: arguments[name] for name in ("feeds", "start", "follow")},
            "first": first,
            "steps": [step],
            "forward": wanted,
        }
        with self._launched("forward", REPLAY, asked, 1, step - first, on_progress):
            return {}

    def _write(
        self, trace: Trace, arguments: Mapping[str, Any], asked: Mapping[str, Any], seen: Sequence[dict[str, Any]]
    ) -> None:
        """Leaves a trace as a side does: with recorded numbers of steps, given names of inputs, quantities asked for."""
        steps, keep = list(arguments["steps"]), set(arguments["quantities"])
        several = bool(self._recorded.sections)
        if not several and len(trace.facts.get("sections") or {}) > 1:
            raise SideFailed(
                TORCH_SIDE,
                "expected a program with one optimizer that trains, as was recorded, got several. Prove it by its parts.",
            )
        # The program counts its own steps, those that it skipped among them; the recording goes on from what it had
        # made.
        feeds, begun = Trace(arguments["feeds"]), Trace(arguments["start"]).init()
        made = int(begun.read(GLOBAL_STEP)) if GLOBAL_STEP in begun else 0
        unobserved = {"metric", "eval", "ema", "act"}
        # One rank on the whole batch has no tower's own numbers, only what is combined of them.
        alone = OF_TOWERS if self.described()["ranks"] != self._recorded.towers else frozenset()
        unobserved |= alone
        combined = where_clipped(trace) if self._recorded.clipped else ""
        if combined == "unseen":
            unobserved.add("grad")
        facts = {**self._facts(trace, steps[0]), "precision": asked["precision"]}
        writer = TraceWriter(arguments["out"], trace.producer, facts, trace.variables)
        writer.init(_all(trace.init()))
        for number in steps:
            # Ranks number what they record from 0; the steps that are asked for follow one another.
            tensors = _all(trace.step(number - steps[0]))
            tensors = with_clipped(tensors, combined) if self._recorded.clipped else without_clipped(tensors)
            tensors = joined_towers(
                {name: v for name, v in tensors.items() if quantity_of(name) not in {"feed", *alone}}
            )
            tensors = in_sections(tensors, trace.facts.get("section", "")) if several else tensors
            # Of several optimizers each counts its own.
            tensors = {name: v for name, v in tensors.items() if parse_key(name)._replace(section="") != COUNT}
            if not several:
                tensors[GLOBAL_STEP] = np.array(made + number - steps[0], np.int64)
            # In the names of the reference: what the ranks saw is in the program's own, and may be in another layout.
            tensors.update(self._fed(feeds, number, asked["precision"]))
            writer.step(number, {name: value for name, value in tensors.items() if quantity_of(name) in keep})
        left = [each for rank in seen for each in rank["draws_left"]]
        known: dict[str, Any] = {"unobserved": sorted(unobserved)}
        self._add_notes(seen)
        writer.close(
            ranks_agree=trace.facts.get("ranks_agree", True), **known, **({"draws_left": left[0]} if left else {})
        )

    def _facts(self, trace: Trace, first: int = 0) -> dict[str, Any]:
        own = {
            name: value
            for name, value in trace.facts.items()
            if name not in ("hazards", "sections", *OF_A_WHOLE_LAUNCH)
        }
        # Ranks number their steps from 0.
        differing = [first + number for number in own.get(DIFFERING_STEPS, ())]
        return {
            **own,
            **({DIFFERING_STEPS: differing} if DIFFERING_STEPS in own else {}),
            "side": "torch_ddp",
            "combination": "port",
        }

    def _add_notes(self, seen: Sequence[dict[str, Any]]) -> None:
        notes = [note for rank in seen for note in rank["notes"]]
        narrow = {what: place for rank in seen for what, place in rank["narrow"].items()}
        notes += [OF_NARROW.get(what, IN_HALF).format(what=what, place=place) for what, place in narrow.items()]
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def _fed(self, feeds: Trace, number: int, precision: str) -> Tensors:
        """What each rank got in a step, which its program was checked to have taken."""
        fed, towers = {}, self._recorded.towers
        for text, value in _all(feeds.step(number)).items():
            size = len(value) // towers
            cast = value.astype(precision) if value.dtype.name in ("float32", "float64") else value
            for tower in range(towers):
                name = trace_name("feed", batch_input(text), tower=tower)
                fed[name] = cast[tower * size : (tower + 1) * size]
        return fed

    @contextlib.contextmanager
    def _launched(
        self, request: str, kind: str, arguments: dict[str, Any], steps: int, skip: int, report: Report | None
    ) -> Iterator[Path]:
        """Runs the command until its ranks hold all steps; gives the folder of what they left."""
        # A folder for each, so that no launch reads what one before has left.
        self._launches += 1
        folder = (self._folder / "launches" / f"{self._launches:03d}-{request}").resolve()
        asked = ProgramRequest(str(folder / "ranks"), kind, steps, skip, arguments)
        with self._log.open("ab") as log:
            try:
                command = [word.replace(OWN_FOLDER, str(folder / "out")) for word in self._command]
                program = Program(
                    command, asked, folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise SideFailed(
                    TORCH_SIDE,
                    f"expected to start {self._command[0]}, got: {error.strerror}. Write a command that runs.",
                ) from error
            # Ended before the folder is given: what is read then changes no more.
            with contextlib.closing(program):
                self._follow(program, request, asked, report)
        yield folder / "ranks"

    def _follow(self, program: Program, request: str, asked: ProgramRequest, report: Report | None) -> None:
        assert asked.steps is not None
        ranks = Path(asked.ranks)
        life: tuple[Any, ...] = ()
        last = time.monotonic()
        enough = 0.0
        while True:
            ended = program.poll()  # before what it left is looked at: nothing comes after its end
            self._raise_refusal(request, ranks)
            if self._closing:
                raise SideFailed(TORCH_SIDE, f"expected {task_of(request)}, but it was ended. Run again.")
            left = read_ranks(asked.ranks)
            done = len(left.steps())
            if left.enough:
                enough = enough or time.monotonic()
                if ended is not None or time.monotonic() > enough + LEAVE_SECONDS:
                    return
            elif ended is not None:
                raise self._ended(request, ended, left, asked)
            now = (done, self._log.stat().st_size, len(os.listdir(ranks)), bool(enough))
            if now != life:
                life, last = now, time.monotonic()
                if report:
                    report(done, asked.steps)
            if time.monotonic() > last + self._silence:
                raise self._silent(program, request)
            time.sleep(LOOK_SECONDS)

    def _raise_refusal(self, request: str, ranks: Path) -> None:
        # The first: what ends other ranks follows from it.
        refused = sorted(ranks.glob(REFUSED), key=lambda path: path.stat().st_mtime_ns)
        if refused:
            raise failure(TORCH_SIDE, request, read_json(str(refused[0])))

    def _ended(self, request: str, status: int, left: Ranks, asked: ProgramRequest) -> SideFailed:
        command, done = shlex.join(self._command), len(left.steps())
        printed = last_words(self._log, LOG_LINES)
        if status:
            how = f"`{command}` ended with status {status}"
            return SideFailed(
                TORCH_SIDE,
                f"expected {task_of(request)}, but {how}. Look above for why, and run again.",
                printed=printed,
            )
        if not left.folders:
            return SideFailed(
                TORCH_SIDE,
                f"expected `{command}` to train, got no backward pass in any process of its own. "
                "Name a command that trains with torch.",
                printed=printed,
            )
        if len(left.folders) < left.world_size:
            got = f"{len(left.folders)} of {left.world_size} ranks that train"
        else:
            got = f"{done}"
        return SideFailed(
            TORCH_SIDE,
            f"expected {asked.skip + (asked.steps or 0)} training steps of `{command}`, got {got}. "
            "Have it train for as long, by its own options.",
            printed=printed,
        )

    def _silent(self, program: Program, request: str) -> SideFailed:
        # From here on the log has stacks, and what was printed before is none.
        start = self._log.stat().st_size
        for pid in filter(_prints_stacks, program.processes()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGUSR1)  # one at a time, for they share the log
            time.sleep(STACK_SECONDS)
        stacks = telling_stacks(last_lines(self._log, 1000, start))
        return SideFailed(
            TORCH_SIDE,
            f"expected a step or a line of output within {self._silence:g} s of {request!r}, got none; it was ended. "
            "Look above for where it hung, or allow more with --timeout.",
            printed="\n".join(stacks.splitlines()[:STACK_LINES]) or last_words(self._log, LOG_LINES),
            hung=True,
        )


def _prints_stacks(pid: int) -> bool:
    """Whether a process has a handler for SIGUSR1: it would end any other, a launcher before its ranks."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def _read_all(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [read_json(str(path)) for path in sorted(folder.glob(pattern))]


def _all(file: Any) -> Tensors:
    return {name: file.read(name) for name in file.names()}
