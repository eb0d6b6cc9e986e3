"""Finds the one change of a forward pass that makes the other one's numbers of it.

Where passes part, the ops of one side near there are changed one at a time and what comes of them is computed again. A
change is named where what comes of it is what the other side has and the unchanged pass has not: it was done there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import EDITED_ACTIVATIONS, OTHER_OPERATION, Edit, Near
from parity.diagnose.edits.operands import exchanged, followed, moved_edits, operand_edits
from parity.diagnose.edits.ops import FILLING, plain_edits
from parity.diagnose.edits.repeated import Changes, made_again
from parity.diagnose.evidence import CLOSE
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.rearranging import CONCATENATING
from parity.diagnose.ops.table import UNARY, plain
from parity.judge.result import Cause
from parity.locate.divergence import is_drawn
from parity.locate.downstream import active, losses_of, readers, upstream
from parity.locate.layouts import align
from parity.locate.matching import Pass, alike
from parity.trace import ForwardOp
from parity.trace.arrays import Array

MOST_OPS_CHANGED = 12  # ops behind the parting that are changed
MOST_OPS_WITH_OTHER_INPUTS = 3  # ops from the parting whose inputs are changed
MOST_OPS_OF_DATA = 6  # ops of data alone in front of them
MOST_AT_ONCE = 4  # ops alike, as what makes the two states of a cell
MOST_OPS_WITHOUT_HIT = 24  # ops that are computed again behind a change, or behind the last that the other side has
MOST_OPS_COMPUTED = 150
PATIENCE = 3  # ops whose changes are tried though one was met: another may explain the loss too
MOST_OPS_BEHIND_ONE_HIT = 2  # of these that may be wrong again behind what is met once
CHOICES = 8  # outputs that an op may take in place of one that it takes
FEWEST_NUMBERS_MET = 4  # numbers from which on the same ones are no chance
# Of a loss, by a changed pass: one number tells less than an output of many, and hundreds of changes are tried on it,
# so that it has to hold to a decade more than `CLOSE_OUTPUT`. Rounding leaves 1e-15 of it.
CLOSE_LOSS = 1e-11
UNCHANGED = 1e-8  # as near as this a pass is without the change: it explains nothing
# No scale, turned, halved, doubled, and the epsilons of norms, optimizers and clipped logarithms.
COMMON_CONSTANTS = (0.0, 1.0, -1.0, 2.0, 0.5, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12)
MOST_CONSTANTS = 24
MOST_OPS_LEFT_FOR_LATER = 12  # ops behind the parting in which what is left out there may be done
# Modules that torch computes of several ops, any of which may be the one that is changed.
MODULES = {"LocalResponseNorm": ("response_normalisation", "local response normalisation")}
# The same as functions: torch's, and the one of like_tf.
FUNCTIONS_OF_OPS = dict.fromkeys(("local_response_norm", "local_response_normalization"), MODULES["LocalResponseNorm"])
# What is done by one of these may be done by another, of what is turned round or inverted.
TURNED_ROUND = {kind: frozenset(kinds) for kinds in (("add", "sub", "rsub"), ("mul", "div")) for kind in kinds}
# For all changes of one side, as `work` counts them: 0.2 s of one processor as a ReLU, 0.6 s as a tanh. What is tried last
# is left out.
MOST_NUMBERS_COMPUTED = 50_000_000


class Side(NamedTuple):
    """One side's pass.

    Fields:
      passed: as it was recorded.
      start: number of the op at which it parts from the other, None where it has none.
      wrong: numbers of its ops whose output the other side has not.
      reached: numbers of those that the other side has too.
      counted: numbers of those whose output tells.
    """

    passed: Pass
    start: int | None
    wrong: frozenset[int]
    reached: frozenset[int]
    counted: frozenset[int]


class _Hit(NamedTuple):
    edit: Edit
    at: int  # of this side's op whose output that is
    number: int  # of the other side's op whose output comes of the edit
    of_loss: bool
    size: int
    met: Mapping[int, int] = {}  # all that comes of the edit: number of the other side's op to that of this side's


def repaired(reference: Side, candidate: Side, of_loss: bool) -> Cause | None:
    """Returns the one change that tells the passes apart, None where none does.

    Args:
      reference: its side.
      candidate: its own.
      of_loss: whether they part behind all layers.
    """
    # The reference is changed first: then the words say what the port does. Only where no change of it gives the port's
    # numbers is the port changed, as where it has an op too many.
    for own, other, turned in ((reference, candidate, False), (candidate, reference, True)):
        hit = _search(own, other, of_loss)
        if hit is not None:
            cause = _cause(hit, reference, candidate, turned, of_loss)
            number = hit.edit.number if turned else candidate.start
            cause = cause if hit.edit.dropped else _of_module(cause, candidate, number)
            return replace(cause, op=hit.edit.number if turned else cause.op)
    return None


def _of_module(cause: Cause, candidate: Side, number: int | None) -> Cause:
    """A change of what a module or function of torch's computes of several ops is named by what that is."""
    module = candidate.passed.ops[number].attributes.get("module") if number is not None else None
    line = candidate.passed.ops[number].line if number is not None else None
    called = next((each for each in FUNCTIONS_OF_OPS if line is not None and f"{each}(" in line.text), "")
    name, words = MODULES.get(str(module), FUNCTIONS_OF_OPS.get(called, ("", "")))
    return replace(cause, name=name, title=f"{words} by other numbers: {cause.title}") if name else cause


