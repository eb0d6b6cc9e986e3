"""Reads off the graph how the towers' gradients became the one that is applied."""

from typing import AbstractSet, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tensorflow.python.framework import tensor_util

from tf_towers.graph.op_types import DENSIFYING, PASSING_VALUES, SCALING, STACKING_TENSORS, SUMMING
from tf_towers.record.hooks import ApplyCall
from tf_towers.record.towers import TowerFound, values_of
from tf_towers.tf_types import Operation, Tensor


class Combination(NamedTuple):
    """How one variable's gradient comes about.

    Fields:
      variable: its name.
      kind: "one" (of one tower only), "sum", "mean", "mean_of_present" (over those towers that have a gradient), "scaled"
        (a sum times another constant) or "unknown".
      factor: what the sum is multiplied by, or None where unknown.
      combined: the tensor after combining and before clipping.
      entries: dict of tower to the tensor that goes into the combination, where it is not the gradient itself.
      sources: dict of tower to the name of the variable whose gradient goes into it.
    """

    variable: str
    kind: str
    factor: Optional[float]
    combined: Tensor
    entries: Dict[int, Tensor]
    sources: Dict[int, str]


def combinations_of(apply: ApplyCall, towers: Sequence[TowerFound]) -> Dict[str, Combination]:
    """Returns dict of variable name to `Combination` for everything that an update applies."""
    marks = {}
    for number, tower in enumerate(towers):
        for name, gradient in tower.gradients.items():
            marks[values_of(gradient).name] = (number, name)
    walk = _Walk(marks)
    return {
        variable.op.name: walk.combination(variable.op.name, values_of(gradient), len(towers))
        for gradient, variable in apply.pairs
    }


class _Walk:
    """Walks from an applied gradient back to those of the towers; `marks` says which tensors those are."""

    def __init__(self, marks: Mapping[str, Tuple[int, str]]) -> None:
        self._marks = marks
        self._known: Dict[str, FrozenSet[int]] = {}

    def combination(self, variable: str, applied: Tensor, towers: int) -> Combination:
        reached = self._towers(applied)
        if not reached:
            return Combination(variable, "unknown", None, applied, {}, {})
        # From the applied gradient towards the towers; every tensor in it carries all of the towers that were reached.
        chain = [applied]
        while chain[-1].name not in self._marks:
            onward = self._onward(chain[-1], reached)
            if onward is None:
                break
            chain.append(onward)
        join = chain[-1]
        if join.name in self._marks:
            source = self._marks[join.name]
            return Combination(variable, "one", 1.0, join, {}, {source[0]: source[1]})
        factor = self._factor_of_join(join, reached)
        if factor is None:
            return Combination(variable, "unknown", None, applied, {}, {})
        entries, sources = self._entries(join)
        combined, factor = _scaled(chain, factor, towers, len(sources))
        return Combination(variable, _kind(factor, towers, len(sources)), factor, combined, entries, sources)

    def _towers(self, tensor: Tensor) -> FrozenSet[int]:
        pending = [tensor]
        while pending:
            current = pending[-1]
            if current.name in self._known:
                pending.pop()
            elif current.name in self._marks:
                self._known[current.name] = frozenset([self._marks[current.name][0]])
            else:
                inputs = list(current.op.inputs)
                missing = [each for each in inputs if each.name not in self._known]
                # A loop would come back here: it has nothing to do with combining.
                # Depth first without recursion: gradients of unrolled RNNs are deeper than Python's stack.
                if missing and current.op.type not in ("Merge", "NextIteration", "Exit", "While", "StatelessWhile"):
                    pending += missing
                else:
                    known = [self._known.get(each.name, frozenset()) for each in inputs]
                    self._known[current.name] = frozenset().union(*known)
        return self._known[tensor.name]

    def _onward(self, tensor: Tensor, reached: AbstractSet[int]) -> Tensor:
        """The input that carries the whole gradient on, or None where the towers are joined here."""
        # A mean over a stack of towers is the join; a mean inside a clip, over a tensor, is not.
        if tensor.op.type in ("Mean", "Sum") and self._stack_under(tensor) is not None:
            return None
        carrying = [each for each in tensor.op.inputs if self._towers(each) == reached]
        same = [each for each in carrying if _same_shape(each, tensor)]
        # A sum of which one input alone has the towers adds something else, such as a decay term, to what is joined
        # already.
        if tensor.op.type in SUMMING | STACKING_TENSORS and len(reached) > 1:
            return same[0] if len(same) == 1 and len(self._sharing(tensor)) == 1 else None
        return (same or carrying or [None])[0]

    def _sharing(self, tensor: Tensor) -> List[Tensor]:
        return [each for each in tensor.op.inputs if self._towers(each)]

    def _stack_under(self, tensor: Tensor) -> Tensor:
        inside = tensor.op.inputs[0]
        while inside.op.type == "Identity":
            inside = inside.op.inputs[0]
        return inside if inside.op.type in STACKING_TENSORS else None

    def _factor_of_join(self, join: Tensor, reached: AbstractSet[int]) -> Optional[float]:
        # The template of TensorFlow's cifar10 tutorial, in 23 of 58 codebases: expand_dims, concat, reduce_mean.
        if join.op.type == "Mean":
            # By as many as are stacked, zeros in the place of a missing gradient included.
            return 1.0 / self._stack_under(join).op.get_attr("N")
        # google/youtube-8m stacks and sums: its norms are 5.66, 11.32 and 22.63 for 1, 2 and 4 towers on one batch.
        if join.op.type == "Sum" or join.op.type in SUMMING:
            return 1.0
        # Sparse gradients are added by putting their rows one after the other.
        # rafaljozefowicz/lm and openai/iaf leave it at that, where they average the dense ones.
        return 1.0 if join.op.type in STACKING_TENSORS else None

    def _entries(self, join: Tensor) -> Tuple[Dict[int, Tensor], Dict[int, str]]:
        entries, sources = {}, {}
        pending = [self._stack_under(join) if join.op.type in ("Mean", "Sum") else join]
        while pending:
            tensor = pending.pop()
            found = self._towers(tensor)
            if len(found) > 1:
                pending += self._sharing(tensor)
                continue
            (tower,) = found
            entry, mark = self._entry(tensor)
            if mark is None or mark[1] is None:
                continue
            sources[tower] = mark[1]
            if entry is not None:
                entries[tower] = entry
        return entries, sources

    def _entry(self, tensor: Tensor) -> Tuple[Tensor, Optional[Tuple[int, str]]]:
        """Returns what a tower puts in (None where it is its very gradient), and whose gradient that is."""
        entry = tensor
        while entry.name not in self._marks and entry.op.type in PASSING_VALUES | DENSIFYING:
            entry = entry.op.inputs[0]
        mark = self._marks.get(entry.name)
        if mark is not None:
            return None, mark
        inner = entry
        while inner is not None and inner.name not in self._marks:
            carrying = [each for each in inner.op.inputs if self._towers(each)]
            same = [each for each in carrying if _same_shape(each, inner)]
            inner = (same or carrying or [None])[0]
        return entry, self._marks[inner.name] if inner is not None else None


