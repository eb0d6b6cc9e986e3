"""Replays a trace on a training program that nobody edits: launched by its own command, for each run anew."""

import contextlib
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parity.experiment.replay.port import Port
from parity.experiment.replay.script import Part, ReplayError, launched_part
from parity.experiment.replay.session import replay
from parity.experiment.sides.kept_program import DESCRIPTION_FILE, KeptProgram, read_described
from parity.experiment.sides.launched import LaunchedProgram
from parity.experiment.sides.program_answers import Recorded
from parity.experiment.spec import Progress, silent
from parity.judge.result import Result
from parity.mapping.states import read_all
from parity.trace import Trace, TraceWriter, write_json
from parity.trace.bounded import MOST_BYTES_OF_TENSORS, size_of
from parity.worker.reaper import temporary_folder

OF_THE_PROGRAM = "its own"  # where a port names its functions
RUNS = "runs"  # folder beside a trace that was recorded like another, with all runs of its program
MAPPING_OF_RUNS = "mapping.toml"


def replay_program(
    recorded: Path,
    command: Sequence[str],
    mapping_file: Path | None,
    out: Path,
    tick: Progress = silent,
    in_detail: bool = False,
    levels: Sequence[str] = ("function", "float32"),
    silence: float = 300.0,
) -> Result:
    """Replays a trace on a program: it trains on the recorded batches, from each recorded state and freely.

    Args:
      recorded: a trace as `parity record` leaves it.
      command: of the program, as it would be typed.
      mapping_file: a case or a file with its [mapping] tables; by default names and shapes decide.
      out: folder for the traces.
      tick: told how far it is: what, done, total.
      in_detail: look closer at tensors that differ.
      levels: those to decide.
      silence: seconds without a step or a line of output after which a launch is ended.

    Raises:
      ReplayError: as of `replay`, or it is a script of TensorFlow with several optimizers.
      SideFailed: the program does not run, or cannot be given what was recorded.
    """
    part = launched_part(Trace(recorded, whole=False))
    with contextlib.closing(LaunchedProgram(command, training_of(part), out, silence)) as program:
        result = replay(recorded, port_of(part, silence), mapping_file, out, tick, in_detail, levels, program)
        return replace(result, notes=[*result.notes, *program.notes])


def record_like(
    recorded: Path,
    command: Sequence[str],
    mapping_file: Path | None,
    out: Path,
    tick: Progress = silent,
    silence: float = 300.0,
) -> Trace:
    """Leaves the trace of a program that trains on what was recorded, in float32 from each recorded state.

    Beside it, in a folder `RUNS`, is all that it was asked for: in float64, free-running, and where it differs the runs that
    a search for the cause makes. By these `compare_kept` judges it as `replay_program` does.

    Args:
      recorded: as of `replay_program`.
      command: as of `replay_program`.
      mapping_file: as of `replay_program`.
      out: folder of the trace; an older one in it is removed.
      tick: as of `replay_program`.
      silence: as of `replay_program`.

    Raises:
      ReplayError: as of `replay_program`.
      SideFailed: as of `replay_program`.
    """
    part = launched_part(Trace(recorded, whole=False))
    runs = out / RUNS
    # At once: where a launch fails, no older runs are to be taken for this program's.
    shutil.rmtree(runs, ignore_errors=True)
    with temporary_folder(prefix="parity-like-") as name:
        folder = Path(name)
        with contextlib.closing(LaunchedProgram(command, training_of(part), folder, silence)) as program:
            replay(recorded, port_of(part, silence), mapping_file, folder, tick, side=program)
            described = {**program.described(), "notes": program.notes, "reference": digest_of(recorded)}
        # The ordinary run: in the program's own precision, each step from the recorded state.
        float32 = Trace(folder / "torch-float32")
        writer = TraceWriter(out, float32.producer, {**float32.facts, "command": list(command)}, float32.variables)
        writer.init(read_all(float32.init()))
        for number in float32.step_numbers:
            writer.step(number, read_all(float32.step(number)))
        # The ranks' own folders are what the runs were put together of.
        shutil.copytree(folder, runs, ignore=shutil.ignore_patterns("launches"))
        write_json(runs / DESCRIPTION_FILE, described)
        if mapping_file:
            shutil.copyfile(mapping_file, runs / MAPPING_OF_RUNS)
        writer.close()
    return Trace(out)


def is_like(recorded: Path, candidate: Path) -> bool:
    """Returns whether a candidate was recorded by `record_like` on what a reference holds."""
    file = candidate / RUNS / DESCRIPTION_FILE
    return file.is_file() and read_described(candidate / RUNS)["reference"] == digest_of(recorded)


def compare_kept(
    recorded: Path,
    candidate: Path,
    mapping_file: Path | None = None,
    in_detail: bool = False,
    tick: Progress = silent,
) -> Result:
    """Judges what `record_like` left as `replay_program` judges it, and starts nothing.

    Args:
      recorded: the reference.
      candidate: a trace that was recorded like it.
      mapping_file: by default the one that the candidate was recorded with.
      in_detail: as of `replay_program`.
      tick: as of `replay_program`.
    """
    part = launched_part(Trace(recorded, whole=False))
    own = candidate / RUNS / MAPPING_OF_RUNS
    with temporary_folder(prefix="parity-compare-") as name:
        program = KeptProgram(candidate / RUNS, training_of(part), Path(name))
        file = mapping_file or (own if own.is_file() else None)
        result = replay(recorded, port_of(part, 0.0), file, Path(name), tick, in_detail, side=program)
        return replace(result, notes=[*result.notes, *program.notes])


def training_of(part: Part) -> Recorded:
    """Returns what a program is to train on."""
    shapes = {name: list(entry["shape"]) for name, entry in part.trace.variables.items()}
    trained = {name: part.trace.facts["sections"][name].get("parameters") or [] for name in part.sections}
    unknown = [each for names in trained.values() for each in names if each not in shapes]
    if unknown:
        raise ReplayError(
            f"replay: expected {unknown[0][:80]!r}, which an optimizer trains, among the variables of "
            f"{part.trace.directory}, got none. Record it again."
        )
    sections = {name: [shapes[each] for each in names] for name, names in trained.items()}
    rates = {str(number): part.rate(number) for number in part.steps if part.recorded_rate(number) is not None}
    return Recorded(part.steps[0], part.towers, bool(part.facts.get("clipped")), rates, sections, part.fed())


def port_of(part: Part, silence: float) -> Port:
    """Returns a program as a port: all that a port names is the program's own."""
    return Port("", {part.name: OF_THE_PROGRAM}, {part.name: OF_THE_PROGRAM}, [], silence)


def digest_of(recorded: Path) -> str:
    """Returns what tells one recording from another: a digest of its facts and first weights."""
    digest = hashlib.blake2b(digest_size=12)
    # Without the steps, which are most of a recording.
    for name in ("trace.json", "init.safetensors"):
        size_of(str(recorded / name), MOST_BYTES_OF_TENSORS)
        digest.update((recorded / name).read_bytes())
    return digest.hexdigest()
