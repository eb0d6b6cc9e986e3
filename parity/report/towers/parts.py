"""Which part of a training step each op of a recorded graph belongs to, and to which tower: by what it leads to.

What leads to the loss or the gradients of one tower alone is that tower's. What leads to those of several is shared. What
leads to none of them comes behind: it combines gradients where a combined gradient is made of it, else it updates.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from parity.report.towers.ops import VARIABLE_OP_KINDS, Ops
from parity.trace import TraceError, parse_key
from parity.trace.graph import RecordedGraph

PARTS = ("variables", "shared", "forward", "backward", "after", "combination", "update")
TOWER_PARTS = ("forward", "backward", "after")
MOST_DRAWN_TOWERS = 64  # as columns of a page; the scripts of the gallery have up to 8
NO_TOWER = -1
READ_KINDS = frozenset(["Identity", "ReadVariableOp"])


class Recorded(NamedTuple):
    """What was recorded of a graph's tensors, by the numbers of the ops that they come of.

    Fields:
      losses, gradients: of each tower, in the order of their names.
      combined: of each variable's combined gradient, by the variable's name.
      towers: the names of the towers.
    """

    losses: list[list[int]]
    gradients: list[list[int]]
    combined: dict[str, list[int]]
    towers: list[str]


class Place(NamedTuple):
    """Where in a step an op is: one of `PARTS`, and the number of its tower, `NO_TOWER` outside of towers."""

    part: str
    tower: int


def recorded_of(graph: RecordedGraph, ops: Ops) -> Recorded:
    """Returns what was recorded, over all runs.

    Raises:
      TraceError: a name is no key, or there are more towers than a page can show.
    """
    found: dict[str, dict[str, list[int]]] = {"loss": {}, "tower_grad": {}, "grad": {}}
    for run in graph.runs:
        for text, value in run["values"].items():
            key = parse_key(text)
            quantity = {"tower_clip": "tower_grad", "clip": "grad"}.get(key.quantity, key.quantity)
            if quantity in found:
                # Micro-batches of a tower, 0.0 and 0.1, are that tower's.
                name = key.variable if quantity == "grad" else key.tower.partition(".")[0]
                found[quantity].setdefault(name, []).extend(ops.of_tensors([value["tensor"]]))
    towers = sorted({*found["loss"], *found["tower_grad"]}, key=lambda name: (len(name), name))
    if len(towers) > MOST_DRAWN_TOWERS:
        raise TraceError(f"show: expected at most {MOST_DRAWN_TOWERS} towers, got {len(towers)}. Record fewer.")
    losses, gradients = ([found[what].get(name, []) for name in towers] for what in ("loss", "tower_grad"))
    return Recorded(losses, gradients, found["grad"], towers)


def places_of(graph: RecordedGraph, ops: Ops, recorded: Recorded, scopes: Sequence[str]) -> list[Place]:
    """Returns the place of every op.

    Args:
      graph: the graph.
      ops: of it.
      recorded: of it.
      scopes: name scope of each tower, "" where not known: it decides of what leads to several towers, as where they
        exchange tensors.
    """
    to_loss, to_gradient = (_leading_to(ops, ends) for ends in (recorded.losses, recorded.gradients))
    variables = _variables(graph, ops)
    # Reads are shown with what they read, unless a tower has its own.
    reads = {op for op in range(len(ops.names)) if _is_read(ops, op, variables)}
    places: list[Place | None] = [None] * len(ops.names)
    for op in range(len(ops.names)):
        towers = to_loss[op] | to_gradient[op]
        if op in variables:
            places[op] = Place("variables", NO_TOWER)
        elif towers:
            tower = NO_TOWER if op in reads and towers & (towers - 1) else _tower(ops, op, towers, scopes)
            alone = "variables" if op in reads else "shared"
            part = alone if tower == NO_TOWER else "forward" if to_loss[op] else "backward"
            places[op] = Place(part, tower)
    _place_behind(ops, recorded, places)
    _place_sources(graph, ops, places)
    return [each or Place("shared", NO_TOWER) for each in places]


def _variables(graph: RecordedGraph, ops: Ops) -> set[int]:
    named = set(ops.of_tensors(graph.variables.values()))
    return named | {op for op, kind in enumerate(ops.kinds) if kind in VARIABLE_OP_KINDS}


def _leading_to(ops: Ops, ends: Sequence[Iterable[int]]) -> list[int]:
    """Returns for each op the set of towers that it leads to an end of, as bits."""
    found = [0] * len(ops.names)
    for tower, numbers in enumerate(ends):
        for op in numbers:
            found[op] |= 1 << tower
    for op in reversed(ops.order):
        for each in ops.taken(op):
            found[each] |= found[op]
    return found


def _is_read(ops: Ops, op: int, variables: set[int]) -> bool:
    taken = ops.inputs[op]
    return ops.kinds[op] in READ_KINDS and bool(taken) and all(each in variables for each in taken)


def _tower(ops: Ops, op: int, towers: int, scopes: Sequence[str]) -> int:
    if towers & (towers - 1) == 0:
        return towers.bit_length() - 1
    inside = [tower for tower, scope in enumerate(scopes) if scope and ops.names[op].startswith(f"{scope}/")]
    return inside[0] if len(inside) == 1 and ops.inputs[op] else NO_TOWER


def _place_behind(ops: Ops, recorded: Recorded, places: list[Place | None]) -> None:
    """Places what comes of towers and leads back to none: combination, update, and what one tower alone makes beside it."""
    to_combined = _leading_to(ops, [[op for numbers in recorded.combined.values() for op in numbers]])
    ends = {op for numbers in recorded.gradients for op in numbers}
    of_towers, behind = [0] * len(ops.names), [False] * len(ops.names)
    for op in ops.order:
        place = places[op]
        for each in ops.taken(op):
            of_towers[op] |= of_towers[each]
            behind[op] |= behind[each] or each in ends
        if place is not None:
            of_towers[op] |= 1 << place.tower if place.tower != NO_TOWER else 0
        elif of_towers[op]:
            alone = of_towers[op] & (of_towers[op] - 1) == 0 and not behind[op]
            if to_combined[op]:
                places[op] = Place("combination", NO_TOWER)
            elif alone:
                places[op] = Place("after", of_towers[op].bit_length() - 1)
            else:
                places[op] = Place("update", NO_TOWER)


def _place_sources(graph: RecordedGraph, ops: Ops, places: list[Place | None]) -> None:
    """Places what comes of no tower, as constants and rates, where its users are."""
    updates = set(ops.of_tensors(name for run in graph.runs for name in run.get("updates", ())))
    for op in reversed(ops.order):
        if places[op] is None:
            users = {found for user in ops.users[op] if (found := places[user]) is not None}
            if len(users) == 1:
                places[op] = users.pop()
            elif users:
                behind = all(each.part in ("combination", "update") for each in users)
                places[op] = Place("update" if behind else "shared", NO_TOWER)
            elif op in updates or ops.inputs[op]:
                places[op] = Place("update", NO_TOWER)


def scopes_of(facts: Mapping[str, Any], towers: int) -> list[str]:
    """Returns the name scope of each tower as the recorder found it; "" where it found none."""
    found = facts.get("tower_scopes")
    names = found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []
    return [names[tower] if tower < len(names) else "" for tower in range(towers)]
