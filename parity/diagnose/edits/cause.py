"""Tells the one change that makes one pass of the other: under which name, in which words, and at which op of the port."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import EDITED_ACTIVATIONS, OTHER_OPERATION, Edit, is_loss, is_mask
from parity.diagnose.edits.masks import FILLING
from parity.diagnose.edits.side import Hit, Side, kinds_of
from parity.diagnose.ops.table import UNARY, plain
from parity.judge.result import Cause
from parity.locate.downstream import losses_of, readers, upstream
from parity.locate.layouts import align
from parity.locate.matching import Pass, alike
from parity.trace import ForwardOp, SourceLine
from parity.trace.arrays import Array

CHOOSING = FILLING | {"masked_fill"}
MOST_OPS_LEFT_FOR_LATER = 12  # ops behind the parting in which what is left out there may be done
# Modules that torch computes of several ops, any of which may be the one that is changed.
MODULES = {"LocalResponseNorm": ("response_normalisation", "local response normalisation")}
# The same as functions: torch's, and the one of like_tf.
FUNCTIONS_OF_OPS = dict.fromkeys(("local_response_norm", "local_response_normalization"), MODULES["LocalResponseNorm"])
# What is done by one of these may be done by another, of what is turned round or inverted.
TURNED_ROUND = {kind: frozenset(kinds) for kinds in (("add", "sub", "rsub"), ("mul", "div")) for kind in kinds}


def cause_of_hit(hit: Hit, reference: Side, candidate: Side, turned: bool, of_loss: bool) -> Cause:
    """Returns the cause that a change is.

    Args:
      hit: the change, and what it was met in.
      reference: its side.
      candidate: its own.
      turned: whether the port was changed, and not the reference.
      of_loss: whether they part behind all layers.
    """
    cause = _cause(hit, reference, candidate, turned, of_loss)
    number = hit.edit.number if turned else candidate.start
    cause = cause if hit.edit.dropped else _of_module(cause, candidate, number)
    return replace(cause, op=hit.edit.number if turned else cause.op)


def _of_module(cause: Cause, candidate: Side, number: int | None) -> Cause:
    """A change of what a module or function of torch's computes of several ops is named by what that is."""
    module = candidate.passed.ops[number].attributes.get("module") if number is not None else None
    line = candidate.passed.ops[number].line if number is not None else None
    called = next((each for each in FUNCTIONS_OF_OPS if line is not None and f"{each}(" in line.text), "")
    name, words = MODULES.get(str(module), FUNCTIONS_OF_OPS.get(called, ("", "")))
    # No such module has an activation: one too many, or too few, is at its end, and has a name of its own.
    of_its_own = bool(name) and cause.name != "activation_function"
    return replace(cause, name=name, title=f"{words} by other numbers: {cause.title}") if of_its_own else cause


def _cause(hit: Hit, reference: Side, candidate: Side, turned: bool, of_loss: bool) -> Cause:
    edit = hit.edit
    own, other = (candidate, reference) if turned else (reference, candidate)
    lines = _shown(own, edit.number), _shown(other, hit.number if other.start is None else other.start)
    port, graph = lines if turned else lines[::-1]
    whose = ("port's", "reference's") if turned else ("reference's", "port's")
    target = f"{plain(other.passed.ops[hit.number].kind)} at {_shown(other, hit.number)}"
    what = "the loss" if hit.of_loss else f"the {hit.size:,} numbers of {target}"
    evidence = f"the {whose[0]} pass, with that one op done so, gives {what} that the {whose[1]} has, to rounding"
    at: dict[str, Any] = {"port": port, "graph": graph}
    # A choice that the port has and the reference has too is no mask left out, but another choice.
    if turned and edit.dropped == "mask" and FILLING & kinds_of(reference):
        return build_cause("loss_function" if of_loss else OTHER_OPERATION, "choice", evidence=evidence, **at)
    if turned and edit.dropped == "mask" and _is_masked_next(hit, reference, candidate):
        return build_cause(OTHER_OPERATION, "sooner", evidence=evidence, dropped="what it does by a mask", **at)
    if turned and edit.dropped:
        variant = "sooner" if _later(edit, reference) else "only in the port"
        return build_cause(_of_extra(edit, of_loss), variant, evidence=evidence, dropped=edit.dropped, **at)
    if not turned and edit.name == "op_left_out" and _behind_all_met(hit, reference, candidate):
        kind = plain(reference.passed.ops[edit.number].kind)
        return build_cause(
            "loss_function" if of_loss else OTHER_OPERATION, "later", evidence=evidence, dropped=kind, **at
        )
    if not turned and edit.name == "op_left_out" and _masked_otherwise(edit, reference, candidate):
        edit = edit._replace(name="mask")
    if edit.name in ("op_left_out", "activation_function") and _later(edit, candidate):
        return build_cause(OTHER_OPERATION, "later", evidence=evidence, dropped=edit.dropped, **at)
    # What one function of torch's computes whole has no op less, but other arguments: a margin, a reduction.
    if of_loss and edit.name == "op_left_out" and candidate.start is not None:
        whole = is_loss(candidate.passed.ops[candidate.start].kind)
        edit = edit._replace(name="loss_function" if whole else edit.name)
    there, here = (edit.as_is, edit.changed) if turned else (edit.changed, edit.as_is)
    lacking = None if turned else _lacking(edit, reference, candidate)
    return build_cause(edit.name, "one change", evidence=evidence, op=lacking, there=there, here=here, **at)


