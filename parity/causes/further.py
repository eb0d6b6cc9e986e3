"""Goes on after the first cause: names the bugs that the first difference does not explain."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from parity.causes.aggregation import not_shared
from parity.causes.evidence import Evidence
from parity.causes.find import find_causes
from parity.causes.gradients_at_once import gradients_at_once
from parity.causes.own_inputs import STAGES, OwnInputs, rule_of
from parity.causes.updates_at_once import updates_at_once
from parity.judge.metrics import distance, norm, worst
from parity.judge.result import Cause, Check, Explained, FirstDifference
from parity.trace import RANK_OF, Key, format_key, parse_key

TOLD = 1e-7
# What follows from a bug and is none of its own: the powers of another beta, the updates of another schedule.
FOLLOWS = {
    "adam_beta": ("learning_rate", "bias_correction", "adam_epsilon"),
    "optimizer_rule": ("learning_rate", "bias_correction", "adam_epsilon", "momentum", "nesterov"),
    "updated_twice": ("learning_rate", "momentum", "nesterov", "gradient_factor", "bias_correction"),
    "shifted_schedule": ("learning_rate",),
    "slow_schedule": ("learning_rate",),
}


def find_further(first: FirstDifference, known: list[Cause], evidence: Evidence, checks: list[Check]) -> list[Cause]:
    """Returns the causes of differences that are none of the first one's consequences, each once.

    Three kinds of tensor are not touched by a bug at the first difference. Those that a step computes before it: in lockstep
    every step starts from the reference's state, so an earlier quantity of a later step that differs has a cause of its
    own. Losses and gradients, where it is a moving statistic, which training does not use. And those of a later stage once
    it is judged by its own inputs (`OwnInputs`).

    Args:
      first: the first difference.
      known: what is named already.
      evidence: the traces.
      checks: of level 1.
    """
    found: list[Cause] = []
    names = {cause.name for cause in known}
    for cause in _all(first, evidence, checks):
        if cause.name not in names and not _follows(cause, names):
            names.add(cause.name)
            found.append(cause)
    step = first.check.step
    together = _told(updates_at_once(evidence, step), step, "the updates") if first.check.run == "lockstep" else []
    # Fitted together with another beta nothing follows from it any more.
    fitted = names - {"adam_beta"}
    found += [cause for cause in together if cause.name not in names | _doubted(names) and not _follows(cause, fitted)]
    return found


def _follows(cause: Cause, names: set[str]) -> bool:
    return any(cause.name in FOLLOWS.get(name, ()) for name in names)


def first_in_lockstep(evidence: Evidence, checks: list[Check]) -> FirstDifference | None:
    """Returns the first tensor that differs in lockstep, whatever differed before any step; None where none does."""
    check = next((each for each in checks if each.run == "lockstep" and each.verdict == "different"), None)
    return None if check is None else _difference(parse_key(check.key), check, evidence)


def _doubted(names: set[str]) -> set[str]:
    # The rate of what trains twice is twice as large.
    return {"learning_rate", "gradient_factor"} if "trained_twice" in names else set()


def _all(first: FirstDifference, evidence: Evidence, checks: list[Check]) -> Iterator[Cause]:
    if first.check.run == "lockstep":
        # That the ranks end a step with different weights no other bug explains, wherever the first difference is.
        alone = not_shared(replace(first, quantity="grad", check=first.check._replace(key="the gradients")), evidence)
        yield from _told([alone] if alone else [], first.check.step, "the gradients")
    if first.check.run == "lockstep" and first.quantity in ("stat", "loss", "tower_grad"):
        # What an earlier step leaves behind shows in the second step at the earliest.
        for step in evidence.steps[:2]:
            yield from _told(gradients_at_once(evidence, step), step, "the gradients")
    for other, basis in (*_before(first, evidence, checks), *_after(first, evidence)):
        yield from find_causes(other, basis)[:1]


def _told(causes: Iterable[Cause], step: int, what: str) -> list[Cause]:
    return [replace(cause, explains=Explained(step, what)) for cause in causes]


def _before(
    first: FirstDifference, evidence: Evidence, checks: list[Check]
) -> Iterator[tuple[FirstDifference, Evidence]]:
    seen: set[str] = set()
    for check in checks:
        key = parse_key(check.key)
        independent = (
            first.check.run != "lockstep"
            or (check.step != first.check.step and RANK_OF[key.quantity] < RANK_OF[first.quantity])
            or (first.quantity == "stat" and key.quantity in ("loss", "tower_grad"))
        )
        if check.run != "lockstep" or check.verdict != "different" or not independent or key.quantity in seen:
            continue
        seen.add(key.quantity)
        yield _difference(key, check, evidence), evidence
        if first.check.run != "lockstep":
            return


def _after(first: FirstDifference, evidence: Evidence) -> Iterator[tuple[FirstDifference, Evidence]]:
    if first.check.run != "lockstep":
        return
    for step in evidence.steps:
        for quantity in STAGES:
            if RANK_OF[quantity] < RANK_OF[first.quantity]:
                continue
            if quantity == "clip" != first.quantity:
                yield from _unclipped(evidence, step)
            basis = OwnInputs(
                evidence.join, evidence.reference, evidence.candidate, evidence.states, evidence.towers, quantity
            )
            for slot in evidence.slots(step) if quantity == "slot" else [""]:
                same_stage = quantity == first.quantity and parse_key(first.check.key).slot == slot
                if same_stage or rule_of(evidence, step, quantity, slot) is None:
                    continue
                yield from _first_of(basis, step, quantity, slot)


def _unclipped(evidence: Evidence, step: int) -> Iterator[tuple[FirstDifference, Evidence]]:
    clipped = next((text for text in evidence.reference.step(step).names() if text.startswith("clip/")), None)
    if clipped is not None and not any(True for _ in evidence.pairs(step, "clip")):
        check = Check("lockstep", step, clipped, "incomparable", note="the candidate has no such tensor")
        yield FirstDifference(check, "clip", parse_key(clipped).name, "", None), evidence


def _first_of(basis: OwnInputs, step: int, quantity: str, slot: str) -> Iterator[tuple[FirstDifference, Evidence]]:
    for name, made, other in basis.pairs(step, quantity, slot):
        before = basis.before(step, quantity, name, slot)
        moved = norm(made - before) if before is not None and quantity in ("var", "ema") else norm(made)
        difference = distance(made, other)
        if difference > TOLD * moved + 1e-14 * norm(made):
            text = format_key(Key("", quantity, "", slot, name))
            check = Check("lockstep", step, text, "different", difference, TOLD * moved, moved, norm(made))
            yield FirstDifference(check, quantity, name, "", worst(made, other)), basis
            return


def _difference(key: Key, check: Check, evidence: Evidence) -> FirstDifference:
    one = evidence.reference.step(check.step).read(check.key)
    other = evidence.join.read(key, evidence.candidate.step(check.step))
    shown = worst(one, other) if other is not None and other.shape == one.shape else None
    return FirstDifference(check, key.quantity, key.name, key.tower, shown)
