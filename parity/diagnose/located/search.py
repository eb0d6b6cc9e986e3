"""Looks for the cause of a difference at the layer that was found: by its outputs, and by computing it again otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parity.diagnose import Evidence, find_causes
from parity.diagnose.catalogue import Trait, build_cause, causes_with, is_exact, is_place_only
from parity.diagnose.edits.cause import is_done_later
from parity.diagnose.fitting import MOST_BY_ROUNDING
from parity.diagnose.layers.layer import extra_op, other_rule
from parity.diagnose.layers.products import Product, other_product
from parity.diagnose.layers.recurrent import other_last, other_recurrence
from parity.diagnose.layers.rules import Layer
from parity.diagnose.layers.windows import Windows, goes_in, other_windows
from parity.diagnose.located.loss_causes import causes_of_loss, feeds_of
from parity.diagnose.located.masks import cause_of_mask
from parity.diagnose.located.moved import cause_of_moves
from parity.diagnose.located.op_inputs import cause_of_input, cause_of_weights
from parity.diagnose.located.ops import cause_at_op, cause_by_one_change
from parity.diagnose.located.other_rules import cause_by_other_ways
from parity.diagnose.located.recurrent import recurrent_layers
from parity.diagnose.search import follows, told_of
from parity.diagnose.variables import shared_where_read
from parity.judge.metrics import is_finite, norm
from parity.judge.result import Cause, Explained, FirstDifference
from parity.locate import Location
from parity.locate.downstream import nearest_weights
from parity.locate.layer_names import layer_names
from parity.locate.located import Located
from parity.trace.arrays import Array

LOSSES = frozenset(["loss", "metric"])
ROUNDED = 1e-14  # of an output's norm: how far a bias is from being one number in a channel


@dataclass(frozen=True)
class AtLayer(Evidence):
    """Evidence with the outputs of a layer that was found by itself beside the recorded ones.

    Attributes:
      name, tower: the layer's.
      outputs: of the reference and of the candidate, in the reference's layout; None where they could not be paired.
    """

    name: str = ""
    tower: str = ""
    outputs: tuple[Array, Array] | None = None

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor of a quantity that both sides have, finite on both."""
        finite = self.outputs is not None and all(is_finite(each) for each in self.outputs)
        own = quantity == "act" and tower == self.tower and finite
        if own and self.outputs is not None:
            yield self.name, *self.outputs
        for name, one, other in super().pairs(step, quantity, slot, tower):
            if not own or name != self.name:
                yield name, one, other


def with_causes_at(located: Located | None, evidence: Evidence, known: Sequence[Cause]) -> list[Cause]:
    """Returns the causes that the outputs of a layer show that was found by itself, and of those that are known what fits.

    Args:
      located: what `locate_first` returned.
      evidence: the float64 lockstep traces.
      known: causes of the difference as it was found.
    """
    proven, rest = _causes_of(located, evidence, known)
    told = [cause for cause in proven if not is_place_only(cause.name)]
    beside = _without_guesses(located, rest) if told else _with_op(located, rest, proven)
    # What names the place alone comes behind what says exactly what is wrong there; of one op the whole pass says more.
    vague = [cause for cause in proven if is_place_only(cause.name)]
    of_an_op = causes_with(Trait.OF_AN_OP)
    exact = [cause for cause in beside if is_exact(cause.name) and cause.name not in of_an_op] if vague else []
    found = [*told, *exact, *vague, *(cause for cause in beside if cause not in exact)]
    return [cause for cause in found if not follows(cause, (each.name for each in found))]


def _without_guesses(located: Located | None, causes: list[Cause]) -> list[Cause]:
    """What numbers support beside a cause that makes the port's numbers of the reference's, or the other way round."""
    return causes if located is None else [each for each in causes if is_exact(each.name)]


def _with_op(located: Located | None, causes: list[Cause], proven: Sequence[Cause]) -> list[Cause]:
    """What is proven at the ops where passes part comes before what is guessed of the numbers, and behind what is exact."""
    cause = cause_at_op(located.place) if located is not None else None
    if located is None or cause is None:
        return causes
    # Of an output that a case declares its own numbers tell which function gives them; a layer's may be anything's.
    proven_so = {"activation_function"} if located.first.decisive is None else set()
    exact = [each for each in causes if is_exact(each.name) or each.name in proven_so]
    rest = [each for each in causes if each not in exact and each.name != cause.name]
    # Which op it is says less than how it is changed, where that is proven.
    said = cause.name in {each.name for each in exact} or any(
        each.name in causes_with(Trait.OF_AN_OP) for each in proven
    )
    told = [] if said else [told_of(located.first, cause)]
    return [*exact, *told, *rest]