def _lacking(edit: Edit, reference: Side, candidate: Side) -> int | None:
    """The port's op behind which it lacks what is left out; None where it lacks it in front of what is wrong there.

    That is the last of several things of which all lack it, and what gives it to a function that is left out at the end of
    the reference's function, whose output is taken elsewhere.
    """
    if not edit.dropped:
        return None
    ops = reference.passed.ops
    if not edit.beside and not _ends_its_function(edit.number, ops):
        return None
    number = edit.beside[-1][0] if edit.beside else edit.number
    wanted = [reference.passed.value(each) for each in ops[number].inputs]
    for number in sorted(candidate.reached):
        value = candidate.passed.value(number)
        pairs = [align(each, value) for each in wanted if value is not None and each is not None]
        if any(pair is not None and alike(pair.reference, pair.candidate, CLOSE) for pair in pairs):
            return number
    return None


def _ends_its_function(number: int, ops: Sequence[ForwardOp]) -> bool:
    """Whether an op of one input is called where that is made, and what takes its output in another function, or call."""
    op = ops[number]
    own, given = op.line, [ops[each].line for each in op.inputs]
    taking = [ops[each].line for each in readers(ops)[number]]
    if own is None or len(given) != 1 or not taking or None in (*given, *taking):
        return False
    # Made where it is called, and taken elsewhere, be it in a function that is called there; or made in such a function,
    # and taken where that call has ended.
    if all(_call_of(each) == _call_of(own) for each in given):
        return not any(_call_of(each) == _call_of(own) for each in taking)
    return all(_runs_within(each, own) for each in given) and not any(_runs_within(each, own) for each in taking)


def _call_of(line: SourceLine | None) -> tuple[Any, ...] | None:
    return (line.file, line.function, line.callers) if line is not None else None


def _runs_within(line: SourceLine | None, caller: SourceLine) -> bool:
    """Whether a line is run in the call of a function in which `caller` is run, by itself or in what that calls."""
    if line is None:
        return False
    frames = [(line.file, line.line, line.function, line.text), *line.callers]
    return any(
        (file, function, (*line.callers[depth:],)) == _call_of(caller)
        for depth, (file, _, function, _) in enumerate(frames)
    )


def _later(edit: Edit, side: Side) -> bool:
    """Whether a side does the function that is left out in its place soon after: in another order."""
    if edit.dropped not in UNARY or side.start is None:
        return False
    ops, number = side.passed.ops, side.start
    after = readers(ops)
    for _ in range(MOST_OPS_LEFT_FOR_LATER):
        if plain(ops[number].kind) == edit.dropped:
            return True
        if not after[number] or ops[number].weights:
            return False
        number = max(after[number])  # what all ways of a norm lead to
    return False


def _masked_otherwise(edit: Edit, reference: Side, candidate: Side) -> bool:
    """Whether what seems to be left out is a mask, and the port chooses by one there: it masks other places, or as much."""
    left_out = edit.in_front or (edit.number,)
    near = {*left_out, *(each for number in left_out for each in reference.passed.ops[number].inputs)}
    masks = any(is_mask(each) for number in near for each in _operands(reference.passed, number))
    ops, start = candidate.passed.ops, candidate.start
    taken = {plain(ops[each].kind) for each in ops[start].inputs} if start is not None else set()
    return masks and bool(CHOOSING & (kinds_of(candidate) | taken))


