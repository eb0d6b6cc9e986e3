"""Ops in groups that can be opened: by layer, as name scopes say it, and by the line of the script that made them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from parity.report.towers.ops import Ops, shown
from parity.report.towers.parts import NO_TOWER, Place, Recorded
from parity.trace.graph import RecordedGraph

# A name may have any number of slashes; what lies deeper is in the last group.
MOST_GROUP_LEVELS = 6
# Boxes that one group opens into; of more there is a level of groups between.
MOST_CHILDREN = 100
GRADIENT_SCOPE = re.compile(r"gradients(_\d+)?")
NO_LINE, NO_DEVICE = "no line of the script", "no device named"

Paths = list[tuple[str, ...]]


class Group(NamedTuple):
    """Ops that the page shows as one box until it is opened.

    Fields:
      label: what they have in common.
      children: groups, and numbers of ops.
      ranks: of each child its row in the opened box, from 0: behind all that it takes there.
    """

    label: str
    children: "list[Group | int]"
    ranks: list[int]

    def as_json(self) -> list[Any]:
        """Returns label, children, each a number or a list as this one, and ranks."""
        return [self.label, [each if isinstance(each, int) else each.as_json() for each in self.children], self.ranks]


def by_layer(
    graph: RecordedGraph, ops: Ops, recorded: Recorded, places: Sequence[Place], scopes: Sequence[str]
) -> Paths:
    """Returns for each op the labels of its groups, outermost first: those of its name scope without that of its tower.

    Of the backward pass the scope of the op that the gradient is of, of combination and update that of the variable.
    """
    variables = {
        op: name.partition("/")[2] for name, variable in graph.variables.items() for op in ops.of_tensors([variable])
    }
    of_variables = _variable_of(ops, recorded, places, variables)
    paths: Paths = []
    for op, place in enumerate(places):
        if place.part == "variables":
            device = shown(ops.devices[op] or NO_DEVICE)
            of = next((variables[each] for each in (op, *ops.inputs[op]) if each in variables), ops.names[op])
            paths.append((device, *_scope(of, ())))
        elif place.part in ("combination", "update"):
            paths.append(_scope(of_variables[op] or ops.names[op], ()))
        else:
            own = scopes[place.tower] if place.tower != NO_TOWER else ""
            paths.append(_scope(ops.names[op], [each for each in (own, *scopes) if each]))
    return paths


def by_line(graph: RecordedGraph, ops: Ops, places: Sequence[Place]) -> Paths:
    """Returns for each op the lines of the script that made it, outermost first.

    Of the backward pass the lines of the op that the gradient is of: that of `compute_gradients` says nothing of it.
    """
    words = [f"{frame[0]}:{frame[1]}  {frame[3]}" for frame in graph.frames]
    paths: Paths = []
    for op, place in enumerate(places):
        forward = _forward_name(ops.names[op])
        name = forward if forward in ops.numbers else ops.names[op]
        frames = [shown(words[number]) for number in graph.callers.get(name, ())]
        paths.append(tuple(dict.fromkeys(frames))[-MOST_GROUP_LEVELS:] or (NO_LINE,))
        if place.part == "variables":
            paths[-1] = (shown(ops.devices[op] or NO_DEVICE), *paths[-1])
    return paths


def grouped(ops: Ops, members: Sequence[int], paths: Paths, keep: bool = False) -> Group:
    """Returns some ops as one group of groups, in an order in which they can run.

    Args:
      ops: of the graph.
      members: numbers of ops, in order.
      paths: of every op of the graph.
      keep: whether the outermost label is a level of its own even where all have the same.
    """
    return _group(ops, "", list(members), paths, 0, keep)


def _group(ops: Ops, label: str, members: list[int], paths: Paths, depth: int, keep: bool = False) -> Group:
    children: dict[str, list[int]] = {}
    found: list[tuple[str, list[int]] | int] = []
    for op in members:
        if len(paths[op]) <= depth:
            found.append(op)
            continue
        name = paths[op][depth]
        if name not in children:
            children[name] = []
            found.append((name, children[name]))
        children[name].append(op)
    if len(found) == 1 and not isinstance(found[0], int) and not keep:
        # What holds one group only is no level of its own. Of lines, which have blanks, the inner one says more.
        name, inside = found[0]
        joined = f"{label}/{name}" if label and " " not in name else name
        return _group(ops, shown(joined), inside, paths, depth + 1)
    # By what a group ends with: shapes and constants of a late layer may be computed first.
    found.sort(key=lambda each: ops.turns[each] if isinstance(each, int) else max(ops.turns[op] for op in each[1]))
    parts = [each if isinstance(each, int) else _group(ops, each[0], each[1], paths, depth + 1) for each in found]
    return _ranked(ops, label, _in_chunks(ops, parts))


def _in_chunks(ops: Ops, parts: "list[Group | int]") -> "list[Group | int]":
    while len(parts) > MOST_CHILDREN:
        chunks: list[Group | int] = []
        for start in range(0, len(parts), MOST_CHILDREN):
            inside = parts[start : start + MOST_CHILDREN]
            ends = [each.label if isinstance(each, Group) else last_part(ops.names[each]) for each in inside]
            chunks.append(_ranked(ops, shown(f"{ends[0]} to {ends[-1]}"), inside))
        parts = chunks
    return parts


def _ranked(ops: Ops, label: str, parts: "list[Group | int]") -> Group:
    """Gives each part a row behind those that it takes something of and that stand before it."""
    place = {op: number for number, part in enumerate(parts) for op in members_of(part)}
    ranks = [0] * len(parts)
    # In order of the parts: groups may take of each other in a ring, of which the way back is left out.
    for number, part in enumerate(parts):
        before = {place[each] for op in members_of(part) for each in ops.taken(op) if each in place}
        ranks[number] = max((ranks[each] + 1 for each in before if each < number), default=0)
    return Group(label, parts, ranks)


def members_of(part: "Group | int") -> Iterator[int]:
    """Yields the numbers of all ops in a group, or the one."""
    left = [part]
    while left:
        each = left.pop()
        if isinstance(each, int):
            yield each
        else:
            left.extend(each.children)


def aligned(towers: Sequence["list[Group | int]"], name: Callable[[int], str]) -> list[list[str]]:
    """Returns the labels of all towers' parts in one order, so that the same layer stands in one row of all towers.

    Args:
      towers: of each tower its parts.
      name: of a single op.

    Returns:
      of each tower the label of each part; as `[order, *labels]`.
    """
    labels = [unique(part.label if isinstance(part, Group) else name(part) for part in parts) for parts in towers]
    order: list[str] = []
    known: set[str] = set()
    for listed in labels:
        place = 0
        for label in listed:
            if label in known:
                place = order.index(label) + 1
            else:
                order.insert(place, label)
                known.add(label)
                place += 1
    return [order, *labels]


def last_part(name: str) -> str:
    """Returns the name of an op without its scope."""
    return name.rpartition("/")[2]


def unique(labels: Iterable[str]) -> list[str]:
    """Returns labels of which a repeated one has its number behind it."""
    counts: dict[str, int] = {}
    found = []
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
        found.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return found


def _variable_of(ops: Ops, recorded: Recorded, places: Sequence[Place], variables: Mapping[int, str]) -> list[str]:
    """Returns for each op behind the towers the variable that it is for; "" where it is for several or none."""
    found: list[set[str]] = [set() for _ in places]
    for name, numbers in recorded.combined.items():
        for op in numbers:
            found[op].add(name)
    for op in reversed(ops.order):
        part = places[op].part
        if part == "update":
            found[op] |= {variables[each] for each in ops.inputs[op] if each in variables}
        # Two are as good as all of them: a set does not grow with the graph.
        names = set(sorted(found[op])[:2])
        found[op] = names
        if part in ("combination", "update"):
            for each in ops.taken(op):
                if places[each].part == part:
                    found[each] |= names
    return [next(iter(names)) if len(names) == 1 else "" for names in found]


def _scope(name: str, scopes: Iterable[str]) -> tuple[str, ...]:
    gradient = _forward_name(name)
    forward = gradient or name
    for scope in scopes:
        if forward.startswith(f"{scope}/"):
            forward = forward[len(scope) + 1 :]
            break
    parts = forward.split("/", MOST_GROUP_LEVELS)
    # The ops of one op's gradient belong together.
    return tuple(shown(each) for each in (parts if gradient else parts[:-1])[:MOST_GROUP_LEVELS])


def _forward_name(name: str) -> str:
    """Returns the op that an op of the backward pass is a gradient of, as `tf.gradients` names it; "" of any other."""
    parts = name.split("/", 50)
    start = next((place for place, part in enumerate(parts) if GRADIENT_SCOPE.fullmatch(part)), None)
    end = next((place for place, part in enumerate(parts) if part.endswith("_grad")), None)
    if start is None or end is None or end <= start:
        return ""
    return "/".join([*parts[start + 1 : end], parts[end][: -len("_grad")]])
