"""Finds in two forward passes what goes into their losses: what both sides have, and is read by what they have not."""

from collections.abc import Iterator

import numpy as np

from parity.diagnose.layers.loss_sums import place_of
from parity.judge.metrics import is_finite
from parity.locate.downstream import active, behind_difference, upstream
from parity.locate.matching import Pass, Reached
from parity.trace import ForwardOp
from parity.trace.arrays import Array

MOST_OUTPUTS = 8  # of each side; for each, terms are fitted
MOST_ELEMENTS_OF_OUTPUT = 2_000_000  # 16 MB of float64: a larger output is no logits
STACKING = frozenset(["stack", "cat", "concat", "concatenate", "Pack", "ConcatV2"])
# Names of the functions and classes of both sides, and of the scope that TensorFlow computes the sigmoid's in.
CROSS_ENTROPIES = ("crossentropy", "bceloss", "bcewithlogits", "logisticloss", "nllloss")
MOST_OPS_BEFORE = 2  # ops before those that are read: what a mask was picked from


def boundary(
    reference: Pass, candidate: Pass, reached: Reached, losses: tuple[float, float]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns what goes into both losses: dict of name to output of layers, and to what is made of data alone.

    Args:
      reference: its pass.
      candidate: its own.
      reached: which of their outputs the other side has too.
      losses: their values.
    """
    outputs: dict[str, Array] = {}
    data: dict[str, Array] = {}
    sides = ((candidate, reached.candidate, 1), (reference, reached.reference, 0))
    # The candidate's first, by its names; then what only the reference shows, up to twice as many in all.
    for most, (passed, known, side) in enumerate(sides, 1):
        of_weights, wrong = active(passed.ops), behind_difference(passed.ops, reached.told[side], known)
        end = place_of(passed, losses[side])
        used = upstream(passed.ops, [] if end is None else [end])
        for number in _read(passed, of_weights - wrong, wrong & of_weights & used):
            _add(outputs, passed, number, most * MOST_OUTPUTS)
        for number in sorted(used - of_weights, reverse=True):
            _add(data, passed, number, most * MOST_OUTPUTS)
    return outputs, data


def is_cross_entropy(op: ForwardOp) -> bool:
    """Returns whether an op is a part of what its source calls a cross entropy."""
    said = f"{op.kind} {op.name} {op.line.text if op.line is not None else ''}".lower().replace("_", "")
    return any(name in said for name in CROSS_ENTROPIES)


def _add(found: dict[str, Array], passed: Pass, number: int, most: int) -> None:
    value = passed.value(number)
    if value is None or not 1 < value.size <= MOST_ELEMENTS_OF_OUTPUT or len(found) >= most or not is_finite(value):
        return
    if not any(each.shape == value.shape and np.allclose(each, value, rtol=1e-12, atol=0.0) for each in found.values()):
        op = passed.ops[number]
        name = " ".join(part for part in (op.name, op.kind) if part) if op.name in found or not op.name else op.name
        found.setdefault(name if name not in found else f"{name} {number}", np.asarray(value, np.float64))


def _read(passed: Pass, known: set[int], wrong: set[int]) -> Iterator[int]:
    """Yields what is right and read by what is not, what is stacked of such, and then what comes right before it."""
    wanted: list[int] = []
    for number in sorted(wrong):
        op = passed.ops[number]
        if op.kind in STACKING and op.inputs and all(each in known or each in wanted for each in op.inputs):
            wanted.insert(0, number)
        else:
            wanted += [each for each in op.inputs if each in known and each not in wanted]
    yield from wanted
    for _ in range(MOST_OPS_BEFORE):
        wanted = [each for number in wanted for each in passed.ops[number].inputs if each in known]
        yield from wanted
