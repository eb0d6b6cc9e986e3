"""Tells by what their layers give in the forward pass which variables belong together, where gradients cannot.

Behind a bug no gradient is the other side's, and in front of it none is either, for gradients come from behind. The outputs
in front of it are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice

import numpy as np

from parity.experiment.mapping.by_graph import with_maps_of_graph
from parity.locate.downstream import readers
from parity.locate.matching import TOLERANCE, Pass, partners, reach
from parity.locate.op_kinds import same
from parity.mapping import Draft, Variable
from parity.mapping.by_gradients import Gradients
from parity.mapping.guesses import BY_LIKENESS, EQUAL, NEAR, Guess, Numbers
from parity.mapping.units import Unit
from parity.trace import ForwardOp

LIKELY = 1e-4  # said of a pair whose outputs are equal and whose gradients are not: near, and yet not verified
DEEPER = 0.02  # for every op between them and what reads the weights: about as much as half of a name
# Outputs do not show a layout: of several that of the nearest gradient, which has to weigh more than which is usual.
OF_LAYOUT = 1e-3
STATISTIC = "statistic"  # the kind of a moving mean or variance
PLAIN = ""  # the layout of what is no flattened map
MOST_OPEN = 256  # variables of which pairs are looked for: 32,640 pairs
MOST_EXCHANGED = 24  # pairs of layers, a forward pass of the port each
FURTHER = 4  # ops behind the one that reads a variable that may belong to its layer: the rest of a norm, an activation


class Outputs(Numbers):
    """Measures pairs by gradients, and where these are not equal by whether the layers give the same.

    Of what several pairs give alike, the pair counts whose ops give it nearest to where they read the weights: behind them
    branches meet, and what is computed of all of them is the same for each.

    Args:
      gradients: of both sides, from one state.
      reference, candidate: their forward passes from that state.
      draft: of what may belong together. What a gradient proves there is not asked of outputs, which may be alike.
    """

    def __init__(self, gradients: Gradients, reference: Pass, candidate: Pass, draft: Draft | None = None) -> None:
        self._gradients = gradients
        self._proven, self._taken = _equal(draft, gradients) if draft is not None else (set(), set())
        self._same = partners(reference, candidate, TOLERANCE)
        self._depths = _Depths(reference.ops), _Depths(candidate.ops)
        self._known: dict[tuple[str, tuple[str, ...]], int | None] = {}
        # Single numbers, as a loss, agree by too much chance to prove a pair.
        sizes = {number: math.prod(op.shape) for number, op in enumerate(reference.ops)}
        self._same = {number: found for number, found in self._same.items() if sizes[number] > 1}

    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        """Returns how far apart the two are, 0 equal to 1 unrelated; None where nothing is known."""
        apart = self._gradients(variable, unit, text)
        # Gradients that are equal prove more than outputs do: those are asked only where gradients say little.
        if apart is not None and apart > EQUAL and (variable.name in self._proven or unit in self._taken):
            return apart
        if apart is None or apart > LIKELY:
            depth = self.depth(variable.name, unit.names)
            if depth is not None:
                return min(LIKELY + DEEPER * depth, NEAR - OF_LAYOUT) + OF_LAYOUT * min(apart or 0.0, 1.0)
            if apart is not None and apart < NEAR and self._is_given(variable.name):
                return NEAR - OF_LAYOUT + OF_LAYOUT * apart  # near is not equal, which other outputs are
        return apart

    def _is_given(self, name: str) -> bool:
        """Whether the candidate gives anywhere what the layer of one of the reference's variables does."""
        return any(number in self._same for number in self._depths[0]([name]))

    def depth(self, name: str, names: tuple[str, ...]) -> int | None:
        """How many ops behind those that read them, of both sides together, the same is given; None where it never is."""
        if (name, names) not in self._known:
            ours, theirs = self._depths[0]([name]), self._depths[1](names)
            found = ((depth, each) for number, depth in ours.items() for each in self._same.get(number, ()))
            both = [depth + theirs[each] for depth, each in found if each in theirs]
            self._known[name, names] = min(both, default=None)
        return self._known[name, names]