def _causes_of(located: Located | None, evidence: Evidence, known: Sequence[Cause]) -> tuple[list[Cause], list[Cause]]:
    """Returns the causes by which something was computed again, and those that numbers support beside them."""
    # From what is read to what is made of it: an input or a weight that is read otherwise explains the layer behind it,
    # and a cell over its steps explains more than one of its ops.
    proven, rest = _causes_of_inputs(located, evidence) or _causes_of_steps(located, evidence), list[Cause]()
    proven = proven or _causes_of_weights(located, evidence)
    if not proven:
        proven, rest = _causes_at(located, evidence)
    # Behind all layers it is the loss: its terms are computed again from what goes into it.
    if located is not None and not located.place.layer and not proven and not rest:
        proven = causes_of_loss(located, evidence, fitting(known, located))
    of_loss = [cause for cause in fitting(known, located) if is_exact(cause.name)]
    if located is not None and not proven and (located.place.layer or not of_loss):
        proven, rest = behind_layers(_by_one_change(located), [*rest, *fitting(known, located)])
    if located is not None and not proven and not rest:
        proven = _by_moves(located)
    # Other rules are many, and believed last: only where nothing says exactly what is wrong.
    first = next(iter([*proven, *rest]), None)
    if located is not None and located.place.layer and (first is None or is_place_only(first.name)):
        proven = [*(_by_masks(located) or _by_other_ways(located, evidence)), *proven]
    names = {cause.name for cause in [*proven, *rest]}
    return proven, [*rest, *(cause for cause in fitting(known, located) if cause.name not in names)]


def behind_layers(changed: list[Cause], known: Sequence[Cause]) -> tuple[list[Cause], list[Cause]]:
    """Returns what one change of a pass proves, and what is known beside it.

    A change that says of one op how it is done otherwise comes behind what the numbers say of the layer, or of the input,
    that the op belongs to: that has the field's words for it.

    Args:
      changed: the cause that one change of a pass is, or none.
      known: causes of the same difference, best first; of several of one name the first counts.
    """
    named = dict[str, Cause]()
    for cause in known:
        named.setdefault(cause.name, cause)
    of_an_op = bool(changed) and changed[0].name in causes_with(Trait.OF_AN_OP)
    of_a_layer = causes_with(Trait.OF_A_LAYER)
    ahead = [each for each in named.values() if of_an_op and each.name in of_a_layer and is_exact(each.name)]
    proven = [*ahead, *changed]
    names = {cause.name for cause in proven}
    return proven, [each for each in named.values() if each.name not in names]


def _by_masks(located: Located) -> list[Cause]:
    cause = cause_of_mask(located.place) if not located.first.check.note else None
    return [told_of(located.first, cause)] if cause is not None else []


def _by_moves(located: Located) -> list[Cause]:
    cause = cause_of_moves(located.place) if not located.first.check.note else None
    return [told_of(located.first, cause)] if cause is not None else []


def _by_one_change(located: Located) -> list[Cause]:
    cause = cause_by_one_change(located.place, located.first.quantity in LOSSES)
    return [told_of(located.first, cause)] if cause is not None else []


def _causes_of_inputs(located: Located | None, evidence: Evidence) -> list[Cause]:
    """What the port does to an input where it reads it."""
    if located is None or located.first.check.note:
        return []
    cause = cause_of_input(located.place, list(feeds_of(located.first, evidence)))
    return [told_of(located.first, cause)] if cause is not None else []


def _causes_of_weights(located: Located | None, evidence: Evidence) -> list[Cause]:
    """What the port makes of a weight before an op takes it."""
    if located is None or located.first.check.note:
        return []
    step = located.first.check.step
    values = {name: evidence.before(step, "var", name) for name in located.place.op.weights}
    cause = cause_of_weights(located.place, {name: value for name, value in values.items() if value is not None})
    if cause is None:
        explains = Explained(step, located.first.check.key)
        ops = located.place.passes[0].ops, located.place.passes[1].ops
        cause = shared_where_read(nearest_weights(ops[0], located.place.op), evidence, ops, explains)
    return [told_of(located.first, cause)] if cause is not None else []


