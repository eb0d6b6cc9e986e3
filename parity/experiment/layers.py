"""Places a first difference: at a layer of the forward pass, or at the loss that a gradient is of."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from parity.diagnose import Evidence
from parity.diagnose.catalogue import Trait, causes_with
from parity.judge.allowances import FUNCTION_LIMIT, UNIT64
from parity.judge.metrics import distance, norm, worst
from parity.judge.result import Check, FirstDifference, Level
from parity.locate import Location, at_the_mover, in_front, locate
from parity.locate.declared import shows
from parity.locate.description import where_apart
from parity.locate.downstream import losses_of
from parity.locate.layouts import align
from parity.locate.located import Located
from parity.locate.matching import TOLERANCE, Pass, alike, tolerances_for
from parity.mapping.trace_map import Join
from parity.trace import SHADOW, SHADOW_FORWARD, Forward, MissingError, Trace, parse_key, tower_order, trace_name
from parity.worker.failures import SideFailed

# Names the layer of a first difference: both sides' forward pass of the step is kept, and compared op by op. Only
# where losses or outputs differ, so that a right port pays nothing for it; what is found locates and decides
# nothing.

# What comes of the forward pass: gradients differ behind any layer, so that comparing passes would place them at none.
LOCATED_QUANTITIES = ("act", "stat", "loss", "metric")
MOST_NAMED = 8


class Passes(Protocol):
    """Keeps forward passes of a recorded case."""

    def forward(self, step: int, tower: str, ends_at: str = "") -> tuple[Forward, Forward] | None:
        """Returns the pass of one tower in one step on both sides, in float64; None where it cannot be had.

        Args:
          step: its number.
          tower: its name.
          ends_at: name of the output that the pass ends at; by default the loss.
        """


class KeptPasses:
    """The forward passes that two traces have beside them: of the first step, of a recorded script in its shadow.

    Args:
      reference: its trace.
      candidate: its own.
    """

    def __init__(self, reference: Trace, candidate: Trace) -> None:
        self._folders = Path(reference.directory), Path(candidate.directory)

    def forward(self, step: int, tower: str, ends_at: str = "") -> tuple[Forward, Forward] | None:
        """Returns the pass of the first tower in one step on both sides; None where one of them has none."""
        if ends_at:
            return None  # those of losses alone are kept
        found = []
        for folder in self._folders:
            # A run of a case leaves the pass beside its trace, a recorded script in its shadow.
            places = (folder / SHADOW_FORWARD / str(step), folder / SHADOW / SHADOW_FORWARD / "main" / str(step))
            found += [Forward(place) for place in places if place.is_dir()][:1]
        return (found[0], found[1]) if len(found) == 2 else None


def locate_first(
    first: FirstDifference | None,
    passes: Passes,
    join: Join,
    reference: Trace,
    run: str = "lockstep",
    tolerance: float | None = None,
) -> Located | None:
    """Returns the first difference at its layer, and what is known of the layer; None where no layer is found.

    Args:
      first: the first difference of level 1.
      passes: keeps forward passes.
      join: names and layouts.
      reference: its float64 lockstep trace.
      run: the one whose steps both sides make from the same weights.
      tolerance: of outputs, relative; by default that of float64 and the size of the difference, or the largest smaller
        one that shows where they part.
    """
    if first is None or first.check.run != run or first.quantity not in LOCATED_QUANTITIES:
        return None
    # What one side lacks has no pass to compare; what is not finite has, up to where it begins.
    if first.check.verdict != "different" and "not finite" not in first.check.note:
        return None
    # A statistic is of no tower, and a metric of all: the first one's pass shows what it is made of.
    tower = first.tower or next(iter(_towers(reference, first.check.step)), "")
    differing = parse_key(first.check.key)
    # Which tolerances are tried goes by the size of the difference, for the noise of float64 grows through many layers.
    relative = first.check.difference / first.check.size if first.check.size else float("inf")
    tolerances = [tolerance] if tolerance else tolerances_for(relative)
    shapes = {name: tuple(entry["shape"]) for name, entry in reference.variables.items()}
    found: tuple[Location, tuple[Pass, Pass], int] | None = None
    # No loss need hang on an output, as on a prediction: where the loss's pass shows nothing wrong, its own is looked at.
    for ends_at in {"metric": [differing.name], "act": ["", differing.name]}.get(differing.quantity, [""]):
        try:
            kept = passes.forward(first.check.step, tower, ends_at)
        except (SideFailed, MissingError):
            break  # a step that cannot be watched: where it differs stays as it was found
        if kept is None:
            break
        one, other = (Pass(each.ops, each.value, each.operand) for each in kept)
        mapping = {pair.reference: pair.candidate for pair in join.mapping.pairs}
        places = (locate(one, other, mapping, shapes, each) for each in tolerances)
        place = next((each for each in places if each is not None), None)
        found = (place, (one, other), kept[0].step) if place else found
        if place and (place.layer or not _end_the_same(one, other)):
            break
    if found is None:
        return None
    place, (one, other), step = found
    if not place.layer and first.quantity == "stat":
        return None  # what comes behind the layers makes no statistic of theirs
    # Activations that the trace has are already the place, and stay; others get the layer found.
    stays = not place.layer or first.quantity == "act"
    if place.layer and first.quantity == "act" and first.check.key in reference.step(first.check.step):
        stays = shows(first.name, reference.step(first.check.step).read(first.check.key), place, one, shapes)
    return Located(first if stays else _at(first, tower, place, step), place, (one, other))


def _end_the_same(one: Pass, other: Pass) -> bool:
    """Whether two passes end in the same numbers: then what is wrong elsewhere does not lead there."""
    ends = [passed.value(losses_of(passed.ops)[-1]) for passed in (one, other)]
    if ends[0] is None or ends[1] is None:
        return False
    pair = align(ends[0], ends[1])
    return pair is not None and alike(pair.reference, pair.candidate, TOLERANCE)


def with_location(level: Level, located: Located | None) -> Level:
    """Returns a level that says where its first difference is.

    Args:
      level: a decided one.
      located: what `locate_first` returned of its first difference.
    """
    known = level.first_difference
    if located is None or known is None:
        return level
    place = located.place
    for cause in level.causes[:1]:
        # What is first wrong may only take what was made in front of it: the numbers of right outputs in other places.
        moved = cause.name in causes_with(Trait.SAME_NUMBERS) and cause.op is None
        place = at_the_mover(place) if moved else in_front(place, cause.op)
    parting = place.parting
    first = replace(
        located.first,
        where=told(place, located.first),
        module=parting.module,
        next_module=parting.next_module,
        lines=place.lines,
    )
    # By identity: equal checks may stand at two places. A layer goes in front of what follows from it; a loss that another
    # optimizer minimises is there already.
    at = next(number for number, each in enumerate(level.checks) if each is known.check)
    if first.decisive is None or first.check is known.check:
        return replace(level, first_difference=first)
    return replace(level, first_difference=first, checks=[*level.checks[:at], first.check, *level.checks[at:]])


def decisive(level: Level) -> FirstDifference | None:
    """Returns the first difference of a level that its traces hold."""
    first = level.first_difference
    return first.decisive or first if first else None


def told(place: Location, first: FirstDifference) -> str:
    """Returns in words what is known of where two forward passes part.

    Args:
      place: where they do.
      first: the difference that comes of it.
    """
    port = place.port
    before_module = f", before {place.parting.next_module}" if place.parting.next_module else ""
    inside = port.name or "outside of any module" if port else ""
    there = f", in the port {inside} ({port.kind}){before_module}" if port else ""
    which = f"in the layer {place.layer}" if place.layer else f"behind all layers, in {_made(first)}"
    inputs = "its inputs and weights are the same" if place.fed_by else "its weights are the same"
    if place.only_reference:
        inputs += f"; the port has nothing like {_listed(place.only_reference)}, which goes into it"
    if place.only_candidate:
        inputs += f"; the reference has nothing like the port's {_listed(place.only_candidate)}, which goes into it"
    before = f"; the same before it: {_listed(place.same)}" if place.same else ""
    unpaired = f"; not paired, for the port does not show them: {_listed(place.unpaired)}" if place.unpaired else ""
    apart = ""
    if place.reference is not None and place.candidate is not None and place.reference.ndim:
        apart = f"; of {place.shown} {where_apart(place.reference, place.candidate)}"
    return f"{which}: {place.op.name} ({place.op.kind}){there}; {inputs}{apart}{before}{unpaired}"


def _listed(names: list[str]) -> str:
    shown = names[-MOST_NAMED:]
    return (f"{len(names) - len(shown)} layers, " if len(names) > len(shown) else "") + ", ".join(shown)


def _made(first: FirstDifference) -> str:
    return first.name if first.quantity in ("act", "metric") else "the loss"


def _at(first: FirstDifference, tower: str, place: Location, step: int) -> FirstDifference:
    key = trace_name("act", place.layer, tower=tower)
    if place.reference is None or place.candidate is None:
        note = f"the port has no output of the size of {place.op.name}'s to compare it with"
        check = first.check._replace(key=key, note=note, difference=0.0, allowed=0.0)
        return FirstDifference(check, "act", place.layer, tower, None, decisive=first)
    one, other = place.reference, place.candidate
    size = norm(one)
    shown = "" if step == first.check.step else f"as it is in step {step}, the nearest whose layers are kept"
    # No float32 run of a located layer is kept: the part of level 1's tolerance that needs none.
    allowed = FUNCTION_LIMIT * 4 * UNIT64 * size
    check = Check(first.check.run, first.check.step, key, "different", distance(one, other), allowed, size, size, shown)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        note = "; ".join(part for part in (first.check.note, shown) if part)
        check = check._replace(verdict=first.check.verdict, difference=0.0, allowed=0.0, note=note)
    return FirstDifference(check, "act", place.layer, tower, worst(one, other), decisive=first)


def _towers(reference: Trace, step: int) -> list[str]:
    return sorted({key.tower for key in reference.step(step).keys("loss")}, key=tower_order)


# Places a difference of gradients at the loss that they are of, where an optimizer minimises a loss of its own.


def place_at_own_loss(level: Level, losses: Collection[str], evidence: Evidence) -> Level:
    """Returns a level whose first difference is a loss that differs, not the gradient of a tower that follows from it.

    Losses that are returned beside the first stand among the metrics, at the end of a step.

    Args:
      level: a decided one.
      losses: names of the outputs that optimizers minimise.
      evidence: the float64 lockstep traces.
    """
    first = level.first_difference
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad":
        return level
    # In order: the first such loss of the step is what its gradients follow from.
    differing = (each for each in level.checks if (each.run, each.verdict) == ("lockstep", "different"))
    keys = {(first.check.step, trace_name("metric", name)) for name in losses}
    check = next((each for each in differing if (each.step, each.key) in keys), None)
    if check is None:
        return level
    key = parse_key(check.key)
    one = evidence.reference.step(check.step).read(check.key)
    other = evidence.join.read(key, evidence.candidate.step(check.step))
    shown = worst(one, other) if other is not None and other.shape == one.shape else None
    where = f"the loss {key.name}, which an optimizer of its own minimises"
    placed = FirstDifference(check, "loss", key.name, "", shown, where, decisive=first)
    return replace(level, first_difference=placed)