def _equal(draft: Draft, gradients: Gradients) -> tuple[set[str], set[Unit]]:
    """The variables and the units of a draft that have an equal gradient in what they may be."""
    names, found = set[str](), set[Unit]()
    sharing: dict[int, list[Guess]] = {}
    for guess in draft.guesses:
        sharing.setdefault(id(guess.options), []).append(guess)
    for guesses in sharing.values():  # what is asked of all of them is asked of it once
        variables = [guess.variable for guess in guesses]
        by_text: dict[str, list[Unit]] = {}
        for unit, text in guesses[0].options:
            by_text.setdefault(text, []).append(unit)
        for text, units in by_text.items():
            rows, columns = np.nonzero(gradients.of_all(variables, units, text) <= EQUAL)
            names.update(variables[row].name for row in rows)
            found.update(units[column] for column in columns)
    return names, found


class Proven(Numbers):
    """Says of pairs that their outputs prove that they belong together.

    Those from tied weights prove the partner: nothing else of either side gives that output as near to its weights, though
    all hold the same numbers. Those from weights as they are prove that it has them, and in which layout.

    Args:
      draft: of which pairs.
      gradients: of both sides, which prove as much.
      tied: outputs from a state in which no guess counts.
      own: those from the weights as they are, under the draft.
    """

    def __init__(self, draft: Draft, gradients: Gradients, tied: Outputs, own: Outputs) -> None:
        self._gradients, self._tied, self._own = gradients, tied, own
        self._units = {guess.variable.name: {unit for unit, _ in guess.options} for guess in draft.guesses}

    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        """Returns 0 where it is proven, None where they give the same and others may; else what gradients say."""
        apart = self._gradients(variable, unit, text)
        if (apart is not None and apart <= EQUAL) or self._own.depth(variable.name, unit.names) is None:
            return apart
        nearest = self._tied.depth(variable.name, unit.names)
        if nearest is None:
            return apart
        # Every other unit for this variable, and this unit for every other variable.
        rivals = [self._tied.depth(variable.name, each.names) for each in self._units[variable.name] - {unit}]
        rivals += [
            self._tied.depth(name, unit.names)
            for name, units in self._units.items()
            if name != variable.name and unit in units
        ]
        return 0.0 if all(depth is None or depth > nearest for depth in rivals) else None


class _Depths:
    # How far behind the ops that read some weights each op is that may belong to their layer.
    def __init__(self, ops: Sequence[ForwardOp]) -> None:
        self._ops, self._after = ops, readers(ops)
        self._known: dict[tuple[str, ...], dict[int, int]] = {}

    def __call__(self, names: Sequence[str]) -> dict[int, int]:
        key = tuple(names)
        if key not in self._known:
            self._known[key] = self._found(set(names))
        return self._known[key]

    def _found(self, names: set[str]) -> dict[int, int]:
        depths = {number: 0 for number, op in enumerate(self._ops) if names & set(op.weights)}
        # Invariant: `last` holds the ops that are `depth - 1` behind those that read the weights.
        last = [*depths]
        for depth in range(1, FURTHER + 1):
            last = [
                each for number in last for each in self._after[number] if each not in depths and self._belongs(each)
            ]
            depths.update(dict.fromkeys(last, depth))
        return depths

    def _belongs(self, number: int) -> bool:
        op = self._ops[number]
        return not op.weights or same("add", op.kind)  # a bias, a norm's beta