def _causes_of_steps(located: Located | None, evidence: Evidence) -> list[Cause]:
    """What the recurrent layers, run again over their steps, show."""
    if located is None or not located.place.layer:  # behind all layers: they are right
        return []
    first = located.first
    tower = evidence.tower_of(first)
    for layer in recurrent_layers(located.place, evidence, first.check.step, tower):
        cause = other_recurrence(layer) or other_last(layer)
        if cause is not None:
            return [told_of(first, cause)]
    return []


def _causes_at(located: Located | None, evidence: Evidence) -> tuple[list[Cause], list[Cause]]:
    if located is None:
        return [], []
    first, place = located.first, located.place
    if place.reference is None or place.candidate is None:
        return [], []
    exact = _exact(place, evidence, first) if not first.check.note else None
    if first.decisive is None:  # an output that the case declares: what its own numbers tell is known
        return [told_of(first, exact)] if exact is not None and place.layer else [], []
    at = AtLayer(
        evidence.join,
        evidence.reference,
        evidence.candidate,
        evidence.states,
        evidence.towers,
        first.name,
        first.tower,
        (place.reference, place.candidate),
    )
    # The detectors once more, on the outputs of the layer as if the case had declared them.
    found = fitting(find_causes(first, at), located)
    if exact is None:
        return [], found
    rest = [cause for cause in found if cause.name != exact.name and not is_place_only(cause.name)]
    return [told_of(first, exact)], rest


def _by_other_ways(located: Located, evidence: Evidence) -> list[Cause]:
    first, place = located.first, located.place
    if first.check.note:
        return []
    shapes = {name: tuple(entry["shape"]) for name, entry in evidence.reference.variables.items()}
    layers = layer_names(shapes)
    read = [name for name in shapes if name in place.op.weights or layers[name] == place.layer]
    values = {name: evidence.before(first.check.step, "var", name) for name in read}
    flattened = any(pair.transform.permutes(pair.shape) for pair in evidence.join.mapping.pairs)
    cause = cause_by_other_ways(place, {name: v for name, v in values.items() if v is not None}, flattened)
    return [told_of(first, cause)] if cause is not None else []


def _exact(place: Location, evidence: Evidence, first: FirstDifference) -> Cause | None:
    """What the layer, computed again, shows."""
    extra = place.extra
    cause = extra_op(place.layer, extra.op.kind, extra.before, extra.after) if extra is not None else None
    if cause is not None:
        return cause
    layer = _layer(place, evidence, first.check.step)
    turned = _turned_image(place)
    if turned is not None:
        return turned
    windows = _windows(place, evidence, first, layer)
    exact = other_rule(layer) or (other_windows(windows) if windows is not None else _product(layer))
    # The output that shows the place may be behind an activation; a later one of the layer may fit a rule that it does
    # not.
    further = (other_rule(layer._replace(reference=o.reference, candidate=o.candidate)) for o in place.others)
    exact = exact or next((cause for cause in further if cause is not None), None)
    # What is done right behind is not left out, but done in another order: the passes say in which.
    own, other = place.parting.reference, place.parting.candidate
    if exact is None or exact.name != "op_left_out" or own is None or other is None:
        return exact
    return None if is_done_later(place.passes[0], own, place.passes[1], other) else exact


def _turned_image(place: Location) -> Cause | None:
    """An image that goes in with its rows and columns exchanged: what comes out is so too, as if the kernel were."""
    taken = []
    for passed, number in zip(place.passes, (place.parting.reference, place.parting.candidate), strict=True):
        operands = passed.ops[number].operands if number is not None else ()
        values = [
            passed.operand(number, at) for at, each in enumerate(operands) if number is not None and not each.name
        ]
        taken.append([each for each in values if each is not None and each.ndim == 4 and each.dtype.kind == "f"])
    for own, other in ((a, b) for a in taken[0] for b in taken[1]):
        # Of a graph [n, h, w, c]; the port may have the channels second. Bit for bit, for nothing was computed yet.
        plain = [other, other.transpose(0, 2, 3, 1)]
        exchanged = [other.transpose(0, 2, 1, 3), other.transpose(0, 3, 2, 1)]
        if not any(np.array_equal(own, each) for each in plain) and any(
            np.array_equal(own, each) for each in exchanged
        ):
            return build_cause(
                "transposed_input",
                "layer",
                evidence="with these axes exchanged it is what goes in on the other side, to the last bit",
                layer=place.layer,
            )
    return None


