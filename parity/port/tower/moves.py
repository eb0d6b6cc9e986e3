"""What a tower writes into moving statistics that are no layer's, as what they hold behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from parity.port.tower.layers import BATCH_NORM, LAYERS
from parity.port.tower.ops import CONST, FEED, LOOP, SETTING, VARIABLE, Op, Tensor, Tower, Write, ops_of
from parity.port.tower.simplify import axes_of

UNKNOWN_KINDS = ("State", "Switch", "RefSwitch", "Merge", "Placeholder", "Enter", "LoopState")
GIVEN_KINDS = (CONST, FEED, SETTING, VARIABLE)
# The statistics of its batch that a batch norm gives beside the normalised one, by the number of the output.
# tf.nn.fused_batch_norm normalises with the biased variance, and gives the one with n - 1 to the moving statistic.
VARIANCE = "BatchVariance"  # unbiased
BATCH_STATISTICS = {1: "Mean", 2: VARIANCE}


def with_own_moves(tower: Tower) -> Tower:
    """Returns a tower as it was read, where only its own writes say what is there behind them.

    All towers write the same statistics. Those of this one take what its loss is computed of: another one's run through
    weights once more. Counters take nothing of either, and are any tower's.
    """
    model = {*ops_of([tower.loss])}
    chosen: dict[str, Write | None] = {}
    for variable in dict.fromkeys(each.variable for each in tower.writes):
        ways = [each for each in tower.writes if each.variable == variable and _is_own(each, model)]
        # Of what a tower writes twice (a branch for training and one for evaluation), the way that runs through its
        # own loss.
        most = max((_shared(each, model) for each in ways), default=0)
        ways = [each for each in ways if _shared(each, model) == most]
        # Of ways that this tower has several of, a later one would take what an earlier one leaves.
        chosen[variable] = ways[0] if len(ways) == 1 or (ways and not most) else None
    # What is written on the way to a statistic belongs to whoever writes that.
    writes = [each if chosen[each.variable] is each else each._replace(after=None) for each in tower.writes]
    after = iter(_as_in_the_graph([each.after for each in writes if each.after is not None], model))
    writes = [each._replace(after=next(after)) if each.after is not None else each for each in writes]
    return replace(tower, writes=writes)


def _as_in_the_graph(values: Sequence[Tensor], model: set[Op]) -> list[Tensor]:
    """Returns values whose numbers are the float32 ones of the graph, and no decimal numbers that a script may have written.

    TensorFlow's own code computes with them: of a decay of 0.9 the weight is 0.100000001, and its powers are those of
    0.899999999. What the loss is computed of too stays as it is there.
    """
    made: dict[Op, Op] = {}
    for op in ops_of(values, stop=frozenset(model)):
        wide = op.kind == CONST and op.dtypes == ["float32"] and "value" in op.attributes
        # Ops of the model are shared, and stay one: a copy of them would be computed a second time by the port.
        if op in model or (op.kind in GIVEN_KINDS and not wide):
            continue
        attributes = {**op.attributes, "value": op.attributes["value"].astype(np.float64)} if wide else op.attributes
        inputs = [Tensor(made.get(each.op, each.op), each.number) for each in op.inputs]
        made[op] = Op(op.kind, op.name, inputs, attributes, list(op.shapes), list(op.dtypes), op.place)
    return [Tensor(made.get(each.op, each.op), each.number) for each in values]


def _is_own(write: Write, model: set[Op]) -> bool:
    if write.after is None:
        return False
    reads = (op for op in ops_of([write.after]) if any(_is_weight(each) for each in op.inputs))
    return all(op in model for op in reads)


def _is_weight(tensor: Tensor) -> bool:
    return tensor.kind == VARIABLE and tensor.op.attributes.get("kind") == "var"


def _shared(write: Write, model: set[Op]) -> int:
    """How much of what a statistic is computed of the loss is computed of too."""
    assert write.after is not None
    return sum(op in model and op.kind != CONST and op.kind != VARIABLE for op in ops_of([write.after]))


def moves_of(tower: Tower, layers: Iterable[Op]) -> list[Write]:
    """Returns what is written op by op: what no layer moves and all is known of.

    Args:
      tower: with layers.
      layers: the ops of the model and the loss.
    """
    moved = {op.attributes.get(name) for op in layers if op.kind == BATCH_NORM for name in ("mean", "variance")}
    found = [each for each in tower.writes if each.after is not None and each.variable not in moved]
    # A write goes when one goes that it reads, as far as that reaches: the loop ends when none went.
    known = {each.variable for each in found}
    while True:
        kept = [each for each in found if _is_known(each, known)]
        if len(kept) == len(found):
            break
        found, known = kept, {each.variable for each in kept}
    return _needed(found)


def _is_known(write: Write, known: set[str]) -> bool:
    assert write.after is not None
    ops = ops_of([write.after])
    states = {op.name for op in ops if op.kind == VARIABLE and op.attributes.get("kind") == "state"}
    return states <= known and not any(op.kind in UNKNOWN_KINDS for op in ops)


def _needed(found: Sequence[Write]) -> list[Write]:
    """Without variables that no statistic is computed of any more."""
    wanted = {each.variable for each in found if each.is_statistic}
    while True:
        read = {op.name for each in found if each.variable in wanted and each.after for op in ops_of([each.after])}
        more = {each.variable for each in found} & read - wanted
        if not more:
            return [each for each in found if each.variable in wanted]
        wanted |= more


def with_batch_statistics(values: Sequence[Tensor]) -> list[Tensor]:
    """Returns values computed of what a fused batch norm takes, where they were of the statistics that it gives."""
    made: dict[Tensor, Tensor] = {}

    def now(tensor: Tensor) -> Tensor:
        if tensor.kind != BATCH_NORM or tensor.number not in BATCH_STATISTICS:
            return tensor
        if tensor not in made:
            taken, norm = tensor.op.inputs[:1], tensor.op
            first = str(norm.attributes.get("data_format", "NHWC")).startswith("NC")
            rank = len(taken[0].shape)
            # Every axis but that of the channels.
            axes = [axis for axis in range(rank) if axis != (1 if first else rank - 1)]
            listed = Op(CONST, f"{norm.name}/axes", [], {"value": np.array(axes)}, [(len(axes),)], ["int32"])
            shape = taken[0].shape[1 if first else rank - 1]
            # Of one value for each channel torch's is not a number, and TensorFlow's is 0.
            if tensor.number == 2 and np.prod([taken[0].shape[axis] for axis in axes]) == 1:
                return tensor
            kind = BATCH_STATISTICS[tensor.number]
            inputs = [taken[0], listed.output()]
            op = Op(kind, f"{norm.name}/{kind}", inputs, {}, [(shape,)], [taken[0].dtype], norm.place)
            made[tensor] = op.output()
        return made[tensor]

    for op in ops_of(values):
        if op.kind != BATCH_NORM:
            op.inputs[:] = [now(each) for each in op.inputs]
    return [now(each) for each in values]


def reached(values: Sequence[Tensor], model: Sequence[Op]) -> tuple[list[Op], list[Tensor]]:
    """Returns the ops of some values that are not of the model, and what they take of it."""
    inside = frozenset(model)
    ops = [op for op in ops_of(values, stop=inside) if op not in inside and op.inputs]
    taken = [each for op in ops for each in op.inputs] + [*values]
    return ops, [*dict.fromkeys(each for each in taken if each.op in inside or each.kind == FEED)]


def moves_in(moves: Sequence[Write], model: Sequence[Op], data: Sequence[str]) -> list[Write]:
    """Returns those of some writes that a model can make: of what it is given and computes itself."""

    def can(write: Write) -> bool:
        ops, taken = reached([write.after] if write.after else [], model)
        fed = [each.op.name for each in taken if each.kind == FEED]
        of_layers = any(op.kind in (*LAYERS, LOOP) for op in ops)
        inputs = [each for op in ops for each in op.inputs]
        strange = any(each.op not in {*ops, *model} and each.kind not in GIVEN_KINDS for each in inputs)
        strange |= any(each.kind == BATCH_NORM and each.number > 0 for each in inputs)
        return not of_layers and not strange and all(name in data for name in fed)

    kept = [each for each in moves if can(each)]
    known = {each.variable for each in kept}
    return _needed([each for each in kept if _is_known(each, known)])


def without_gradient(values: Sequence[Tensor], model: Sequence[Op]) -> list[Tensor]:
    """Returns values as they are computed where nothing is differentiated: what only stops gradients is left out.

    Of a mean whose axes stay and are squeezed afterwards, as tf.nn.moments makes it, the axes go at once. The ops of the
    model stay as they are.
    """
    made: dict[Op, Tensor] = {}

    def now(tensor: Tensor) -> Tensor:
        found = made.get(tensor.op, tensor)
        return found if tensor.op in made and tensor.number == 0 else tensor

    for op in reached(values, model)[0]:
        copy = Op(
            op.kind, op.name, [now(each) for each in op.inputs], op.attributes, op.shapes, op.dtypes, op.place
        ).output()
        taken = copy.op.inputs[0]
        if op.kind == "StopGradient":
            copy = taken
        elif op.kind == "Squeeze" and taken.kind == "Mean" and taken.op.attributes.get("keep_dims"):
            axes = axes_of(taken.op) or ()
            if tuple(size for axis, size in enumerate(taken.shape) if axis not in axes) == op.output().shape:
                attributes = {**taken.op.attributes, "keep_dims": False}
                inputs, place = taken.op.inputs, taken.op.place
                copy = Op("Mean", op.name, inputs, attributes, list(op.shapes), list(op.dtypes), place).output()
        made[op] = copy
    return [now(each) for each in values]