def most_reached(draft: Draft, gradients: Numbers, passes: Callable[[Draft], tuple[Pass, Pass] | None]) -> Draft:
    """Returns the draft with the layouts of flattened maps under which the candidate gives most of what the reference does.

    A state in which no guess counts does not show them, in front of weights that are all equal a gradient agrees in every
    layout, and behind a bug in none; the outputs between a layer and a bug show them, from weights as they are. Where
    under none of them the layer gives the same of the same, the bug is there: then its kernel is taken as it is.

    Args:
      draft: with guesses of layouts that no number has verified, or without.
      gradients: of both sides, from a state in which no guess counts.
      passes: makes the forward passes of both sides under an assignment; None where they cannot be had.
    """
    made = passes(draft) if _open_layouts(draft, gradients) else None
    if made is not None:
        draft = with_maps_of_graph(draft, made[0].ops)
    for layer, layouts in _open_layouts(draft, gradients).items():
        tried = [_in_layout(draft, layer, layout) for layout in layouts]
        found = [_reached(passes(each), _names(each, layer)) for each in tried]
        counts = [count for count, _ in found]
        # Strictly more than the guess: of equals the one that names and shapes prefer stays.
        if max(counts) > counts[0]:
            draft = tried[counts.index(max(counts))]
        elif found[0][1] and PLAIN in layouts:
            draft = tried[layouts.index(PLAIN)]
        else:
            draft = tried[0]  # all of the layer: a bias that was guessed by itself lies as its kernel does
    return draft


def exchanged(draft: Draft, tied: Outputs, passes: Callable[[Draft], tuple[Pass, Pass] | None]) -> Draft:
    """Returns the draft with layers exchanged that tied weights do not tell apart, where more outputs are the same then.

    Two layers that read the same give the same while their weights are tied. From weights as they are each gives its own,
    and what is computed of both is the other side's under one of the two assignments only.

    Args:
      draft: with guesses.
      tied: outputs from a state in which no guess counts.
      passes: makes the forward passes of both sides under an assignment, from weights as they are.
    """
    pairs = list(islice(_exchangeable(draft, tied), MOST_EXCHANGED))
    most = outputs_shared(passes(draft)) if pairs else 0
    for one, other in pairs:
        tried = _with_exchanged(draft, one, other)
        count = outputs_shared(passes(tried))
        if count > most:
            draft, most = tried, count
    return draft


def outputs_shared(passes: tuple[Pass, Pass] | None) -> int:
    """Returns how many outputs of the reference the candidate has too; 0 where the passes cannot be had."""
    return len(reach(*passes).reference) if passes is not None else 0


def _exchangeable(draft: Draft, tied: Outputs) -> Iterator[tuple[str, str]]:
    """Names of two variables whose units may be exchanged, with what they give from tied weights no farther off."""
    open_ = [guess for guess in draft.guesses if not guess.verified and len(guess.variable.shape) > 1][:MOST_OPEN]
    units = {id(guess.options): {unit for unit, _ in guess.options} for guess in open_}
    for one, other in combinations(open_, 2):
        crossing = other.unit in units[id(one.options)] and one.unit in units[id(other.options)]
        if not crossing or one.unit == other.unit or one.why == other.why == BY_LIKENESS:
            continue
        own = [tied.depth(each.variable.name, each.unit.names) for each in (one, other)]
        crossed = tied.depth(one.variable.name, other.unit.names), tied.depth(other.variable.name, one.unit.names)
        depths = [each for each in (*own, *crossed) if each is not None]
        if len(depths) == 4 and sum(depths[2:]) <= sum(depths[:2]):
            yield one.variable.name, other.variable.name


def _becomes(guess: Guess, unit: Unit, layout: str) -> str:
    """By which transform a variable may become a unit, in a layout if there is one; "" where it may not."""
    texts = [text for each, text in guess.options if each == unit]
    return next((text for text in texts if _layout(text) == layout), texts[0] if texts else "")


def _with_exchanged(draft: Draft, one: str, other: str) -> Draft:
    """The draft with all of two layers exchanged that may be."""
    by_label = {guess.unit.label: guess for guess in draft.guesses}
    layers = {_layer(guess): guess for guess in draft.guesses if guess.variable.name in (one, other)}
    if len(layers) < 2:
        return draft
    first, second = layers
    partners = {first: second, second: first}
    guesses = []
    for guess in draft.guesses:
        layer, _, role = guess.unit.label.rpartition(".")
        partner = by_label.get(f"{partners[layer]}.{role}") if layer in partners else None
        text = _becomes(guess, partner.unit, _layout(partner.text)) if partner is not None else ""
        if partner is not None and text and _becomes(partner, guess.unit, _layout(guess.text)):
            guess = guess._replace(unit=partner.unit, text=text)
        guesses.append(guess)
    return draft._replace(guesses=tuple(guesses))


