"""Runs a recurrent layer again over its steps, by other rules: which of them gives what the candidate has?

For a layer whose inputs and weights are the same on both sides, and whose inside need not be seen. A rule is named only
where it gives an output of the candidate to rounding, and the reference's own rule, run the same way, one of the reference.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import same_in_order
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.recurrent_cells import (
    GATE_NAMES,
    Cell,
    Outputs,
    Way,
    Weights,
    over_steps,
    step_of,
    weights_of,
)
from parity.diagnose.layers.recurrent_outputs import begins_one, is_among, parts_of, shows
from parity.diagnose.ops.windows import MOST_MULTIPLICATIONS
from parity.judge.result import Cause
from parity.trace.arrays import Array

ZEROS = "zeros"
MOST_STATES = 8
MOST_ELEMENTS_OF_INPUT = 4_000_000
OF_A_STEP = 1e5  # as many multiplications as what a step takes beside its own
FIRST_STEPS = 3  # steps of one example, by which most rules are told to be others
ORDERS = {"LSTM": ("ijfo", "ifjo"), "GRU": ("rzh", "zrh"), "RNN": ("h",)}


class Recurrent(NamedTuple):
    """What is known of a recurrent layer.

    Fields:
      name: of the layer.
      variables: dict of name to value of its weights in the reference.
      sequences: dict of name to ``[example, step, in]``, what may go into it, the same on both sides.
      states: dict of name to ``[example, units]``, what may be its first state.
      lengths: dict of name to the integers, of each example, that may be its lengths.
      marks: dict of name to ``[example, step]`` of 0 and 1, what may say where states are emptied.
      reference, candidate: outputs of either side that may be the layer's.
      parted: what the first op of the reference and that of the candidate take and give at which the passes part.
      read: outputs of the candidate of two axes of which it makes others that are wrong.
    """

    name: str
    variables: Mapping[str, Array]
    sequences: Mapping[str, Array]
    states: Mapping[str, Array]
    lengths: Mapping[str, Array]
    marks: Mapping[str, Array]
    reference: Sequence[Array]
    candidate: Sequence[Array]
    parted: tuple[Sequence[Array], Sequence[Array]] = ((), ())
    read: Sequence[Array] = ()


class _Rule(NamedTuple):
    # How a layer is run: a cell, and by names what it takes.
    cell: Cell
    lengths: str
    reverse: str
    frozen: bool
    state: tuple[str, ...]
    marks: str
    emptied: bool
    turned: bool = False  # whether it takes the sequence from its end
    regrouped: bool = False  # whether examples and steps are cut apart the other way round


class _Worded(NamedTuple):
    # What it is called that a layer is run by another rule: a cause, which of its wordings, and what stands in that.
    name: str
    variant: str
    fields: Mapping[str, Any]


def other_recurrence(layer: Recurrent) -> Cause | None:
    """Returns the cause where a layer that is run by another rule gives what the candidate has, or None."""
    work = _Work(MOST_MULTIPLICATIONS)
    with np.errstate(all="ignore"):
        # Kinds by the shapes of the weights: four blocks of columns are an LSTM's, three a GRU's.
        for kind, weights in weights_of(layer.variables):
            for name, x in layer.sequences.items():
                if x.shape[2] != weights.of_input.shape[0] or x.size > MOST_ELEMENTS_OF_INPUT:
                    continue
                run = _Run(layer, weights, x, work)
                # Of all usual rules one must give the reference, or nothing is known of this layer.
                own = next((rule for rule in run.usual(kind) if run.gives(rule)), None)
                # Of what a graph reverses by itself in front of a layer, the sequence as it was may show more.
                cause = (run.other(own, name) or _other_places(run, own, name)) if own is not None else None
                if cause is not None:
                    return cause
    return None


def _other_places(run: "_Run", own: "_Rule", sequence: str) -> Cause | None:
    """The cause where the reference's rule gives what the candidate has from the same numbers in other places.

    What goes in counts as the same on both sides by its numbers alone: in which order they stand shows behind it.
    """
    base = run.outputs(own)
    for name, other in run.rearranged():
        if other.is_given(own, base):
            evidence = (
                "run over either from the same weights, to the last digits: from the one comes what the reference has, from "
                "the other what the candidate has"
            )
            return build_cause(
                "moved_values", "of a sequence", evidence=evidence, layer=run.layer, sequence=sequence, other=name
            )
    return None


class _Work:
    """How many multiplications are left."""

    def __init__(self, left: float) -> None:
        self.left = left


class _Run:
    """A layer with one kind of weights over one sequence."""

    def __init__(self, layer: Recurrent, weights: Weights, x: Array, work: _Work) -> None:
        self._layer, self._weights, self._x, self._work = layer, weights, x, work
        # (all outputs, last outputs) of the reference and of the candidate, as far as shapes allow.
        self._parts = tuple(
            parts_of(values, (*x.shape[:2], weights.units)) for values in (layer.reference, layer.candidate)
        )
        shape = (len(x), weights.units)  # of a state: (examples, units)
        fitting = {name: value for name, value in layer.states.items() if value.shape == shape}
        # Zeros first, the state that nearly every layer begins with.
        self._states = {ZEROS: np.zeros(shape), **dict(list(fitting.items())[:MOST_STATES])}
        # x: (examples, steps, in), examples first on both sides.
        steps = x.shape[1]
        self._lengths = {
            # A length of 0 is an example that is padding as a whole; one beyond the steps is none of this sequence.
            n: v
            for n, v in _with_derived(layer.lengths)
            if v.shape == (len(x),) and v.min() >= 0 and 0 < v.max() <= steps
        }
        # (examples, steps): where an episode ends, of a reinforcement learner.
        self._marks = {n: v for n, v in layer.marks.items() if v.shape == x.shape[:2]}

    def outputs(self, rule: _Rule, examples: int | None = None, steps: int | None = None) -> Outputs:
        """The layer's outputs by a rule, of the first examples and steps alone where these are given."""
        # (examples, steps, in), or, where the two axes were cut apart the other way round, the same numbers so read.
        x = self._x.reshape(*self._x.shape[1::-1], -1).swapaxes(0, 1) if rule.regrouped else self._x
        # From the end where it is turned; the first examples and steps alone where they are only to be compared.
        x = (x[:, ::-1] if rule.turned else x)[:examples, :steps]
        lengths, marks = self._lengths.get(rule.lengths), self._marks.get(rule.marks)
        if lengths is not None:
            lengths = np.minimum(lengths[:examples], x.shape[1])
        # What a state is multiplied by before a step: 0 where it is emptied, 1 where it stays.
        keeps = None if marks is None else (1.0 - marks if rule.emptied else marks)[:examples, :steps]
        state = tuple(
            self._state(*each)[:examples]
            for each in zip(rule.state, self._weights.sizes[-len(rule.state) :], strict=True)
        )
        size = self._weights.of_input.size + self._weights.of_state.size
        # Multiplications of all steps of these examples, and OF_A_STEP for what numpy itself takes: the budget is of
        # both.
        self._work.left -= x.shape[1] * (OF_A_STEP + len(x) * size)
        return over_steps(step_of(rule.cell, self._weights), x, state, Way(lengths, rule.reverse, rule.frozen, keeps))

    def _state(self, name: str, size: int) -> Array:
        state = self._states[name]
        # Of an LSTM whose output is projected the first of both has another size: it begins with zeros.
        return state if state.shape[1] == size else np.zeros((len(state), size))

    @property
    def layer(self) -> str:
        """The name of the layer."""
        return self._layer.name

    def rearranged(self) -> Iterator[tuple[str, "_Run"]]:
        """Yields the sequences that hold the same numbers in other places, with the layer over each."""
        numbers = np.sort(self._x, axis=None)
        work = _Work(MOST_MULTIPLICATIONS)  # of their own: what the other rules left says nothing of these
        for name, value in self._layer.sequences.items():
            other = value.shape == self._x.shape and not same_in_order(value, self._x)
            if other and same_in_order(np.sort(value, axis=None), numbers):
                yield name, _Run(self._layer, self._weights, value, work)

    def gives(self, rule: _Rule) -> bool:
        """Whether a rule gives one of the reference's outputs."""
        if not self._may_give(rule, 0):
            return False
        made = self.outputs(rule)
        return any(shows(made, value) for value in self._layer.reference)

    def is_given(self, rule: _Rule, base: Outputs) -> bool:
        """Whether a rule gives one of the candidate's outputs, which `base` is not."""
        return self._may_give(rule, 1) and self._is_given(self.outputs(rule), base)

    def _may_give(self, rule: _Rule, side: int) -> bool:
        """Whether one example by a rule allows that it gives an output of a side; none does once the work is done."""
        whole, lasts = self._parts[side]
        if self._work.left <= 0.0 or not (whole or lasts):
            return False
        # The first steps of a sequence depend on nothing later, so that three of them refute most rules.
        begun = [each[:1, :FIRST_STEPS] for each in whole]
        if not rule.reverse and whole and begins_one(self.outputs(rule, 1, FIRST_STEPS).steps, begun):
            return True
        # Backwards the first step comes last: then only all steps together show it.
        if not lasts and not rule.reverse:
            return False
        # One example over all its steps: the last output needs them.
        made = self.outputs(rule, 1)
        firsts = [each[:1] for each in lasts]
        return begins_one(made.steps, [each[:1] for each in whole]) or any(
            begins_one(each, firsts) for each in made.last
        )

    def usual(self, kind: str) -> Iterator[_Rule]:
        """The rules that a reference may have, the likeliest first."""
        # Zeros in both, or two of the states that are there, in either order: c and h of an LSTM.
        # An LSTM's state is (c, h); the others have h alone.
        pairs = [(ZEROS,) * 2, *permutations([name for name in self._states if name != ZEROS], 2)]
        if self._weights.projection is not None:  # a state of c's size is not looked for
            pairs = [(ZEROS, name) for name in self._states]
        states = pairs if kind == "LSTM" else [(name,) for name in self._states]
        for cell in _cells(kind):
            for state in states:
                for lengths in ("", *self._lengths):
                    for marks in ("", *self._marks):
                        for reverse in ("", "each"):
                            yield _Rule(cell, lengths, reverse, bool(lengths), state, marks, True)

    def other(self, own: _Rule, sequence: str) -> Cause | None:
        """The cause where a rule that differs in one thing gives what the candidate has."""
        base = self.outputs(own)
        for rule, cause in self._others(own):
            # What differs behind the ends only is not in the first steps: it cannot be told by them.
            if not _within(rule, own) and not self._may_give(rule, 1):
                continue
            made = self.outputs(rule)
            # Steps count there, and no state behind them.
            if rule == own._replace(frozen=rule.frozen):  # behind the ends a right port may have any state
                made = made._replace(last=())
            if self._is_read(made, base) if _within(rule, own) else self._is_given(made, base):
                evidence = (
                    f"run over {sequence} from the same weights, to the last digits: by the one rule it gives what the "
                    "reference has, by the other what the candidate has"
                )
                return build_cause(cause.name, cause.variant, evidence=evidence, layer=self._layer.name, **cause.fields)
        return None

    def _is_given(self, made: Outputs, base: Outputs) -> bool:
        return any(shows(made, value, base) for value in self._layer.candidate)

    def _is_read(self, made: Outputs, base: Outputs) -> bool:
        """Whether the candidate goes on with what it can take of these outputs alone."""
        taken = zip(_taken(made.steps, {}), _taken(base.steps, {}), strict=True)
        return any(
            one.any() and not is_among(one, [other]) and is_among(one, self._layer.read)
            for (_, one), (_, other) in taken  # zeros may be any first state's
        )

    def _others(self, own: _Rule) -> Iterator[tuple[_Rule, _Worded]]:
        for cell, cause in _other_cells(own.cell):
            yield own._replace(cell=cell), cause
        yield from self._other_ways(own)
        for state in self._other_states(own):
            words = {"other": " and ".join(state), "own": " and ".join(own.state)}
            yield own._replace(state=state), _Worded("initial_state", "", words)
        for marks, emptied in [("", True), *((name, flag) for name in self._marks for flag in (True, False))]:
            if (marks, emptied) != (own.marks, own.emptied):
                told = [_emptied(name, flag) for name, flag in ((marks, emptied), (own.marks, own.emptied))]
                words = {"other": told[0], "own": told[1]}
                yield own._replace(marks=marks, emptied=emptied), _Worded("initial_state", "emptied", words)

    def _other_ways(self, own: _Rule) -> Iterator[tuple[_Rule, _Worded]]:
        if own.lengths:
            behind = _Worded("sequence_lengths", "behind the end", {"own": own.lengths})
            # Without lengths a sequence is reversed as a whole.
            reverse = "all" if own.reverse else ""
            yield own._replace(lengths="", frozen=False, reverse=reverse), behind
            yield own._replace(frozen=False), behind
            if own.reverse:
                yield own._replace(reverse="all"), _Worded("sequence_lengths", "reversed", {})
        for name in self._lengths:
            if name != own.lengths:
                words = {"other": name, "own": f"at {own.lengths}" if own.lengths else "nowhere"}
                stops = _Worded("sequence_lengths", "stops", words)
                yield own._replace(lengths=name, frozen=True, reverse="each" if own.reverse else ""), stops
        ways = ("backwards", "forwards")
        words = {"other": ways[bool(own.reverse)], "own": ways[not own.reverse]}
        yield own._replace(reverse="" if own.reverse else "each"), _Worded("recurrent_rule", "direction", words)
        yield own._replace(turned=True), _Worded("reversed_input", "steps", {})
        # (examples, steps) read as (steps, examples): a reshape where a transpose was meant.
        yield own._replace(regrouped=True), _Worded("moved_values", "steps", {})

    def _other_states(self, own: _Rule) -> Iterator[tuple[str, ...]]:
        if self._weights.projection is not None:
            yield from ((own.state[0], name) for name in self._states if name != own.state[1])
            return
        if len(own.state) == 2:
            yield own.state[::-1]
            # c from one of the states that are there and h zeros, and the other way round.
            yield from ((one, ZEROS) for one in self._states)
            yield from ((ZEROS, one) for one in self._states)
        yield from ((name,) * len(own.state) for name in self._states if (name,) * len(own.state) != own.state)