def _search(own: Side, other: Side, of_loss: bool) -> _Hit | None:
    if own.start is None or other.start is None:
        return None
    # Changes come the likeliest first. One that explains the loss ends the search; one that explains an output waits
    # for PATIENCE more ops, whose changes may explain the loss too.
    run, targets, ways = RecomputedPass(own.passed), _Targets(other), _Ways(other)
    first, left = None, PATIENCE
    for edits, changes in _changes(own, other, run, of_loss):
        for edit in edits:
            hits = _hits(run, edit, own.wrong, targets)
            if hits and ways.explained({hit.number for hit in hits}):
                if hits[-1].of_loss:
                    return hits[-1]
                if changes is not None and not _met_again(run, edit, changes, hits, targets):
                    continue
                # The first output behind the change, not the last: it is where the other side has it.
                first = first or hits[0]
            if run.work > MOST_NUMBERS_COMPUTED:
                return first
        left -= first is not None
        if not left:
            return first
    return first


def _met_again(run: RecomputedPass, edit: Edit, changes: Changes, hits: Sequence[_Hit], targets: "_Targets") -> bool:
    """Whether a change that does not explain the loss is met again where it is made in the next step of a loop too.

    Where there is no next step, or nothing of it can be computed, nothing speaks against it.
    """
    again = made_again(run, edit, changes, MOST_OPS_COMPUTED)
    if again is None or any(hit.at in again.outputs for hit in hits):
        return True
    # What the first change is met in shows nothing of the second.
    found = {targets.find(value, run.output(number)) for number, value in again.outputs.items()}
    return bool(found - {None, *(hit.number for hit in hits)})


