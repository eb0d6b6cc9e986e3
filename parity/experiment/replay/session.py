"""Feeds a recorded trace to a PyTorch port under DistributedDataParallel, in lockstep and freely, and compares."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parity.case import load_mapping
from parity.experiment.compare import compare_joined
from parity.experiment.levels import not_run
from parity.experiment.replay.levels import Judged, judge_part
from parity.experiment.replay.port import Port as Port
from parity.experiment.replay.port import ReplayedPort, check_port
from parity.experiment.replay.port import TrainingModule as TrainingModule
from parity.experiment.replay.reference import write_reference
from parity.experiment.replay.refused_parts import refused_parts
from parity.experiment.replay.script import Part, launched_part, parts_of
from parity.experiment.replay.script import ReplayError as ReplayError
from parity.experiment.replay.sections import Looked, in_section, look_at_part, together
from parity.experiment.replay.training import trains_itself, with_training
from parity.experiment.session import LEVELS
from parity.experiment.spec import Progress, Side, silent
from parity.judge.result import Level, Result
from parity.judge.tensor_details import Pairs
from parity.mapping import mapping_notes
from parity.trace import SHADOW, SHADOW_FILE, MissingError, Trace, TraceError
from parity.trace.bounded import read_json
from parity.worker.launch import launch_torch

NOT_DECIDED = {
    "trajectory": "a replay decides levels 1 and 2: this one needs the script to train from other weights (`parity run`)",
    "mixed": "a replay decides levels 1 and 2: this one needs a case that names the port's precision (`parity run`)",
}
JOINED_LOSSES = (
    "the towers' own gradients were not judged: the script adds up the towers' losses and differentiates once, so that only "
    "their combination is recorded"
)
CLIP_WITHOUT_EFFECT = "clipping never took effect in the recorded steps: it is not judged"
NOT_ASKED = "it was not requested"
NO_INFERENCE = (
    "inference was not judged, for training steps hold none of it: what the script computes after training, with moving "
    "statistics, averages for weights and without dropout, is proven by a case and `parity run` only"
)


def replay(
    recorded: Path,
    port: Port,
    mapping_file: Path | None,
    out: Path,
    tick: Progress = silent,
    in_detail: bool = False,
    levels: Sequence[str] = ("function", "float32"),
    side: Side | None = None,
) -> Result:
    """Replays a trace on a port: the recorded feeds and draws, from the recorded state before every step, and freely.

    Args:
      recorded: a trace as `parity record` leaves it; one that stopped early is used up to its last whole step.
      port: the torch side.
      mapping_file: a case or a file with its [mapping] tables; by default names and shapes decide.
      out: folder for the traces.
      tick: told how far it is: what, done, total.
      in_detail: look closer at tensors that differ, and keep the losses: for reports that show them.
      levels: those to decide.
      side: a torch process that somebody else ends; by default one is started and ended here.

    Returns:
      The `Result`: levels 1 and 2 where the trace has a float64 shadow, else level 2 with allowances that nobody measured,
      which is no success where level 1 was asked for; with notes on what was not replayed.

    Raises:
      ReplayError: the trace has no steps, uneven shards or an unknown way of combining.
      SideFailed: the port raised.
      MappingError: the variables do not join.
    """
    script = _prepare(recorded, port, mapping_file, out, tick)
    outcomes: list[Outcome] = []
    tick("start torch", 0, 1)
    # One process for all parts: importing torch takes seconds.
    with contextlib.ExitStack() as stack:
        serving = side or stack.enter_context(
            contextlib.closing(launch_torch(out / "logs" / "torch.log", port.silence))
        )
        judged = []
        for part in script.parts:
            replayed = _start(script, part, port, serving)
            judged.append((replayed, _judge(script, replayed)))
            _refuse_draws_left(*judged[-1])
        for replayed, each in with_training(judged) if port.program else judged:
            # Invariant: each outcome holds what was looked at in all parts so far, within one limit for all.
            before = outcomes[-1].looked if outcomes else Looked([], [])
            looked = look_at_part(before, replayed.join, each, replayed.part.name) if in_detail else before
            outcomes.append(_outcome(replayed, each, looked))
    return _joined(script, outcomes, levels)


def _refuse_draws_left(replayed: ReplayedPort, judged: Judged) -> None:
    # Where nothing that was judged shows it; elsewhere what differs says more.
    if replayed.draws_left and all(level.verdict == "same" for level in judged.levels):
        raise ReplayError(f"replay: {replayed.draws_left}")


class Script(NamedTuple):
    """A recorded script about to be replayed.

    Fields:
      trace: as it was recorded.
      parts: of it, one for each optimizer.
      shadow: its float64 shadow, or None.
      why: why there is none, else "".
      mapping_file: with [mapping] tables, or None.
      out: folder for what is written.
      tick: told how far it is: what, done, total.
    """

    trace: Trace
    parts: list[Part]
    shadow: Trace | None
    why: str
    mapping_file: Path | None
    out: Path
    tick: Progress

    def folder(self, part: Part) -> Path:
        """Returns the folder of a part."""
        return self.out / part.name if part.name else self.out


class Outcome(NamedTuple):
    """What became of one part.

    Fields:
      levels: those that were decided, with the names of the part's section.
      pairs: the mapping, as text.
      candidate: facts of the port.
      notes: on the part.
      looked: what only the traces know, of this part and of those before it.
    """

    levels: dict[str, Level]
    pairs: list[tuple[str, str, str, str]]
    candidate: dict[str, Any]
    notes: list[str]
    looked: Looked


def _prepare(recorded: Path, port: Port, mapping_file: Path | None, out: Path, tick: Progress) -> Script:
    trace = Trace(recorded, whole=False)
    # A program that is launched as it is combines by itself, and makes the steps of all its optimizers.
    parts = parts_of(trace) if port.model else [launched_part(trace)]
    for part in parts:
        check_port(part, port)
    # Checked before anything starts: a loss that is missing should cost no start of torch.
    return Script(trace, parts, *_shadow(trace), mapping_file, out, tick)


def _start(script: Script, part: Part, port: Port, side: Side) -> ReplayedPort:
    # The file is read for each part anew: its tables may name tensors of one section alone.
    entries, named = load_mapping(script.mapping_file) if script.mapping_file else ({}, {})
    folder = script.folder(part)
    # A folder of its own for each optimizer: their runs have the same names.
    folder.mkdir(parents=True, exist_ok=True)
    replayed = ReplayedPort(part.holding(entries), port, side, entries, named, folder, script.tick, script.shadow)
    script.tick("start torch", 1, 1)
    return replayed


def _judge(script: Script, replayed: ReplayedPort) -> Judged:
    part, folder, tick = replayed.part, script.folder(replayed.part), script.tick
    # With a float64 shadow level 1 is decided: in float32 alone a small bug hides below rounding.
    if script.shadow is not None:
        return judge_part(replayed, script.shadow, folder, tick)
    reference = write_reference(part, part.trace, folder / "reference-float32")
    candidate = replayed.run("float32")
    result = compare_joined(reference, candidate, replayed.join, tick=tick)
    # Two bare traces decide one level, by the precision of the recording.
    decided = [level for level in result.levels.values() if level.verdict != "not_run"][:1]
    # `compare_joined` calls the run of two bare traces free.
    traces: dict[str, Pairs] = {level.name: {"free": (reference, candidate)} for level in decided}
    return Judged([not_run("function", script.why), *decided], result.notes, traces)


def _outcome(replayed: ReplayedPort, judged: Judged, looked: Looked) -> Outcome:
    part = replayed.part
    notes = (
        judged.notes
        + mapping_notes(replayed.draft, part.trained)
        + _left(part)
        + ([] if part.has_tower_gradients else [JOINED_LOSSES])
        + ([CLIP_WITHOUT_EFFECT] if part.facts.get("clip_never_in_effect") else [])
    )
    levels = {level.name: in_section(level, part.name) for level in judged.levels}
    facts = dict(replayed.prepared["float32"]["facts"])
    # Otherwise the verdict says that the tool's own combination was used.
    if any(trains_itself(level) for level in judged.levels):
        facts["combination"] = "port"  # of a program that trains as the script does, it is judged with the rest
    return Outcome(levels, replayed.mapping.texts(), facts, notes, looked)


def _joined(script: Script, outcomes: Sequence[Outcome], levels: Sequence[str]) -> Result:
    trace, why, last = script.trace, script.why, outcomes[-1]
    notes = [note for outcome in outcomes for note in outcome.notes] + [NO_INFERENCE]
    notes += refused_parts(trace)
    notes += [f"{each['name']} in the script: {each['evidence']}" for each in trace.facts.get("hazards", [])]
    found, names = [outcome.levels for outcome in outcomes], [part.name for part in script.parts]
    decided = {name: _level(name, found, names) for name in LEVELS}
    # Decided all the same: level 2 leans on the checks of level 1.
    decided.update((name, not_run(name, NOT_ASKED)) for name in ("function", "float32") if name not in levels)
    return Result(
        levels=decided,
        float32_only=why if "function" in levels else "",
        reference={**trace.facts, "producer": trace.producer},
        candidate={**last.candidate, "producer": {"package": "torch_ddp"}},
        unjudged=[f"level function: {why}"] if script.shadow is None and "function" in levels else [],
        pairs=last.pairs,
        notes=list(dict.fromkeys(notes)),
        closer=last.looked.closer,
        losses=last.looked.losses,
    )


def _shadow(trace: Trace) -> tuple[Trace | None, str]:
    try:
        shadow = Trace(Path(trace.directory) / SHADOW)
        # A shadow that stopped early judges nothing: half a recording would pass unseen.
        if set(trace.step_numbers) <= set(shadow.step_numbers):
            return shadow, ""
    except MissingError:
        pass
    except TraceError as error:
        return None, f"its float64 shadow is refused: {error}"
    of_torch = str(trace.producer.get("framework", "")).startswith("torch")
    make = (
        "record it again with --shadow" if of_torch else "make it with python -m tf_towers.shadow, where TensorFlow is"
    )
    reason = f"the trace has no float64 shadow: {make}"
    with contextlib.suppress(OSError, ValueError, KeyError):
        # A shadow that was refused leaves its reason beside the trace.
        told = read_json(str(Path(trace.directory) / SHADOW_FILE))
        known = told.get("reason") if isinstance(told, dict) else None
        reason = known if known and isinstance(known, str) else reason
    return None, reason


def _level(name: str, found: list[dict[str, Level]], parts: list[str]) -> Level:
    levels = [each[name] for each in found if name in each]
    names = [part for part, each in zip(parts, found, strict=True) if name in each]
    return together(levels, names) if levels else not_run(name, NOT_DECIDED[name])


def _left(part: Part) -> list[str]:
    return [f"recorded, but not replayed: {', '.join(sorted(part.left))}"] if part.left else []


def here() -> list[str]:
    """Returns the folders where a port's modules are looked for: the current one."""
    return [os.getcwd()]
