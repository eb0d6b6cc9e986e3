"""Lets numbers decide what names and shapes leave open: both sides make one step from a state that no guess can change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity.experiment.mapping.by_graph import in_layout_of_graph
from parity.experiment.mapping.by_neighbours import by_neighbours
from parity.experiment.mapping.by_outputs import (
    Outputs,
    Proven,
    exchanged,
    most_reached,
    outputs_shared,
    statistics_as_their_layers,
)
from parity.experiment.mapping.of_traces import QUANTITY_OF_KIND
from parity.experiment.recording import SidePaths
from parity.experiment.sides.tensorflow_side import ReferenceSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import MAPPING, Capability, RunSpec
from parity.judge.port_values import Values, written_into
from parity.locate.matching import Pass
from parity.mapping import Draft, Mapping
from parity.mapping.by_gradients import Gradients, by_trial, tied_values
from parity.mapping.states import read_all, write_init, write_states
from parity.mapping.trace_map import Join
from parity.trace import Forward, TensorFile, Trace, parse_key
from parity.trace.arrays import Array, Tensors
from parity.worker.failures import SideFailed

COMPARED_QUANTITIES = ("grad", "stat")
FIRST_TOWER = "0"


class Ready(NamedTuple):
    """Both sides, ready to make a step.

    Fields:
      reference: live, or a golden trace.
      inputs: what it is prepared with.
      candidate: the port's.
      joined: makes the names and layouts of a mapping, and tells the candidate of them.
      start: trace whose init is the state that everything starts from, the reference's.
      feeds: traces of the batches.
      out: folder for what is written.
      own: trace name of a frozen parameter of the port to the elements that it starts with, as of `written_into`.
    """

    reference: ReferenceSide
    inputs: Any
    candidate: TorchSide
    joined: Callable[[Mapping], Join]
    start: Path
    feeds: SidePaths
    out: Path
    own: Values


def decide_by_numbers(draft: Draft, ready: Ready) -> Draft:
    """Returns the draft with its guesses decided, or verified, by the gradients of the first step in float64."""
    return statistics_as_their_layers(_decided(draft, ready))


def _decided(draft: Draft, ready: Ready) -> Draft:
    state = read_all(Trace(ready.start).init())
    if Capability.RERUN not in ready.reference.capabilities:
        return _by_trial(draft, ready, state, "float64")
    ready.reference.prepare("float64", ready.inputs).result()
    kinds = {
        g.variable.name: "statistic" if g.variable.name in draft.frozen else g.variable.kind for g in draft.guesses
    }
    held = {name: f"{QUANTITY_OF_KIND[kind]}/{name}" for name, kind in kinds.items()}
    # Weights that may be taken for each other are set to equal numbers: no guess changes the step, and gradients tell
    # which is which.
    values = tied_values(draft.guesses, {name: state[text] for name, text in held.items()})
    tied = {**state, **{held[name]: value.astype(state[held[name]].dtype) for name, value in values.items()}}
    start = write_init(ready.out / "start" / MAPPING, tied)
    known = _moved_by_reference(ready, MAPPING, start)
    if not all(np.isfinite(value).all() for value in known.values()):  # the tower takes no such weights
        return _by_trial(draft, ready, state, MAPPING)
    own_passes, variants = _ForwardPasses(ready, state, "own"), []
    for variant in draft.variants():
        gradients = Gradients(known, _moved_by_candidate(variant, ready, tied))
        found = variant.by(gradients).with_reasons_since(draft)
        # Under a factor that all gradients have, a vector of a few elements says less than names do.
        multiples = None if found.agrees else gradients.of_one_factor(found)
        if multiples is not None:
            gradients, found = multiples, variant.by(multiples).with_reasons_since(draft)
        if found.agrees:
            return most_reached(found, gradients, own_passes)
        variants.append((found, variant, gradients))
    # None agrees: a bug is in the way. That with the most pairs proven goes on, to the outputs in front of the bug; of
    # several that under which both sides have the most outputs, for all gradients of a loss that is off are off.
    # Tied weights prove the partner, weights as they are the layout: equal numbers look alike in every layout.
    tied_passes = _ForwardPasses(ready, tied, "tied")
    proven = [sum(guess.verified is True for guess in found.guesses) for found, _, _ in variants]
    best = [each for each, count in zip(variants, proven, strict=True) if count == max(proven)]
    # And of those the one whose constants are the port's own: a bug elsewhere leaves these as they are.
    if len(best) > 1:
        best = [max(best, key=lambda each: (outputs_shared(own_passes(each[1])), -_other_constants(each[1], ready)))]
    found, variant, gradients = best[0]
    passes = tied_passes(variant)
    if passes is None:
        return found
    if any(len({unit for unit, _ in guess.options}) < len(guess.options) for guess in variant.guesses):
        variant = _in_layout_of_graph(variant, own_passes)
    outputs = Outputs(gradients, *passes, variant)
    guessed = by_neighbours(variant, outputs, (passes[0].ops, passes[1].ops))
    # Behind a map in another layout no output is the same, and that layers are exchanged shows in none; nor the other way
    # round.
    laid_out = most_reached(guessed.with_reasons_since(draft), gradients, own_passes)
    with_exchanges = exchanged(laid_out, outputs, own_passes)
    decided = laid_out
    if with_exchanges != laid_out:
        decided = most_reached(with_exchanges.with_reasons_since(draft), gradients, own_passes)
    # Once more under what was decided, for the proof has to be of that.
    final = own_passes(decided)
    if final is None:
        return decided
    return decided.checked(Proven(decided, gradients, outputs, Outputs(gradients, *final))).with_reasons_since(draft)


def _other_constants(draft: Draft, ready: Ready) -> int:
    """How many constants of a mapping are others than the port's own in their place."""
    mapping = draft.mapping()
    written = written_into(mapping, ready.joined(mapping), {}, ready.own)
    return sum(
        not np.array_equal(each.expected, each.own)
        for each in written
        if each.own is not None and each.expected is not None
    )