def _is_masked_next(hit: Hit, reference: Side, candidate: Side) -> bool:
    """Whether the reference masks what comes of an op that the port masks sooner, and the port masks it no more there."""
    there, here = reference.passed, candidate.passed
    return _is_masked(there, readers(there.ops)[hit.number]) and not _is_masked(here, readers(here.ops)[hit.at])


def _is_masked(passed: Pass, numbers: Sequence[int]) -> bool:
    return any(
        plain(passed.ops[number].kind) in TURNED_ROUND["mul"]
        and any(is_mask(each) for each in _operands(passed, number))
        for number in numbers
    )


def _behind_all_met(hit: Hit, reference: Side, candidate: Side) -> bool:
    """Whether the port does what is left out behind the last of what is met, with the same numbers: in another order.

    What both sides do there, such as a further sum, is met too.
    """
    number = hit.edit.number
    kind = plain(reference.passed.ops[number].kind)
    if kind not in TURNED_ROUND or hit.of_loss:
        return False
    # What is left of it when it is left out is what both sides go on with.
    kept = hit.edit.value.reshape(-1)
    taken = [each for each in _operands(reference.passed, number) if not np.array_equal(each.reshape(-1), kept)]
    ops = candidate.passed.ops
    after, own = readers(ops), readers(reference.passed.ops)
    # Where the reference has such an op too, it is that one whose operand differs.
    alone = [
        each
        for each, at in hit.met.items()
        if not any(plain(reference.passed.ops[n].kind) in TURNED_ROUND[kind] for n in own[at])
    ]
    later = {reader for each in alone for reader in after[each]} & candidate.wrong & upstream(ops, losses_of(ops))
    return any(_takes_one_of(candidate.passed, each, kind, taken) for each in later - hit.met.keys())


def is_done_later(reference: Pass, number: int, candidate: Pass, in_its_place: int) -> bool:
    """Returns whether a port does a sum or a product of the reference right behind the op that it has in its place.

    Args:
      reference: its pass.
      number: of the sum or product.
      candidate: the port's pass.
      in_its_place: number of the port's op.
    """
    kind = plain(reference.ops[number].kind)
    if kind not in TURNED_ROUND:
        return False
    taken = _operands(reference, number)
    return any(_takes_one_of(candidate, each, kind, taken) for each in readers(candidate.ops)[in_its_place])


def _takes_one_of(passed: Pass, number: int, kind: str, values: Sequence[Array]) -> bool:
    """Whether an op is of a kind, or turns it round, and takes one of some values."""
    return plain(passed.ops[number].kind) in TURNED_ROUND[kind] and any(
        alike(pair.reference, pair.candidate, CLOSE)
        for one in values
        for other in _operands(passed, number)
        if (pair := align(one, other)) is not None
    )


def done_later(cause: Cause, sides: Sequence[Side], number: int, of_loss: bool) -> Cause:
    """Returns a cause of an op that seems to be left out as what it is where the port does it later.

    Args:
      cause: it.
      sides: the reference's and the candidate's.
      number: of the reference's op.
      of_loss: whether the passes part behind all layers.
    """
    reference, candidate = sides
    return build_cause(
        "loss_function" if of_loss else OTHER_OPERATION,
        "later",
        evidence=cause.evidence,
        dropped=plain(reference.passed.ops[number].kind),
        port=_shown(candidate, candidate.start if candidate.start is not None else 0),
        graph=_shown(reference, number),
    )


def _operands(passed: Pass, number: int) -> list[Array]:
    """What an op takes, but for single numbers."""
    values = (passed.operand(number, at) for at in range(len(passed.ops[number].operands)))
    return [each for each in values if each is not None and each.size > 1 and each.dtype.kind == "f"]


def _of_extra(edit: Edit, of_loss: bool) -> str:
    """The name of the cause where the port has an op more."""
    if edit.dropped in EDITED_ACTIVATIONS:
        return "activation_function"
    # What the port has more is named by what it is, where there is a name: the rest says only that it is another op.
    names = {"mask": "mask", "epsilon": "epsilon", "mul": "extra_scale", "div": "extra_scale"}
    return names.get(edit.dropped, "loss_function" if of_loss else OTHER_OPERATION)


def _shown(side: Side, number: int) -> str:
    op = side.passed.ops[number]
    return op.line.alone if op.line is not None else " ".join(each for each in (op.name, op.kind) if each)
