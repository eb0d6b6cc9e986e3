"""How a moving statistic is moved: by which batch's statistic, and how much of the old one stays."""

from typing import NamedTuple

from parity.port.tower.ops import VARIABLE, Tensor
from parity.port.tower.simplify import number_of

TWO_ROUNDINGS = 1e-6  # of two weights that make one, relative to it
ASSIGNMENTS = ("Assign", "AssignVariableOp")


class Moved(NamedTuple):
    """What is written into a moving statistic.

    Fields:
      source: the batch's statistic.
      decay: the weight of the old one.
      biased, step: the variables of an average that makes up for its start at zero; "" of any other.
    """

    source: Tensor
    decay: float
    biased: str = ""
    step: str = ""


def moved(kind: str, value: Tensor) -> Moved | None:
    """Returns how a statistic is moved, None where that is no way that a layer has.

    Args:
      kind: of the op that writes it.
      value: what that is given.
    """
    if kind.startswith("AssignSub"):
        return _step_back(value)
    if kind in ASSIGNMENTS and value.kind in ("Add", "AddV2"):
        for old, new in (value.op.inputs, value.op.inputs[::-1]):
            kept, source = _times_number(old), _times_number(new)
            # Written by hand: old * decay + new * (1 - decay), the two weights each rounded to float32.
            if kept and source and kept[0].kind == VARIABLE and abs(kept[1] + source[1] - 1) < TWO_ROUNDINGS:
                return Moved(source[0], kept[1])
    return _debiased(value) if kind in ASSIGNMENTS else None


def _step_back(value: Tensor) -> Moved | None:
    """``(old - new) * (1 - decay)``, which assign_moving_average takes off the old one."""
    if value.kind == "Mul":
        for difference, factor in (value.op.inputs, value.op.inputs[::-1]):
            number = number_of(factor)
            if number is not None and difference.kind == "Sub":
                return Moved(difference.op.inputs[1], 1 - number)
    return None


def _debiased(value: Tensor) -> Moved | None:
    """``biased / (1 - decay ** step)`` of what both variables then hold: _zero_debias of moving_averages.py, 1.15."""
    if value.kind != "RealDiv" or value.op.inputs[0].kind != "Sub" or value.op.inputs[1].kind != "Sub":
        return None
    (biased, change), (one, power) = (each.op.inputs for each in value.op.inputs)
    back = _step_back(change)
    if back is None or power.kind != "Pow" or number_of(one) != 1:
        return None
    base, count = power.op.inputs
    decay, step = number_of(base), count.op.inputs[0] if count.kind in ("Add", "AddV2") else count
    from_old = biased.kind == VARIABLE and change.op.inputs and biased in [*_operands(change)]
    counted = step.kind == VARIABLE and count is not step and number_of(count.op.inputs[1]) == 1
    if decay is None or abs(decay - back.decay) > TWO_ROUNDINGS or not from_old or not counted:
        return None
    return Moved(back.source, back.decay, biased.op.name, step.op.name)


def _operands(change: Tensor) -> list[Tensor]:
    """What the difference begins with that a change is a part of."""
    return [each.op.inputs[0] for each in change.op.inputs if each.kind == "Sub"]


def _times_number(tensor: Tensor) -> tuple[Tensor, float] | None:
    if tensor.kind == "Mul":
        for taken, factor in (tensor.op.inputs, tensor.op.inputs[::-1]):
            number = number_of(factor)
            if number is not None:
                return taken, number
    return None
