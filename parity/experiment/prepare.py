"""Gets both sides of a case ready: joins their variables, and writes what they are fed and where they start."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from parity.case import Case, as_declared
from parity.experiment.mapping.by_numbers import Ready, decide_by_numbers
from parity.experiment.mapping.of_slots import with_slots_by_numbers
from parity.experiment.recording import Setup, SidePaths
from parity.experiment.sides.tensorflow_side import ReferenceSide, TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import Progress, silent
from parity.experiment.stepwise.sizes import Sizes, sizes_of
from parity.judge.port_values import Written, written_into, written_notes
from parity.mapping import (
    Draft,
    Mapping,
    MappingError,
    Structure,
    as_far_as_it_goes,
    draft_mapping,
    mapping_notes,
    require_total,
    variables_of,
)
from parity.mapping.states import read_all, translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join, Renaming
from parity.trace import Trace, quantity_of, trace_name
from parity.worker.launch import Sides
from parity.worker.reaper import temporary_folder

NO_MODE = (
    "inference was not judged, for the tower has no inference mode: write def tower(..., training=True), and return with "
    "training=False what the model computes after training"
)
NOT_BLESSED = "inference was not judged, for the golden trace has none of it: bless it again"


class Prepared(NamedTuple):
    """Both sides, ready to run.

    Fields:
      playing: the sides and what they are fed.
      join: names and layouts of both sides.
      draft: the mapping, and what of it is guessed.
      initial_slots: what each side's optimizer itself puts into its slots, as in `Recorded`.
      written: buffers and constants of the port that are overwritten, likewise.
      notes: what the report is to say of what cannot be judged.
      structure: what one side holds and the other does not.
      question: the error that asks for lines of the mapping, where it is not total; None where it is.
      sizes: how large the reference is.
    """

    playing: Setup
    join: Join
    draft: Draft
    initial_slots: tuple[dict[str, list[float]], dict[str, list[float]]]
    written: list[Written]
    notes: list[str]
    structure: Structure
    question: MappingError | None
    sizes: Sizes


def prepare_both(case: Case, reference: ReferenceSide, candidate: TorchSide, out: Path, tick: Progress) -> Prepared:
    """Has both sides get ready for float32, joins their variables, and writes feeds and start for each.

    Args:
      case: what is run.
      reference: plays the reference.
      candidate: plays the candidate; it is told which of its parameters decay, and which optimizer takes which.
      out: folder for feeds and start.
      tick: told how far it is.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables do not join.
    """
    # The port is built while the batches are made; the graph waits for what these consist of.
    feeding = reference.batches(out / "feeds" / "tf")
    tick("start TensorFlow and torch", 0, 1)
    preparing = candidate.prepare("float32")
    inputs = feeding.result()
    tf, torch = reference.prepare("float32", inputs).result(), preparing.result()
    tick("start TensorFlow and torch", 1, 1)
    asked = draft_mapping(variables_of(tf["variables"]), variables_of(torch["variables"]), case.mapping)
    # A mapping that is not total is not refused yet: where the sides differ, what is missing explains it.
    draft, structure = as_far_as_it_goes(asked)
    require_total(draft)
    plain = draft

    def joined(mapping: Mapping) -> Join:
        return _joined(case, candidate, mapping, tf)

    join = joined(draft.mapping())
    # A micro-batch is the least part within which the order of examples is free.
    steps, shards = list(range(case.steps)), case.towers * case.micro_batches
    feeds = _write_feeds(out, join, steps)
    started, initial = out / "start" / "tf", reference.initialize(out / "start" / "tf")
    ready = Ready(reference, inputs, candidate, joined, started, feeds, out, torch["own_values"])
    # Deciding by numbers costs a step of each side, so that names and shapes come first.
    if any(guess.open for guess in draft.guesses):
        tick("find out what belongs together", 0, 1)
        draft = decide_by_numbers(draft, ready)
        if structure and not any(guess.verified for guess in draft.guesses):
            draft = plain  # of gradients that are all others nothing can be told
        join = joined(draft.mapping())
        tick("find out what belongs together", 1, 1)
    mapping, own = draft.mapping(), candidate.prepare("float32").result()
    join = with_slots_by_numbers(
        join,
        ready,
        (tf["facts"].get("slots") or (), own["facts"].get("slots") or ()),
        str((own["facts"].get("optimizer") or {}).get("name", "")),
    )
    start = SidePaths(started, write_init(out / "start" / "torch", translated(join, read_all(Trace(started).init()))))
    # What a checkpoint holds is not how the reference starts a buffer.
    known = {} if case.init.startswith("checkpoint") else initial
    written = written_into(mapping, join, known, own["own_values"])
    inference = ("eval",) if tf.get("inference") else ()
    uneven, racing = case.tf.uneven or "refuse", _racing(tf["facts"])
    return Prepared(
        Setup(reference, candidate, feeds, start, steps, shards, out, inputs, inference, uneven, racing),
        join,
        draft,
        (_slots(initial), dict(own["initial_slots"])),
        written,
        [
            *mapping_notes(draft),
            *written_notes(written, mapping.kept),
            *_slot_notes(join),
            *([] if inference else [_no_inference(tf)]),
        ],
        structure,
        _question(asked),
        sizes_of(tf["variables"], initial, case),
    )


def map_case(case: Case, sides: Sides, tick: Progress = silent) -> tuple[Mapping, list[str]]:
    """Returns the mapping of a case, and what a report says of it.

    Args:
      case: a validated case.
      sides: started processes.
      tick: told how far it is: what, done, total.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables do not join.
    """
    with temporary_folder(prefix="parity-map-") as folder:
        out = Path(folder)
        reference = TensorFlowSide(as_declared(case), sides, out / "tf", tick)
        prepared = prepare_both(case, reference, TorchSide(case, sides, out / "torch", tick), out, tick)
        if prepared.question is not None:
            raise prepared.question
        return prepared.draft.mapping(), mapping_notes(prepared.draft)


def _question(draft: Draft) -> MappingError | None:
    try:
        require_total(draft)
    except MappingError as error:
        return error
    return None


def _joined(case: Case, candidate: TorchSide, mapping: Mapping, prepared: dict[str, Any]) -> Join:
    # Before the port is built for good: patterns name the reference's variables, the optimizer takes the port's.
    _choose_what_decays(case, candidate, mapping)
    if case.optimizers:
        _give_to_parts(case, candidate, mapping, prepared["variables"])
    names = {str(quantity): Renaming(quantity, entries) for quantity, entries in case.mapping_of.items()}
    slots = candidate.prepare("float32").result()["facts"]["slots"]
    return Join(mapping, names, slots, prepared["facts"].get("slots") or ())


def _racing(facts: dict[str, Any]) -> frozenset[str]:
    statistics, averages = facts.get("racing_statistics", ()), facts.get("racing_averages", ())
    return frozenset([trace_name("stat", name) for name in statistics] + [trace_name("ema", name) for name in averages])


def _choose_what_decays(case: Case, candidate: TorchSide, mapping: Mapping) -> None:
    decay = case.optimizer.weight_decay if case.optimizer else None
    if decay is not None and decay.only:
        chosen = [pair for pair in mapping.pairs if re.search(decay.only, pair.reference)]
        candidate.decay_only([*dict.fromkeys(name for pair in chosen for name in pair.candidate)])


def _give_to_parts(case: Case, candidate: TorchSide, mapping: Mapping, variables: dict[str, Any]) -> None:
    # Statistics belong to no optimizer.
    weights = [pair for pair in mapping.pairs if variables[pair.reference]["kind"] == "weight"]
    taken = {
        name: [
            *dict.fromkeys(
                own for pair in weights if re.search(part.only or "", pair.reference) for own in pair.candidate
            )
        ]
        for name, part in case.optimizers.items()
    }
    candidate.give_to_parts(taken)


def _write_feeds(out: Path, join: Join, steps: list[int]) -> SidePaths:
    tf = out / "feeds" / "tf"
    trace = Trace(tf)
    batches = ((step, translated_batch(join, read_all(trace.step(step)))) for step in steps)
    return SidePaths(tf, write_states(out / "feeds" / "torch", batches))


def _no_inference(prepared: dict[str, Any]) -> str:
    return NO_MODE if "inference" in prepared else NOT_BLESSED


def _slot_notes(join: Join) -> list[str]:
    alone = len(join.joined_slots) == 1  # by numbers all are joined, and there are two at least
    why = "each is the only one that no name matches" if alone else "behind a first step they hold the same numbers"
    told = "the slot {} of the reference was taken for {} of the port: {}"
    return [told.format(one, other, why) for one, other in join.joined_slots.items()]


def _slots(initial: dict[str, list[float]]) -> dict[str, list[float]]:
    return {text: values for text, values in initial.items() if quantity_of(text) != "stat"}