def _changes(
    own: Side, other: Side, run: RecomputedPass, of_loss: bool
) -> Iterator[tuple[Iterable[Edit], Changes | None]]:
    """Yields the ops that may be changed, each with its changes: where the side parts, behind it, and in front of it.

    Beside them what yields the same changes of another op, None where they are only of this one.
    """
    ops, start = own.passed.ops, own.start
    assert start is not None
    near = Near(
        _kinds(other), list(_numbers(other)), list(_arrays(own, other)), (), list(_fed(other)), own.reached, of_loss
    )
    found = _behind(ops, start)
    of_weights = active(ops)
    inputs = [number for number in range(start) if number not in of_weights]
    # What is drawn at random differs between two sides that are right.
    found = [number for number in found if not any(is_drawn(each, ops) for each in ops[number].inputs)]

    def plainly(run: RecomputedPass, number: int) -> Iterator[Edit]:
        return plain_edits(run, number, near)

    def following(run: RecomputedPass, number: int) -> Iterator[Edit]:
        return followed(run, number, near)

    def taking(run: RecomputedPass, number: int) -> Iterator[Edit]:
        nearest = sorted((each for each in own.reached if each < number), reverse=True)[:CHOICES]
        return operand_edits(run, number, near._replace(choices=[*nearest, *inputs]))

    def taking_again(run: RecomputedPass, number: int) -> Iterator[Edit]:
        # In a later step nothing in front of an op is right by itself: all of the step are choices.
        return operand_edits(run, number, near._replace(choices=[*range(number - 1, start, -1), *inputs]))

    for number in found:
        yield plainly(run, number), plainly
    taken = [
        each for number in found[:MOST_OPS_WITH_OTHER_INPUTS] for each in ops[number].inputs if each in own.reached
    ]
    taken += [each for number in taken for each in ops[number].inputs if each in own.reached]
    for number in dict.fromkeys(taken):
        yield exchanged(run, number), None
        if plain(ops[number].kind) in CONCATENATING:
            yield plainly(run, number), plainly
    for number in found[:MOST_OPS_WITH_OTHER_INPUTS]:
        yield moved_edits(run, number, near), None
    for number in found:
        yield taking(run, number), taking_again
    for number in dict.fromkeys(taken):
        yield following(run, number), following
    # Nearest first: masks and lengths are made of data right before they are used.
    for number in islice(_of_data_before(own, found, of_weights), MOST_OPS_OF_DATA):
        yield plainly(run, number), None
    yield _at_once(own, run, near), None


def _of_data_before(own: Side, found: Sequence[int], of_weights: Collection[int]) -> Iterator[int]:
    """Yields the ops of data alone that some ops are made of, by how many ops lie between, of these the last first.

    Of ops of one line, such as those that cut a sequence into steps, the nearest stands for all: what is changed in one
    step only is nobody's mistake, and would leave none for what all steps are made of.
    """
    ops, seen, lines = own.passed.ops, set(found), set[tuple[str, Any]]()
    nearest = list(found)
    while nearest:
        before = {each for number in nearest for each in ops[number].inputs} - seen
        seen |= before
        nearest = sorted(before, reverse=True)
        for number in nearest:
            same = (ops[number].kind, ops[number].line)
            if number in of_weights or not ops[number].operands or same in lines:
                continue
            lines |= {same} if ops[number].line is not None else set()
            yield number


def _at_once(own: Side, run: RecomputedPass, near: Near) -> Iterator[Edit]:
    """Yields the changes of the op where a side parts, done to all like it too that take what is right and are wrong."""
    ops, start = own.passed.ops, own.start
    assert start is not None
    kind, shape = ops[start].kind, ops[start].shape
    alike = [
        number
        for number in sorted(own.wrong & own.counted - {start})
        if (ops[number].kind, ops[number].shape) == (kind, shape) and own.reached.issuperset(ops[number].inputs)
    ]
    if not 0 < len(alike) < MOST_AT_ONCE:
        return
    others = [{(each.name, each.changed): each.value for each in plain_edits(run, number, near)} for number in alike]
    for edit in plain_edits(run, start, near):
        values = [found.get((edit.name, edit.changed)) for found in others]
        beside = [(number, value) for number, value in zip(alike, values, strict=True) if value is not None]
        if len(beside) == len(alike):
            yield edit._replace(beside=tuple(beside))


def _behind(ops: Sequence[ForwardOp], start: int) -> list[int]:
    """An op and what comes of it, in order, as far as that is near."""
    found, behind = [start], {start}
    for number in range(start + 1, len(ops)):
        if behind & set(ops[number].inputs):
            behind.add(number)
            found.append(number)
        if len(found) > MOST_OPS_CHANGED:
            break
    return found


