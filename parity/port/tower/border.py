"""Finds the border between a model and its loss: between what data alone reaches and what labels reach."""

from collections.abc import Sequence
from dataclasses import dataclass

from parity.port.tower.layers import LAYERS
from parity.port.tower.loops import BODY
from parity.port.tower.ops import CONST, FEED, LOOP, SETTING, VARIABLE, Op, Tensor, in_order, ops_of, users_of
from parity.port.tower.regions import DRAWING_KINDS

# Ops that a loss is made of where no label separates it from the model, as far back as they stand.
ENDS = ("Mean", "Sum", "Square", "SquaredDifference", "Neg", "Abs", "Log", "L2Loss", "Softplus", "Max", "Min")
PENALTIES = ("Softplus", "Square", "SquaredDifference", "Abs", "Log")
ARITHMETIC = ("Add", "AddV2", "Sub", "Mul", "RealDiv")


@dataclass
class Border:
    """The two regions of a tower.

    Attributes:
      model: ops of the model, in the order of the script.
      loss: ops of the loss, likewise.
      outputs: what the model gives and the loss takes.
      data: names of the feeds that the model takes.
      given: names of the feeds that the loss takes itself.
    """

    model: list[Op]
    loss: list[Op]
    outputs: list[Tensor]
    data: list[str]
    given: list[str]


def border_of(wanted: Sequence[Tensor]) -> Border:
    """Returns the regions of what some tensors need.

    Args:
      wanted: parts of the loss.
    """
    ops = ops_of(wanted)
    fed = _feeds_by_op(ops)
    # What is fed and meets no weight on its way is a label; from where it joins, everything is loss.
    labels = _labels(ops, fed)
    of_loss = _with_users({op for op in ops if fed[op] & labels}, ops) | _of_variables_alone(ops, fed)
    # Autoencoders and language models compare with what they were fed: the border is where arithmetic ends.
    if not labels:
        of_loss |= _ends(wanted)
    of_loss = _with_users({op for op in of_loss if op.inputs}, ops)
    # Draws are the model's even where only the loss takes them, so that they come in the order of the script's.
    model = in_order(op for op in ops if (op not in of_loss and op.inputs) or _is_drawn(op))
    loss = in_order(op for op in of_loss)
    outputs = [*dict.fromkeys(each for op in loss for each in op.inputs if each.op in set(model))]
    outputs += [each for each in wanted if each.op in set(model) and each not in outputs]
    data = [*dict.fromkeys(each.op.name for op in model for each in op.inputs if each.kind == FEED)]
    given = [*dict.fromkeys(each.op.name for op in loss for each in op.inputs if each.kind == FEED)]
    return Border(model, loss, outputs, data, given)


def _is_drawn(op: Op) -> bool:
    return not op.inputs and op.kind not in (CONST, FEED, SETTING, VARIABLE)


def _feeds_by_op(ops: Sequence[Op]) -> dict[Op, set[str]]:
    """By op what is fed to it; a draw that weights take, as the noise of a generator, is data as a feed is."""
    fed: dict[Op, set[str]] = {}
    drawn: dict[Op, set[str]] = {}
    taken: set[str] = set()
    for op in ops:
        fed[op] = {op.name} if op.kind == FEED else set().union(*(fed[each.op] for each in op.inputs))
        drawn[op] = {op.name} if op.kind in DRAWING_KINDS else set().union(*(drawn[each.op] for each in op.inputs))
        if _has_variables(op):
            taken |= drawn[op]
    return {op: fed[op] | drawn[op] & taken for op in ops}


def _labels(ops: Sequence[Op], fed: dict[Op, set[str]]) -> set[str]:
    """The feeds that no op with variables takes anything of."""
    found: set[str] = set().union(*fed.values())
    for op in ops:
        if _has_variables(op):
            found -= fed[op]
    return found


def _has_variables(op: Op) -> bool:
    inside = op.attributes[BODY].all_ops() if op.kind == LOOP else ()
    return (
        op.kind in LAYERS
        or any(each.kind == VARIABLE for each in op.inputs)
        or any(_has_variables(each) for each in inside)
    )


def _of_variables_alone(ops: Sequence[Op], fed: dict[Op, set[str]]) -> set[Op]:
    """Ops that need nothing fed and that nothing of the model takes: weight decay."""
    users = users_of(ops)
    needed: set[Op] = set()
    for op in reversed(ops):
        if any(fed[user] or user in needed for user in users[op]) and not fed[op]:
            direct = [user for user in users[op] if fed[user] or user in needed]
            if any(_has_variables(user) or not _joins(user) for user in direct):
                needed.add(op)
    return {op for op in ops if op.inputs and not fed[op] and op not in needed}


def _joins(op: Op) -> bool:
    """Whether an op only adds numbers up, as the terms of a loss are."""
    return op.kind in (*ARITHMETIC, "AddN") and op.output().shape == ()


def _with_users(found: set[Op], ops: Sequence[Op]) -> set[Op]:
    """Some ops and everything that takes from them."""
    found = set(found)
    for op in ops:
        if any(each.op in found for each in op.inputs):
            found.add(op)
    return found


def _ends(wanted: Sequence[Tensor]) -> set[Op]:
    """The reductions and the arithmetic at the end."""
    found: set[Op] = set()
    pending = [each.op for each in wanted]
    while pending:
        op = pending.pop()
        if op in found or not _is_end(op):
            continue
        found.add(op)
        pending += [each.op for each in op.inputs]
    return found


def _is_end(op: Op) -> bool:
    if op.kind in ENDS:
        return True
    computed = [each for each in op.inputs if each.kind != CONST]
    if op.kind not in (*ARITHMETIC, "AddN"):
        return False
    # The sum of what was made a penalty of before, example by example, is of the loss too.
    return len(computed) < 2 or all(each.shape == () or each.kind in PENALTIES for each in computed)
