"""Finds the one change of a forward pass that makes the other one's numbers of it.

Where passes part, the ops of one side near there are changed one at a time and what comes of them is computed again. A
change is named where what comes of it is what the other side has and the unchanged pass has not: it was done there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.edits.cause import cause_of_hit
from parity.diagnose.edits.edit import Edit, Near
from parity.diagnose.edits.operands import exchanged, followed, moved_edits, operand_edits
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.edits.repeated import Changes, made_again
from parity.diagnose.edits.side import MOST_OPS_CHANGED, Hit, Side, beginning, kinds_of
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.rearranging import CONCATENATING
from parity.diagnose.ops.table import plain
from parity.judge.result import Cause
from parity.locate.divergence import is_drawn
from parity.locate.downstream import active, losses_of, readers, upstream
from parity.locate.layouts import align
from parity.locate.matching import alike
from parity.trace import ForwardOp
from parity.trace.arrays import Array

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
# For all changes of one side, as `work` counts them: 0.2 s of one processor as a ReLU, 0.6 s as a tanh. What is tried last
# is left out.
MOST_NUMBERS_COMPUTED = 50_000_000


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
            return cause_of_hit(hit, reference, candidate, turned, of_loss)
    return None


def _search(own: Side, other: Side, of_loss: bool) -> Hit | None:
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


def _met_again(run: RecomputedPass, edit: Edit, changes: Changes, hits: Sequence[Hit], targets: "_Targets") -> bool:
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
        kinds_of(other), list(_numbers(other)), list(_arrays(own, other)), (), list(_fed(other)), own.reached, of_loss
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

    # What parts too comes before what is behind: left out whole, a scale beside a norm explains the norm's own numbers.
    for number in (*found[:1], *_parting_too(own, found), *found[1:]):
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


def _parting_too(own: Side, found: Sequence[int]) -> list[int]:
    """Returns the ops that part too, of right inputs, and whose outputs some ops take.

    Where a norm is one op on one side and several on the other, its numbers may have no like there, though it is right: then
    it is the scale that it is multiplied by that parts.
    """
    ops = own.passed.ops
    taken = dict.fromkeys(each for number in found for each in ops[number].inputs if each not in found)
    return [each for each in taken if each in own.wrong and own.reached.issuperset(ops[each].inputs)]


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
    """Yields the changes of the op where a side parts, done to all like it too that are wrong and take nothing wrong."""
    ops, start = own.passed.ops, own.start
    assert start is not None
    kind, shape = ops[start].kind, ops[start].shape
    alike = [
        number
        for number in sorted(own.wrong & own.counted - {start})
        # Right is what nothing shows to be wrong: of a mask's zeros and ones no number tells.
        if (ops[number].kind, ops[number].shape) == (kind, shape) and own.wrong.isdisjoint(ops[number].inputs)
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


def _hits(run: RecomputedPass, edit: Edit, wrong: frozenset[int], targets: "_Targets") -> list[Hit]:
    """Returns where the other side has what comes of an edit, in order."""
    hits, changes = list[Hit](), {edit.number: edit.value, **dict(edit.beside)}
    of_data = edit.number in run.of_data
    # Of the ops behind the change `since` has those behind the last hit: a change that is right keeps being met, and
    # one that never is gives up after MOST_OPS_WITHOUT_HIT. A line that is run over and over, as for each pair of fields,
    # counts once: the other side may have all of it in one op.
    since = set[tuple[str, Any]]()
    for number, value in chain(changes.items(), run.after(changes, MOST_OPS_COMPUTED)):
        # What is made of data before anything is met, as a sequence that is cut into steps, the other side may have in one.
        if not (of_data and number in run.of_data):
            op = run.ops[number]
            since.add((op.kind, op.line if op.line is not None else number))
        if len(since) > MOST_OPS_WITHOUT_HIT:
            break
        found = targets.find(value, run.output(number)) if number in wrong else None
        if found is not None:
            since.clear()
            hits.append(Hit(edit, number, found, targets.is_loss(found), value.size))
    # What is made of an output by itself shows nothing: the other side may have the same ops in one. And what is met
    # once, and not in what is computed of it, is a part that the other side has on its own way.
    alone = len(hits) == 1 and len(since) > MOST_OPS_BEHIND_ONE_HIT and not hits[0].of_loss
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


def _numbers(side: Side) -> Iterator[float]:
    """Yields the constants that a side has where it parts, and what people have in their place."""
    seen: dict[float, None] = {}
    ops = side.passed.ops
    start = beginning(side)
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
    ops, start = other.passed.ops, beginning(other)
    for number in range(start, min(start + MOST_OPS_CHANGED, len(ops))):
        for at, operand in enumerate(ops[number].operands):
            value = other.passed.operand(number, at) if operand.op is None and ops[number].inputs else None
            if value is not None and value.size > 1 and operand.name not in ops[number].weights:
                yield "", value


def _fed(side: Side) -> Iterator[tuple[str, Array]]:
    """Yields what a side's first ops take from others, where it parts, each with the kind of op."""
    ops, start = side.passed.ops, side.start if side.start is not None else 0
    for number in _behind(ops, start)[:MOST_OPS_WITH_OTHER_INPUTS]:
        for at, operand in enumerate(ops[number].operands):
            value = side.passed.operand(number, at) if operand.name not in ops[number].weights else None
            if value is not None and value.size > 1 and value.dtype.kind in "fb":
                yield ops[number].kind, value