def _hits(run: RecomputedPass, edit: Edit, wrong: frozenset[int], targets: "_Targets") -> list[_Hit]:
    """Returns where the other side has what comes of an edit, in order."""
    hits, since, changes = list[_Hit](), 0, {edit.number: edit.value, **dict(edit.beside)}
    of_data = edit.number in run.of_data
    # Of the ops behind the change `since` counts those behind the last hit: a change that is right keeps being met, and
    # one that never is gives up after MOST_OPS_WITHOUT_HIT.
    for number, value in chain(changes.items(), run.after(changes, MOST_OPS_COMPUTED)):
        # What is made of data before anything is met, as a sequence that is cut into steps, the other side may have in one.
        since += not (of_data and number in run.of_data)
        if since > MOST_OPS_WITHOUT_HIT:
            break
        found = targets.find(value, run.output(number)) if number in wrong else None
        if found is not None:
            since = 0
            hits.append(_Hit(edit, number, found, targets.is_loss(found), value.size))
    # What is made of an output by itself shows nothing: the other side may have the same ops in one. And what is met
    # once, and not in what is computed of it, is a part that the other side has on its own way.
    alone = len(hits) == 1 and since > MOST_OPS_BEHIND_ONE_HIT and not hits[0].of_loss
    shown = not edit.follows or any(hit.at != edit.number for hit in hits)
    met = {hit.number: hit.at for hit in hits}
    return [hit._replace(met=met) for hit in hits] if shown and not alone else []


class _Ways:
    """The ways from a side's wrong outputs to its loss."""

    def __init__(self, side: Side) -> None:
        self._ops = side.passed.ops
        # Only what leads to the loss can explain it: a port computes accuracies and summaries too.
        losses = losses_of(self._ops)
        needed = upstream(self._ops, losses)
        self._losses = frozenset(losses)
        self._wrong = frozenset(side.wrong & side.counted & needed)
        self._active = active(self._ops)  # what a port makes of data alone it may well make in another way
        self._readers = [[each for each in after if each in needed] for after in readers(self._ops)]

    def explained(self, found: set[int]) -> bool:
        """Whether what is found is all that is wrong with what comes of it: else it may be a part that is computed apart."""
        if found & self._losses:
            return True
        # What is wrong and comes of what is found alone is found with it; ops are numbered in order, so that one pass
        # is enough.
        known = set(found)
        for number in sorted(self._wrong - found):
            wrong = self._wrong.intersection(self._ops[number].inputs) & (self._active | known)
            if wrong and wrong <= known:
                known.add(number)  # it comes of what is found, and of nothing else that is wrong
        return all(self._closed(number, known) for number in found)

    def _closed(self, number: int, known: set[int]) -> bool:
        """Whether all that reads an op takes nothing wrong but what is known, or its like."""
        beyond = [reader for reader in self._readers[number] if reader not in known]
        taken = {each for reader in beyond for each in self._ops[reader].inputs if each in self._wrong & self._active}
        return all(any(self._same_code(each, one) for one in known) for each in taken - known)

    def _same_code(self, number: int, other: int) -> bool:
        """Whether two ops are of one line that is called for two modules, from two lines, or again in a loop."""
        one, two = self._ops[number], self._ops[other]
        if one.line is None or two.line is None or one.kind != two.kind or one.line[:2] != two.line[:2]:
            return False
        return one.name != two.name or one.line.callers != two.line.callers or self._in_a_loop(number, other)

    def _in_a_loop(self, number: int, other: int) -> bool:
        """Whether another line of the function was run between two ops of one line."""
        own = self._ops[number].line
        between = (self._ops[each].line for each in range(min(number, other) + 1, max(number, other)))
        return any(
            own is not None
            and line is not None
            and (line.file, line.function, line.callers) == (own.file, own.function, own.callers)
            and line.line != own.line
            for line in between
        )


def is_whole(side: Side, number: int) -> bool:
    """Returns whether an op is all that is wrong with what reads it.

    Args:
      side: whose op it is.
      number: of the op.
    """
    return _Ways(side).explained({number})


