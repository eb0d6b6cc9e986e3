"""Hazards in the towers' losses: scale, shape, weight decay, and what the script shows of them."""

import collections
import re
from typing import AbstractSet, Dict, Iterator, List, Sequence, Set

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from tf_towers.graph.op_types import PASSING_WITH_GRADIENT, READING_OR_CASTING, SCALING, SUMMING, VARIABLES, WRITING
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.manual_updates import HandWritten
from tf_towers.record.plan import RecordPlan, Section
from tf_towers.tf_types import Graph, Operation, Tensor


def scaled_losses(section: Section) -> bool:
    """Tells whether every tower's loss is divided by the number of towers before the gradients are summed."""
    towers = len(section.towers)

    def divided(loss: Tensor) -> bool:
        op = loss.op
        if op.type in SUMMING | PASSING_WITH_GRADIENT:
            return any(divided(each) for each in op.inputs)
        # A factor is a float32 constant of the graph: 1/3 is there but for 2^-24, far below 1e-6.
        wanted = 1.0 / towers if op.type == "Mul" else float(towers)
        values = [tensor_util.constant_value(each) for each in op.inputs] if op.type in SCALING else []
        return any(value is not None and value.size == 1 and abs(value / wanted - 1) < 1e-6 for value in values)

    return all(divided(loss) for tower in section.towers for loss in tower.losses)


def _shape_of_loss(section: Section, plan: RecordPlan) -> List[Hazard]:
    towers = [tower for tower in section.towers if not tower.reduction]
    # C3D-tensorflow adds a list of 22 decay terms to a scalar: a vector of 22, and 22 times the gradient (measured: 66
    # for 3).
    wide = [loss for tower in towers for loss in tower.losses if loss.shape.ndims not in (0, None)]
    if not wide:
        return []
    return [
        Hazard(
            "loss_is_no_scalar",
            f"{wide[0].name} has shape {wide[0].shape}: its gradient is that of the sum of its elements",
            "torch refuses backward() on it: sum it in the port.",
        )
    ]


def _decay(section: Section, plan: RecordPlan) -> List[Hazard]:
    towers = len(section.towers)
    graph = section.apply.graph
    # TensorFlow 2 wraps them; asking the wrapper for its tensor would make new ops.
    collected = [getattr(each, "_master_tensor", each) for each in graph.get_collection("regularization_losses")]
    # tf.get_variable puts its regulariser's term at w/Regularizer, below no tower's scope: get_collection(..., scope)
    # has nothing in any tower (measured), and the decay is lost without a word.
    terms = [each.op for each in collected if isinstance(each, tf.Tensor)]
    counts: Dict[str, int] = collections.OrderedDict()
    for ops in section.towers_ops:
        for name in {name for op in ops if op.type == "L2Loss" for name in _read_by(op)}:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        lost = [op.name for op in terms if not _used(op, section.towers_ops)]
        if not lost:
            return []
        return [
            Hazard(
                "regularisation_lost",
                f"{len(lost)} regularisation terms are in no tower's loss, e.g. {lost[0]}",
                "The script trains without them: the port has to, too.",
            )
        ]
    kinds = {name: section.combinations[name].kind for name in counts if name in section.combinations}
    effective = {name: _times(section, kinds[name], counts[name]) for name in kinds}
    # A third is a float32 constant of the graph: three of them are 1 but for 3e-8.
    wrong = sorted(name for name, times in effective.items() if abs(times - 1) > 1e-6)
    if not wrong or scaled_losses(section) or towers < 2:
        return []
    return [
        Hazard(
            "decay_counted",
            f"the L2 term of {wrong[0]} is in {counts[wrong[0]]} of {towers} towers and its gradients are combined by "
            f"{kinds[wrong[0]]}: it counts {effective[wrong[0]]:g} times ({len(wrong)} variables)",
            f"Multiply the coefficient by {effective[wrong[0]]:g} in a port that has it once.",
        )
    ]