def _scaled(chain: Sequence[Tensor], factor: float, towers: int, present: int) -> Tuple[Tensor, float]:
    """Moves from the join towards the applied gradient over the constant factors that still belong to the combining.

    Those that make a mean of a sum do. Others do where nothing but factors follows: `tf.clip_by_norm` begins with one too.
    """
    places, alone = [(chain[-1], factor)], True
    for tensor in reversed(chain[:-1]):
        if tensor.op.type in PASSING_VALUES:
            continue
        scale = _constant_factor(tensor.op)
        if scale is None:
            alone = False
            break
        factor *= scale
        places.append((tensor, factor))
    # The last place that is a mean: a division by N may be made of two factors.
    means = [place for place in places if _kind(place[1], towers, present).startswith("mean")]
    if means:
        return means[-1]
    return places[-1] if alone else places[0]


def _constant_factor(op: Operation) -> Optional[float]:
    if op.type not in SCALING:
        return None
    left, right = (tensor_util.constant_value(each) for each in op.inputs)
    if right is not None and np.size(right) == 1:
        value = float(np.reshape(right, ()))
        return value if op.type == "Mul" else 1.0 / value if value else None
    if left is not None and np.size(left) == 1 and op.type == "Mul":
        return float(np.reshape(left, ()))
    return None


def _kind(factor: float, towers: int, present: int) -> str:
    # Factors are constants of the graph in float32: 1/3 is there but for 2^-24.
    if abs(factor * towers - 1) < 1e-6:
        return "mean"
    if present == 1:
        return "one"
    if abs(factor * present - 1) < 1e-6:
        return "mean_of_present"
    return "sum" if abs(factor - 1) < 1e-6 else "scaled"


def _same_shape(one: Tensor, other: Tensor) -> bool:
    return one.shape.ndims is not None and one.shape.ndims == other.shape.ndims