class _Targets:
    """The outputs of a side that the other has not, by size."""

    def __init__(self, side: Side) -> None:
        self._ops = side.passed.ops
        self._by_size: dict[int, list[tuple[int, Array, float, float]]] = defaultdict(list)
        self._losses = frozenset(losses_of(self._ops))
        for number in sorted(side.wrong & side.counted & upstream(self._ops, self._losses)):
            value = side.passed.value(number)
            if value is None or value.dtype.kind != "f" or not np.isfinite(value).all():
                continue
            flat = np.asarray(value, np.float64)
            if value.size == 1 and not self.is_loss(number):
                continue
            # Two or three numbers, or many that are all one, are met by chance by one of hundreds of changes.
            if 1 < value.size < FEWEST_NUMBERS_MET or np.ptp(flat) == 0.0 < value.size - 1:
                continue
            self._by_size[value.size].append((number, flat, float(flat.sum()), float((flat**2).sum())))

    def is_loss(self, number: int) -> bool:
        """Whether an op gives the loss."""
        return number in self._losses

    def find(self, value: Array, unchanged: Array | None) -> int | None:
        """Returns the number of the op that gives a value, None where none does, or where the unchanged pass is as near."""
        if value.dtype.kind != "f" or value.size not in self._by_size:
            return None
        made = np.asarray(value, np.float64)
        # A change may overflow: a logarithm of what was below zero, an exponential of what was scaled.
        with np.errstate(all="ignore"):
            total, squares = float(made.sum()), float((made**2).sum())
        if not np.isfinite(squares):
            return None
        for number, wanted, s, q in self._by_size[value.size]:
            # Numbers that are 1e-9 apart, by `alike`, leave sums within 3e-9 of sqrt(n q) and squares within 6e-9 of q:
            # cheap, and rejects none that it would take.
            if abs(squares - q) > 1e-7 * q or abs(total - s) > 1e-7 * np.sqrt(q * value.size):
                continue
            if self._is(made, wanted, unchanged):
                return number
        return None

    @staticmethod
    def _is(made: Array, wanted: Array, unchanged: Array | None) -> bool:
        pair, close = align(wanted, made), CLOSE_LOSS if made.size == 1 else CLOSE
        if pair is None or not alike(wanted, pair.candidate, close):
            return _is_in_another_order(made, wanted, unchanged)
        # A change that hardly moves an output is as near to what is wanted as no change is: it explains nothing.
        before = align(wanted, unchanged) if unchanged is not None and unchanged.size == wanted.size else None
        return before is None or not alike(wanted, before.candidate, UNCHANGED)


def _is_in_another_order(made: Array, wanted: Array, unchanged: Array | None) -> bool:
    """Whether two vectors hold the same numbers, which without the change they do not.

    Of a number for each example, or of what is picked by a mask, the sides may go through the examples otherwise.
    """
    if made.size < FEWEST_NUMBERS_MET or made.size != max(made.shape) or wanted.size != max(wanted.shape):
        return False
    numbers = np.sort(wanted, axis=None)
    if not alike(numbers, np.sort(made, axis=None), CLOSE):
        return False
    same = unchanged is not None and unchanged.size == wanted.size
    return unchanged is None or not same or not alike(numbers, np.sort(unchanged, axis=None), UNCHANGED)


def _kinds(side: Side) -> set[str]:
    """The kinds of a side's ops where it parts."""
    start = side.start or 0
    return {plain(op.kind) for op in side.passed.ops[start : start + MOST_OPS_CHANGED]}


