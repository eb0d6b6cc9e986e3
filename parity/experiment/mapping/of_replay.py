"""Lets the gradients of a recorded step decide what names and shapes leave open between a script and its port."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parity.experiment.replay.script import Part
from parity.experiment.spec import MAPPING, RunSpec, Side, silent, start_run
from parity.mapping import Draft
from parity.mapping.by_gradients import TRIALS, by_trial
from parity.mapping.states import translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join
from parity.trace import Trace, parse_key, select
from parity.trace.arrays import Tensors

IN_FLOAT32 = 1e-3  # so far apart gradients are taken for equal that were recorded in float32
# Of a program, ten seconds each: a user writes the few lines that names and shapes leave sooner than many take.
LAUNCHES = 3
STATE_TRIED = frozenset(["var", "stat"])
# A program that clips by its own hand shows no gradients between combining and clipping; then a tower's decide.
ASKED = ("grad", "tower_grad")
FIRST = "0"  # tower


class Trying(NamedTuple):
    """A port that can be asked for the gradients of a recorded step.

    Fields:
      part: what was recorded.
      shadow: its float64 shadow, or None.
      side: the port's process.
      prepare: builds the port in float64 for what was recorded; answers with the build.
      joined: makes names and layouts of a draft's mapping.
      out: folder for what is written.
      at_once: so many assignments one run tries, a step for each: where a run is a launch, it costs more than its steps.
    """

    part: Part
    shadow: Trace | None
    side: Side
    prepare: Callable[[dict[str, Any]], dict[str, Any]]
    joined: Callable[[Draft], Join]
    out: Path
    at_once: int = 1


def decide_by_recorded(draft: Draft, trying: Trying) -> Draft:
    """Returns the draft with its guesses decided, or verified, by the gradients of recorded steps.

    The first step decides; where its gradients do not say, as they do not of weights behind a layer that begins with zeros,
    the last one does, by when weights that began as equal numbers have moved apart.
    """
    part = trying.part
    prepared = trying.prepare(part.training(draft.mapping()))["prepared"]
    first = _by_step(draft, trying, prepared, part.steps[0])
    if not first.agrees or not first.undecided or len(part.steps) == 1:
        return first
    # Weights that begin as equal numbers have the same gradients at first, and have moved apart in the end.
    last = _by_step(first, trying, prepared, part.steps[-1])
    return last.with_verdicts_of(first) if last.agrees else first


def _by_step(draft: Draft, trying: Trying, prepared: str, number: int) -> Draft:
    source = trying.shadow or trying.part.trace
    known = _by_quantity(trying.part.tensors(number, source.step(number)))
    found: dict[str, dict[str, Tensors]] = {}

    def gradients_of(tried: Draft, left: Sequence[Draft]) -> dict[str, Tensors]:
        name = _name(tried)
        if name not in found:
            chosen = [tried, *(each for each in left if _name(each) not in found)][: trying.at_once]
            gradients = _gradients(chosen, trying, prepared, number)
            found.update((_name(each), own) for each, own in zip(chosen, gradients, strict=True))
        return found[name]

    trials = TRIALS if trying.at_once == 1 else LAUNCHES * trying.at_once
    tolerance = 0.0 if trying.shadow else IN_FLOAT32
    for quantity in ASKED:

        def shown(tried: Draft, left: Sequence[Draft], quantity: str = quantity) -> Tensors:
            return gradients_of(tried, left)[quantity]

        decided = by_trial(draft, known[quantity], shown, tolerance, trials)
        if any(guess.verified is not None for guess in decided.guesses):
            return decided
    return draft


def _by_quantity(tensors: Tensors) -> dict[str, Tensors]:
    """Gradients of a step by quantity and name, of a tower those of the first."""
    keys = [(parse_key(text), value) for text, value in tensors.items()]
    return {
        quantity: {key.name: value for key, value in keys if key.quantity == quantity and key.tower in ("", FIRST)}
        for quantity in ASKED
    }


def _name(draft: Draft) -> str:
    return repr(draft.mapping().texts())


def _gradients(drafts: Sequence[Draft], trying: Trying, prepared: str, number: int) -> list[dict[str, Tensors]]:
    """Returns the gradients of one recorded step under some assignments, by a run with a step for each."""
    part, out = trying.part, trying.out / MAPPING
    joins = [trying.joined(draft) for draft in drafts]
    # Gradients need no slots, whose names the trial's optimizer does not have.
    state = select(part.before(number), *STATE_TRIED)
    states = [translated(join, state) for join in joins]
    batches = [translated_batch(join, part.batch(number)) for join in joins]
    # The numbers of other steps, where there are several: a program that is launched makes one after the other.
    steps = [number] if len(drafts) == 1 else part.steps[: len(drafts)]
    spec = RunSpec(
        MAPPING,
        "float64",
        write_states(out / "feeds", zip(steps, batches, strict=True)),
        write_init(out / "start", states[0]),
        write_states(out / "states", zip(steps, states, strict=True)) if len(drafts) > 1 else None,
        ASKED,
        steps,
    )
    run = start_run(trying.side, silent, MAPPING, spec, out / "torch", prepared=prepared).result()
    files = [run.step(step) for step in steps]
    return [_by_quantity({text: file.read(text) for text in file.names(*ASKED)}) for file in files]