def _with_derived(lengths: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yields lengths, and what graphs make of them, each once: a symbol more in front, and half of them in a pyramid."""
    seen: list[Array] = []
    for words, more, parts in (("{}", 0, 1), ("{} + 1", 1, 1), ("half of {}, rounded up", 1, 2), ("half of {}", 0, 2)):
        for name, value in lengths.items():
            derived = (value + more) // parts
            if not any(np.array_equal(derived, each) for each in seen):
                seen.append(derived)
                yield words.format(name), derived


def _within(rule: _Rule, own: _Rule) -> bool:
    """Whether two rules give the same up to the ends of the examples: behind them a right port may have anything."""
    return not own.reverse and rule == own._replace(lengths=rule.lengths, frozen=rule.frozen)


def _emptied(marks: str, emptied: bool) -> str:
    if not marks:
        return "never emptied"
    return f"emptied where {marks} is {1 if emptied else 0}"


def _cells(kind: str) -> Iterator[Cell]:
    for order in ORDERS[kind]:
        if kind == "LSTM":
            yield from (Cell(kind, order, bias) for bias in (1.0, 0.0))
        elif kind == "GRU":
            # TensorFlow 1's GRUCell resets before the product, torch and cuDNN behind it; all keep the old state by z.
            yield from (
                Cell(kind, order, reset=reset, update=update)
                for reset in ("before", "after")
                for update in ("old", "new")
            )
        else:
            yield from (Cell(kind, order, activation=activation) for activation in ("tanh", "relu"))


def _other_cells(own: Cell) -> Iterator[tuple[Cell, _Worded]]:
    """Yields cells that differ in one thing, with the cause that this would be."""
    if own.kind == "LSTM":
        for bias in (0.0, 1.0):
            amounts = {"other": bias, "own": own.forget_bias}
            if bias != own.forget_bias:
                yield own._replace(forget_bias=bias), _Worded("forget_bias", "amount", amounts)
        for gate in "ijo" if own.forget_bias else "":  # the bias that was meant for the forget gate
            added = {"own": own.forget_bias, "gate": GATE_NAMES[gate]}
            yield own._replace(biased=gate), _Worded("forget_bias", "gate", added)
    if own.kind == "GRU":
        reset = "after" if own.reset == "before" else "before"
        resets = _Worded("recurrent_rule", "reset", {"other": reset, "own": own.reset})
        # inside: whether the new state's bias is scaled by r with the rest of the state's product.
        for inside in (False, True) if reset == "after" else (False,):
            yield own._replace(reset=reset, bias_reset=inside), resets
        update = "new" if own.update == "old" else "old"
        updates = {"other": update, "own": own.update}
        yield own._replace(update=update), _Worded("recurrent_rule", "update gate", updates)
    activation = "relu" if own.activation == "tanh" else "tanh"
    functions = {"other": activation, "own": own.activation}
    yield own._replace(activation=activation), _Worded("recurrent_rule", "activation", functions)
    for letters in permutations(own.order) if len(own.order) > 1 else ():
        order = "".join(letters)
        names = [", ".join(GATE_NAMES[letter] for letter in each) for each in (order, own.order)]
        if order != own.order:
            yield own._replace(order=order), _Worded("gate_order", "blocks", {"other": names[0], "own": names[1]})


def other_last(layer: Recurrent) -> Cause | None:
    """Returns the cause where both sides take another step of a sequence that both have: the last for that at the length.

    Only where the passes part: elsewhere a right port may take the one step here and the other there, as the graph does.
    What both sides take there tells nothing.
    """
    for name, x in layer.sequences.items():
        # What is zero everywhere, as in a layer that has not begun, is any step.
        taken = {words: made for words, made in _taken(x, layer.lengths) if made.any()}
        seen = {words: [is_among(made, values) for values in layer.parted] for words, made in taken.items()}
        own = next((words for words, (here, there) in seen.items() if here and not there), None)
        other = next((words for words, (here, there) in seen.items() if there and not here), None)
        if own is not None and other is not None:
            evidence = "so they part there, to the last digits; the sequence is the same on both sides"
            cause, variant = ("reduction", "steps") if {own, other} <= OVER_ALL else ("sequence_lengths", "step")
            return build_cause(cause, variant, evidence=evidence, sequence=name, other=other, own=own)
    return None


OVER_ALL = frozenset(["the mean of all steps", "the largest of all steps", "the sum of all steps"])


def _taken(x: Array, lengths: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yields what may be taken of a sequence: words, and the values."""
    yield "the last step", x[:, -1]
    yield "the first step", x[:, 0]
    yield "the mean of all steps", x.mean(axis=1)
    yield "the largest of all steps", x.max(axis=1)
    yield "the sum of all steps", x.sum(axis=1)
    rows = np.arange(len(x))
    for feed, given in lengths.items():
        if given.shape == (len(x),) and given.min() > 0 and given.max() <= x.shape[1]:
            # Steps count from 0: the last is at lengths - 1, and lengths itself or lengths - 2 is off by one.
            yield f"the step {feed} - 1", x[rows, given - 1]
            yield f"the step {feed}", x[rows, np.minimum(given, x.shape[1] - 1)]
            yield f"the step {feed} - 2", x[rows, given - 2]
            within = (np.arange(x.shape[1]) < given[:, None])[..., None]
            yield f"the mean of the steps before {feed}", (x * within).sum(axis=1) / given[:, None]
