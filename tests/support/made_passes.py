"""Forward passes of arrays, written down op by op, for tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parity.locate.matching import Pass
from parity.trace import ForwardOp, Operand, SourceLine


def passed(*ops: Sequence[Any]) -> Pass:
    """Returns a pass.

    Args:
      *ops: ``(kind, takes, output)``, and attributes if it has any: an int among what is taken is an op before, all else
        an array or a constant.
    """
    listed, values, taken = [], [], []
    for number, (kind, takes, output, *attributes) in enumerate(ops):
        operands = [
            Operand(str(at), "", each, list(np.shape(values[each])))
            if isinstance(each, int)
            else Operand(str(at), f"c{number}{at}", None, list(np.shape(each)))
            for at, each in enumerate(takes)
        ]
        inputs = [each for each in takes if isinstance(each, int)]
        weights = ["w"] if not inputs else []
        line = SourceLine("model.py", number + 1, "tower", f"line {number}")
        of_op = attributes[0] if attributes else {}
        listed.append(
            ForwardOp(f"op{number}", kind, inputs, weights, list(np.shape(output)), of_op, line, tuple(operands))
        )
        values.append(np.asarray(output))
        taken.append([values[each] if isinstance(each, int) else np.asarray(each) for each in takes])
    return Pass(listed, values.__getitem__, lambda number, at: taken[number][at])