def _times(section: Section, kind: str, count: int) -> float:
    if section.loss_factor is not None:
        return count * section.loss_factor
    # One tower's gradient is applied as it is, whatever the others' losses hold.
    if kind == "one":
        return 1
    return count / len(section.towers) if kind == "mean" else count


def _used(term: Operation, towers_ops: Sequence[AbstractSet[Operation]]) -> bool:
    # What TensorFlow 2 adds to a loss is a copy of the term, made below the same name with a number.
    scope = term.name.partition("/Regularizer")[0] + "/Regularizer"
    return any(op is term or op.name.startswith(scope) for ops in towers_ops for op in ops)


def _read_by(op: Operation) -> Iterator[str]:
    for tensor in op.inputs:
        inner = tensor.op
        while inner.type in READING_OR_CASTING and len(inner.inputs):
            inner = inner.inputs[0].op
        if inner.type in VARIABLES:
            yield inner.name


def reported_loss(section: Section, fetched: AbstractSet[str]) -> List[Hazard]:
    """Returns the hazard of a script that looks at the loss of one tower only, as a list.

    Args:
      section: a `Section`.
      fetched: names of the tensors that the script fetches, beside its train op or in runs of their own.
    """
    if len(section.towers) < 2:
        return []
    # Eleven of 58 codebases print the last tower's loss: it is the value that the loop's variable is left with.
    shown = [_shown(section, number, fetched) for number in range(len(section.towers))]
    found = [number for number, what in enumerate(shown) if what]
    if len(found) != 1:
        return []
    which = "the last" if found[0] == len(section.towers) - 1 else "one"
    return [
        Hazard(
            "last_towers_loss",
            f"the script fetches {shown[found[0]]} of tower {found[0]} only, {which} of {len(section.towers)}",
            "What it prints is the loss of one shard: compare it with one rank's, not with the mean.",
        )
    ]


def _shown(section: Section, number: int, fetched: AbstractSet[str]) -> str:
    """What the script fetches of one tower's loss: the loss, a term of it that no other tower has, or nothing."""
    losses = section.towers[number].losses
    if any(loss.name in fetched for loss in losses):
        return "the loss"
    pending = list(losses)
    terms: Set[str] = set()
    while pending:
        op = pending.pop().op
        if op.type in SUMMING | SCALING | PASSING_WITH_GRADIENT:
            pending += [each for each in op.inputs if each.name not in terms]
            terms.update(each.name for each in op.inputs)
    others = {op for other, ops in enumerate(section.towers_ops) if other != number for op in ops}
    own = sorted(name for name in terms & set(fetched) if section.apply.graph.get_tensor_by_name(name).op not in others)
    return f"a term of the loss ({own[0]})" if own else ""


def _step_counter(section: Section, plan: RecordPlan) -> List[Hazard]:
    # BERT-GPU and cleverhans never count; a hand-written update takes no global_step.
    if section.apply.global_step is not None or isinstance(section.apply.optimizer, HandWritten):
        return []
    if _counts_by_itself(section.apply.graph):
        return []
    return [
        Hazard(
            "global_step_not_counted",
            f"apply_gradients got no global_step for {section.apply.op.name}",
            "A schedule that reads the step stands still, unless the script counts by itself.",
        )
    ]


def _counts_by_itself(graph: Graph) -> bool:
    """Tells whether the graph has an op beside the initial value's that writes the global step."""
    counters = graph.get_collection(tf.GraphKeys.GLOBAL_STEP) or [
        each for each in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) if each.op.name == "global_step"
    ]
    if not counters:
        return False
    initial = {counters[0].initializer.name}
    writers = {op for out in counters[0].op.outputs for op in out.consumers() if op.type.startswith(WRITING)}
    # A Saver's op that restores it, save/Assign, writes it as well, and counts nothing.
    return any(op.name not in initial and not re.match(r"save(_\d+)?/", op.name) for op in writers)


HAZARDS_OF_LOSSES = (_shape_of_loss, _decay, _step_counter)