def _in_layout_of_graph(draft: Draft, passes: "_ForwardPasses") -> Draft:
    found = passes(draft)
    if found is None:
        return draft
    sides = [
        {parse_key(text).name: value for text, value in tensors.items() if parse_key(text).quantity == "var"}
        for tensors in (passes.state, passes.translated(draft))
    ]
    return in_layout_of_graph(draft, found, (sides[0], sides[1]))


class _ForwardPasses:
    """Makes both sides' pass of the first tower in the first step from one state, the reference's only once.

    Args:
      ready: both sides.
      state: the reference's that they start from.
      name: of the state, for what is written.
    """

    def __init__(self, ready: Ready, state: Tensors, name: str) -> None:
        self.state, self._ready, self._name = state, ready, f"{MAPPING}-{name}"
        self._reference: Pass | None = None

    def translated(self, draft: Draft) -> Tensors:
        """Returns the state in the candidate's names and layouts."""
        return self._ready.joined(draft.mapping()).write_all(self.state)

    def __call__(self, draft: Draft) -> tuple[Pass, Pass] | None:
        """Returns the passes under an assignment, None where one of them cannot be watched; the next replaces the second."""
        ready, theirs = self._ready, self.translated(draft)
        if Capability.RERUN not in ready.reference.capabilities:
            return None
        try:
            if self._reference is None:
                asked = RunSpec(
                    self._name, "float64", ready.feeds.tf, ready.start, self._states("tf", self.state), (), [0]
                )
                kept = ready.reference.forward(0, FIRST_TOWER, asked)
                if kept is None:
                    return None
                self._reference = _pass(kept)
            start = write_init(ready.out / "start" / f"{self._name}-torch", theirs)
            there = RunSpec(self._name, "float64", ready.feeds.torch, start, self._states("torch", theirs), (), [0])
            return self._reference, _pass(ready.candidate.forward(0, FIRST_TOWER, there))
        except SideFailed:
            return None

    def _states(self, side: str, tensors: Tensors) -> Path:
        return write_states(self._ready.out / "start" / f"{self._name}-{side}-states", [(0, tensors)])


def _pass(kept: Forward) -> Pass:
    return Pass(kept.ops, kept.value, kept.operand)


def moved_by_step(file: TensorFile) -> dict[str, Array]:
    """Returns by variable its combined gradient in a step, and of a statistic what the step made of it."""
    keys = [(parse_key(text), text) for text in file.names()]
    return {key.name: file.read(text) for key, text in keys if key.quantity in COMPARED_QUANTITIES}


def _by_trial(draft: Draft, ready: Ready, state: Tensors, run: str) -> Draft:
    known = _moved_by_reference(ready, run, ready.start)
    return by_trial(draft, known, lambda tried, _: _moved_by_candidate(tried, ready, state))


def _moved_by_reference(ready: Ready, run: str, start: Path) -> dict[str, Array]:
    asked = RunSpec(run, "float64", ready.feeds.tf, start, None, COMPARED_QUANTITIES, [0])
    return moved_by_step(ready.reference.run(asked).result().step(0))


def _moved_by_candidate(draft: Draft, ready: Ready, state: Tensors) -> dict[str, Array]:
    join = ready.joined(draft.mapping())
    start = write_init(ready.out / "start" / f"{MAPPING}-torch", join.write_all(state))
    asked = RunSpec(MAPPING, "float64", ready.feeds.torch, start, None, COMPARED_QUANTITIES, [0])
    made = ready.candidate.run(asked).result().step(0)
    if not any(made.keys("grad")):
        # A step of the port's own that combines gradients by hand shows none of them.
        made = ready.candidate.run_without_step(asked).step(0)
    return moved_by_step(made)