def _product(layer: Layer) -> Cause | None:
    """Of matrices: the one that the layer reads, and whatever goes in that fits it."""
    matrices = [value for value in layer.variables.values() if value.ndim == 2]
    for given in layer.inputs if len(matrices) == 1 else []:
        cause = other_product(Product(layer.name, given, matrices[0], layer.reference, layer.candidate))
        if cause is not None:
            return cause
    return None


def _windows(place: Location, evidence: Evidence, first: FirstDifference, layer: Layer) -> Windows | None:
    one, other = layer.reference, layer.candidate
    if place.output is None or place.output.shape != one.shape or one.ndim != 4:
        return None
    added = one - place.output  # a bias, where it is the output behind that one that is shown
    # What lies between the kernel's output and the shown one has to be one number for each channel.
    if place.shown != place.op.name and not np.allclose(added, added[:1, :1, :1], rtol=0, atol=ROUNDED * norm(one)):
        return None
    kernel = next((layer.variables[name] for name in place.op.weights if name in layer.variables), None)
    fed = [one for _, one, _ in evidence.pairs(first.check.step, "feed", "", first.tower)]
    image = next((each for each in [*layer.inputs, *fed] if goes_in(each, place.op.kind, kernel)), None)
    if image is None:
        return None
    output = np.asarray(place.output, np.float64)
    return Windows(layer.name, place.op.kind, image, kernel, place.op.attributes, output, other - added)


def _layer(place: Location, evidence: Evidence, step: int) -> Layer:
    assert place.reference is not None and place.candidate is not None
    of_kind: dict[str, dict[str, Array]] = {"var": {}, "stat": {}}
    shapes = {name: tuple(entry["shape"]) for name, entry in evidence.reference.variables.items()}
    for name, layer in layer_names(shapes).items():
        for quantity, values in of_kind.items():
            value = evidence.before(step, quantity, name) if layer == place.layer else None
            if value is not None:
                values[name] = value
    inputs = list(place.inputs.values())
    return Layer(
        place.layer,
        place.op.kind,
        inputs,
        place.reference,
        place.candidate,
        of_kind["var"],
        of_kind["stat"],
        place.op.name,
        place.output,
        list(_norms(shapes, evidence, step)),
        bool(place.op.weights),
    )


def _norms(shapes: Mapping[str, tuple[int, ...]], evidence: Evidence, step: int) -> Iterator[tuple[Array, Array]]:
    """Yields, both ways round, the vectors of every layer that has two of one length."""
    vectors: dict[tuple[str, int], list[Array]] = {}
    for name, layer in layer_names(shapes).items():
        value = evidence.before(step, "var", name) if len(shapes[name]) == 1 else None
        if value is not None:
            vectors.setdefault((layer, len(value)), []).append(value)
    # Two of one length in a layer are gamma and beta; which is which their names need not say.
    for found in vectors.values():
        if len(found) == 2:
            yield found[0], found[1]
            yield found[1], found[0]


def fitting(causes: Sequence[Cause], located: Located | None, undone: bool = False) -> list[Cause]:
    """Returns the causes that can be where a difference begins.

    What is done to inputs shows in the first layers, and what is done to losses behind the last.

    Args:
      causes: of the difference.
      located: what `locate_first` returned.
      undone: whether each makes the difference go away in an experiment: outputs are paired in whatever order, so that
        layers behind an input in another order may be told to be right.
    """
    if located is None:
        return list(causes)
    place = located.place
    never = causes_with(Trait.BEHIND_LAYERS if place.layer else Trait.BEHIND_LOSSES)
    of_inputs = causes_with(Trait.FIRST_LAYERS)
    of_inputs -= causes_with(Trait.INPUT_LAYOUT) if undone else frozenset()
    never |= of_inputs if place.layer and place.fed_by else frozenset()
    fit = [cause for cause in causes if cause.name not in never]
    return [each for each in fit if each.name != "reduced_precision" or _apart(each, located.first) <= MOST_BY_ROUNDING]


def _apart(cause: Cause, first: FirstDifference) -> float:
    """Returns how far apart both sides are in what a cause explains, of the reference's norm."""
    # Not the pair that shows the place: where a case declares an output, that is one in front of it, and the two of a pair
    # need not belong together.
    checks = [each.check for each in (first, first.decisive) if each is not None]
    own = [each for each in checks if cause.explains is not None and each.key == cause.explains.key]
    check = next(iter([*own, first.check]))
    return check.difference / max(check.size, 1e-300)
