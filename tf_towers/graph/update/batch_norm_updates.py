"""Chooses whose batch-norm updates run, and finds updates that race."""

import itertools
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, Sequence, Set

from tf_towers.graph.op_types import GROUPING, VARIABLES, WRITING
from tf_towers.graph.traversal import ancestors, before, earlier
from tf_towers.tf_types import Operation


def choose_updates(policy: str, towers: Sequence[Sequence[Operation]]) -> List[Operation]:
    """Returns the update ops that run.

    Args:
      policy: "first", "last", "all_ordered" or "unordered".
      towers: a list over the towers of lists of update ops.
    """
    if policy == "first":
        return list(towers[0])
    if policy == "last":
        return list(towers[-1])
    # "all_ordered" and "unordered" run the same ops: the order is in control dependencies that `build_replicas` makes.
    return [update for tower in towers for update in tower]


def racing_updates(updates: Iterable[Any]) -> List[str]:
    """Returns the names of variables that two or more updates write without an order between them, sorted.

    What such a variable holds after a step differs from run to run: the last writer wins, and a decay counts as often as
    the reads and writes happen to interleave.

    Args:
      updates: ops or tensors, as `UPDATE_OPS` holds them.
    """
    writers: Dict[str, Set[Operation]] = {}
    for update in updates:
        for op in _writing_ops(getattr(update, "op", update)):
            writers.setdefault(_variable_of(op), set()).add(op)
    several = {name: ops for name, ops in writers.items() if len(ops) > 1}
    known = _writers_before([op for ops in several.values() for op in ops])
    return sorted(name for name, ops in several.items() if _unordered(ops, known))


def _writing_ops(op: Operation) -> List[Operation]:
    if op.type.startswith(WRITING):
        return [op]
    if op.type not in GROUPING:
        return []
    return [writer for one in before(op) for writer in _writing_ops(one)]


def _variable_of(op: Operation) -> str:
    while op.inputs and op.type not in VARIABLES:
        op = op.inputs[0].op
    return op.name


def _unordered(ops: Iterable[Operation], known: Mapping[Operation, AbstractSet[Operation]]) -> bool:
    pairs = itertools.combinations(ops, 2)
    return any(one not in known[other] and other not in known[one] for one, other in pairs)


def _writers_before(writers: Sequence[Operation]) -> Dict[Operation, Set[Operation]]:
    """Returns dict of writer to the set of writers that run before it, itself included."""
    masks = earlier(ancestors(writers), writers)
    return {op: {other for place, other in enumerate(writers) if masks[op] >> place & 1} for op in writers}