def _numbers(side: Side) -> Iterator[float]:
    """Yields the constants that a side has where it parts, and what people have in their place."""
    seen: dict[float, None] = {}
    ops = side.passed.ops
    start = side.start if side.start is not None else 0
    for number in range(start, min(start + MOST_OPS_CHANGED, len(ops))):
        op = ops[number]
        for each in op.attributes.values():
            if isinstance(each, float) or (isinstance(each, int) and not isinstance(each, bool)):
                seen.setdefault(float(each))
        for at, operand in enumerate(op.operands):
            value = side.passed.operand(number, at) if operand.op is None and not op.weights else None
            if value is not None and value.size == 1 and value.dtype.kind in "fi":
                seen.setdefault(float(value.reshape(())))
    near = [each for each in seen if np.isfinite(each)][:MOST_CONSTANTS]
    # One side multiplies by what the other divides by.
    inverse = [1.0 / each for each in near if each not in (0.0, 1.0, -1.0)]
    yield from dict.fromkeys([*near, *inverse, *COMMON_CONSTANTS])


def _arrays(own: Side, other: Side) -> Iterator[tuple[str, Array]]:
    """Yields the inputs that this side reads anywhere, and then the constants that the other side has where it parts."""
    # In this order: what has a name on this side is told by that, and is no value of the other side's own.
    seen = set[str]()
    for number, op in enumerate(own.passed.ops):
        for at, operand in enumerate(op.operands):
            if operand.op is None and operand.name and operand.name not in seen and not op.weights:
                seen.add(operand.name)
                value = own.passed.operand(number, at)
                if value is not None and value.size > 1:
                    yield operand.name, value
    ops, start = other.passed.ops, other.start if other.start is not None else 0
    for number in range(start, min(start + MOST_OPS_CHANGED, len(ops))):
        for at, operand in enumerate(ops[number].operands):
            value = other.passed.operand(number, at) if operand.op is None and ops[number].inputs else None
            if value is not None and value.size > 1 and operand.name not in ops[number].weights:
                yield "", value


def _fed(side: Side) -> Iterator[Array]:
    """Yields what a side's first ops take from others, where it parts."""
    ops, start = side.passed.ops, side.start if side.start is not None else 0
    for number in _behind(ops, start)[:MOST_OPS_WITH_OTHER_INPUTS]:
        for at, operand in enumerate(ops[number].operands):
            value = side.passed.operand(number, at) if operand.name not in ops[number].weights else None
            if value is not None and value.size > 1 and value.dtype.kind in "fb":
                yield value


def _cause(hit: _Hit, reference: Side, candidate: Side, turned: bool, of_loss: bool) -> Cause:
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
    if turned and edit.dropped == "mask" and FILLING & _kinds(reference):
        return build_cause("loss_function" if of_loss else OTHER_OPERATION, "choice", evidence=evidence, **at)
    if turned and edit.dropped:
        variant = "sooner" if _later(edit, reference) else "only in the port"
        return build_cause(_of_extra(edit, of_loss), variant, evidence=evidence, dropped=edit.dropped, **at)
    if not turned and edit.name == "op_left_out" and _behind_all_met(hit, reference, candidate):
        kind = plain(reference.passed.ops[edit.number].kind)
        return build_cause(
            "loss_function" if of_loss else OTHER_OPERATION, "later", evidence=evidence, dropped=kind, **at
        )
    if edit.name in ("op_left_out", "activation_function") and _later(edit, candidate):
        return build_cause(OTHER_OPERATION, "later", evidence=evidence, dropped=edit.dropped, **at)
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
    lines = [ops[each].line for each in (number, *op.inputs)]
    taking = [ops[each].line for each in readers(ops)[number]]
    if len(op.inputs) != 1 or not taking or None in (*lines, *taking):
        return False
    own, given, *_ = [(line.file, line.function, line.callers) for line in lines if line is not None]
    return own == given and own not in [(line.file, line.function, line.callers) for line in taking if line is not None]


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


def _behind_all_met(hit: _Hit, reference: Side, candidate: Side) -> bool:
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
    return any(
        alike(pair.reference, pair.candidate, CLOSE)
        for each in later - hit.met.keys()
        if plain(ops[each].kind) in TURNED_ROUND[kind]
        for one in taken
        for other in _operands(candidate.passed, each)
        if (pair := align(one, other)) is not None
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
    return op.line.shown if op.line is not None else " ".join(each for each in (op.name, op.kind) if each)