def statistics_as_their_layers(draft: Draft) -> Draft:
    """Returns the draft with the statistics of every layer in the layout of the weights that are beside them.

    Nothing of a training step hangs on a moving mean, and neither gradients nor outputs show how it lies.

    Args:
      draft: with guesses.
    """
    layouts: dict[str, set[str]] = {}
    for guess in draft.guesses:
        if guess.variable.kind != STATISTIC and len(_texts(guess)) > 1:
            layouts.setdefault(_layer(guess), set()).add(_layout(guess.text))
    guesses = []
    for guess in draft.guesses:
        wanted = layouts.get(_layer(guess), set()) if guess.variable.kind == STATISTIC else set()
        fits = [text for text in _texts(guess) if {_layout(text)} == wanted]
        guesses.append(guess._replace(text=fits[0]) if fits and guess.text not in fits else guess)
    return draft._replace(guesses=tuple(guesses))


def _in_several(guess: Guess, gradients: Numbers) -> bool:
    """Whether a variable's gradient is the weight's in more than one layout of a flattened map."""
    distances = {_layout(text): gradients(guess.variable, guess.unit, text) for text in _texts(guess)}
    return len([each for each in distances.values() if each is not None and each <= EQUAL]) > 1


def _names(draft: Draft, layer: str) -> set[str]:
    return {name for guess in draft.guesses if _layer(guess) == layer for name in guess.unit.names}


def _reached(found: tuple[Pass, Pass] | None, names: set[str]) -> tuple[int, bool]:
    """Of how many of the candidate's outputs the reference has the numbers, and whether a layer gives others of the same.

    At once, for the next pass replaces this one.
    """
    if found is None:
        return 0, False
    known, ops = reach(*found).candidate, found[1].ops
    # The first that reads them is the layer: what reads them behind it may be a penalty on the loss.
    layer = next((number for number, op in enumerate(ops) if names & set(op.weights) and op.inputs), None)
    apart = layer is not None and layer not in known and all(each in known for each in ops[layer].inputs)
    return len(known), apart


def _open_layouts(draft: Draft, gradients: Numbers) -> dict[str, list[str]]:
    """By layer of the candidate the flattened layouts that are open for it, the one that is guessed first."""
    layers: dict[str, list[str]] = {}
    for guess in draft.guesses:
        # No output shows how a statistic lies: see `statistics_as_their_layers`.
        if guess.variable.kind != STATISTIC and (not guess.verified or _in_several(guess, gradients)):
            found = [_layout(text) for text in (guess.text, *_texts(guess))]
            layers.setdefault(_layer(guess), []).extend(found)
    # A bias lies as its kernel does, and is guessed by itself: what the kernel is guessed to be is tried first.
    kernels = {_layer(guess): _layout(guess.text) for guess in draft.guesses if len(guess.variable.shape) > 1}
    unique = {layer: list(dict.fromkeys([kernels.get(layer, found[0]), *found])) for layer, found in layers.items()}
    return {layer: found for layer, found in unique.items() if len(found) > 1}


def _in_layout(draft: Draft, layer: str, layout: str) -> Draft:
    guesses = []
    for guess in draft.guesses:
        fits = [text for text in _texts(guess) if _layout(text) == layout]
        own = _layer(guess) == layer
        guesses.append(guess._replace(text=fits[0]) if own and fits and guess.text not in fits else guess)
    return draft._replace(guesses=tuple(guesses))


def _layer(guess: Guess) -> str:
    return guess.unit.label.rpartition(".")[0]


def _texts(guess: Guess) -> list[str]:
    return [text for unit, text in guess.options if unit == guess.unit]


def _layout(text: str) -> str:
    return next((part for part in text.split(" | ") if "flatten_hwc" in part), PLAIN)
