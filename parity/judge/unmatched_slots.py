"""Sets aside slots that the one side's optimizer keeps and the other's does without: what is made of them is judged."""

from collections.abc import Callable, Sequence

from parity.judge.judge import NOT_IN_REFERENCE
from parity.judge.levels.function import Lockstep
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import Quantity, TensorFile, TensorKey, Trace, parse_key, quantity_of

LACKING = "the candidate's optimizer keeps no such slot; judged by the updates alone"
BEYOND = "the reference's optimizer keeps no such slot; judged by the updates alone"
Before = Callable[[int], TensorFile | None]


def set_aside_slots(checks: list[Check], join: Join, reference: Before, candidate: Before) -> list[Check]:
    """Returns checks, those of slots set aside that the other side's optimizer does without and whose effect is judged.

    A slot is how an optimizer keeps what it needs, and need not be kept where it decides nothing, as a momentum of zero's.
    Where it decides something, the updates differ. So the updates tell, in steps that begin with something in the slot:
    where there is no such step, a slot without a counterpart stays incomparable. So does one that the other side keeps for
    some of the variables only.

    Args:
      checks: of one level, updates among them.
      join: names and layouts.
      reference: returns what the reference held before a step, None where that is not known.
      candidate: the same of the candidate, in its own names.
    """
    # Whatever is missing stands as incomparable, with a note that says on which side.
    found = [(check, key) for check, key in _of_quantity(checks, "slot") if check.verdict == "incomparable"]
    lacking = [(check, key) for check, key in found if check.note != NOT_IN_REFERENCE and not join.candidates(key)]
    slots = {key for check, key in _of_quantity(checks, "slot") if check.note != NOT_IN_REFERENCE}
    # Kinds of the candidate's slots that match one of the reference's: one more of these is a difference, not a kind of
    # its own.
    joined = {parse_key(name).slot for key in slots for name in join.candidates(key)}
    beyond = [(check, key) for check, key in found if check.note == NOT_IN_REFERENCE and key.slot not in joined]
    # The usual case, which is to cost nothing: reading states is what the rest takes its time for.
    if not lacking and not beyond:
        return checks
    # Updates in which the slot took part: loading a state shows nothing of what it does.
    judged = {
        (check.step, key.name)
        for check, key in _of_quantity(checks, "var")
        if check.run != "init" and check.verdict in ("same", "different")
    }
    # Of the candidate's names to the reference's, which the updates are judged under.
    names = {name: pair.reference for pair in join.mapping.pairs for name in pair.candidate}
    aside = _aside(lacking, judged, reference, {}, LACKING) | _aside(beyond, judged, candidate, names, BEYOND)
    return [aside.get(check, check) for check in checks]


def slots_aside(checks: list[Check], join: Join, traces: Lockstep) -> list[Check]:
    """Returns checks of lockstep runs after `set_aside_slots`."""
    states = traces.states

    def held(step: int) -> TensorFile | None:
        return states.step(step) if step in states.step_numbers else None

    return set_aside_slots(checks, join, held, after_the_last(traces.candidate64))


def after_the_last(trace: Trace) -> Before:
    """Returns a function of a step to what a run held after the step before it."""

    def before(step: int) -> TensorFile | None:
        # Steps may have gaps: what was held is what the last recorded one left.
        earlier = [number for number in trace.step_numbers if number < step]
        return trace.step(max(earlier)) if earlier else None

    return before


def slot_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of slots that were set aside."""
    slots = {note: {parse_key(check.key).slot for check in checks if check.note == note} for note in (LACKING, BEYOND)}
    return [f"slot {', '.join(sorted(names))}: {note}" for note, names in slots.items() if names]


def _of_quantity(checks: Sequence[Check], quantity: Quantity) -> list[tuple[Check, TensorKey]]:
    return [(check, parse_key(check.key)) for check in checks if quantity_of(check.key) == quantity]


def _aside(
    alone: Sequence[tuple[Check, TensorKey]],
    judged: set[tuple[int, str]],
    before: Before,
    names: dict[str, str],
    note: str,
) -> dict[Check, Check]:
    variables = {(key.slot, check.key): names.get(key.name, key.name) for check, key in alone}
    steps = sorted({step for step, _ in judged})

    def is_told(slot: str) -> bool:
        return any(
            # A slot of zeros decides nothing: only a step that began with something in it, and whose update was judged,
            # tells.
            (step, variable) in judged and (file := before(step)) is not None and text in file and file.read(text).any()
            for (of, text), variable in variables.items()
            if of == slot
            for step in steps
        )

    # By kind of slot: one variable whose update was judged tells how the optimizer uses it for all.
    told = {slot for slot in {slot for slot, _ in variables} if is_told(slot)}
    return {check: check._replace(verdict="not_run", note=note) for check, key in alone if key.slot in told}
