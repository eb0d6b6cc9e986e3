"""The ops of a recorded graph by number, with what each takes and who takes it, in an order in which they can run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from parity.trace import TraceError
from parity.trace.escape import one_line
from parity.trace.graph import RecordedGraph
from parity.trace.graph_checks import COMES_ROUND

# The graph of a ResNet-50 on two towers has 4,710 ops; a page of 100,000 has some 20 MB, and a browser still opens it.
MOST_DRAWN_OPS = 100_000
VARIABLE_OP_KINDS = frozenset(["VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable"])
MOST_DRAWN_INPUTS = 400_000  # of all ops together
LONGEST_NAME = 300  # characters of a name or a line in the page


class Ops(NamedTuple):
    """The ops of a graph, numbered as the graph lists them.

    Fields:
      names, kinds, devices: text of each, as the graph has them.
      inputs: numbers of the ops that each takes tensors from, each once.
      controls: numbers of those that each only waits for.
      users: numbers of the ops that take something of it or wait for it.
      order: numbers of all ops, each behind what it takes; ways back of loops are left out.
      turns: of each op its place in `order`.
      numbers: by name.
    """

    names: list[str]
    kinds: list[str]
    devices: list[str]
    inputs: list[list[int]]
    controls: list[list[int]]
    users: list[list[int]]
    order: list[int]
    turns: list[int]
    numbers: dict[str, int]

    def taken(self, op: int) -> Iterator[int]:
        """Yields the numbers of what an op takes or waits for, ways back of loops left out."""
        for each in (*self.inputs[op], *self.controls[op]):
            if self.kinds[each] not in COMES_ROUND:
                yield each

    def of_tensors(self, tensors: Iterable[str]) -> list[int]:
        """Returns the numbers of the ops that tensors come of."""
        found = (tensor.lstrip("^").partition(":")[0] for tensor in tensors)
        return [self.numbers[name] for name in found if name in self.numbers]


def require_drawable(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Refuses more ops, or inputs of ops, than a page can show.

    Raises:
      TraceError: there are.
    """
    taken = sum(len(node.get("input", ())) for node in nodes)
    if len(nodes) > MOST_DRAWN_OPS or taken > MOST_DRAWN_INPUTS:
        raise TraceError(
            f"show: expected a graph of at most {MOST_DRAWN_OPS:,} ops that take {MOST_DRAWN_INPUTS:,} tensors, "
            f"got {len(nodes):,} that take {taken:,}. Record fewer towers: each has the same ops."
        )


def ops_of(graph: RecordedGraph) -> Ops:
    """Returns the ops of a graph.

    Raises:
      TraceError: there are more than a page can show.
    """
    nodes = graph.nodes
    require_drawable(nodes)
    numbers = {node["name"]: number for number, node in enumerate(nodes)}
    inputs: list[list[int]] = []
    controls: list[list[int]] = []
    users: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        listed = [(text.startswith("^"), text.lstrip("^").partition(":")[0]) for text in node.get("input", ())]
        known = [(waits, numbers[name]) for waits, name in listed if name in numbers]
        data = list(dict.fromkeys(each for waits, each in known if not waits))
        inputs.append(data)
        controls.append([each for each in dict.fromkeys(each for waits, each in known if waits) if each not in data])
        for each in (*data, *controls[-1]):
            users[each].append(number)
    kinds = [node["op"] for node in nodes]
    devices = [node.get("device") or "" for node in nodes]
    found = Ops(
        [node["name"] for node in nodes],
        kinds,
        [str(each) for each in devices],
        inputs,
        controls,
        users,
        [],
        [],
        numbers,
    )
    order, turns = _ordered(found), [0] * len(nodes)
    for turn, op in enumerate(order):
        turns[op] = turn
    return found._replace(order=order, turns=turns)


def _ordered(ops: Ops) -> list[int]:
    """Returns an order in which ops can run: by the length of the longest way to each, constants just before their users."""
    places = [0.0] * len(ops.names)
    waits = [sum(1 for _ in ops.taken(op)) for op in range(len(ops.names))]
    # Kahn's algorithm, a level at a time.
    level, order, depth = [op for op, count in enumerate(waits) if not count], [], 0
    while level:
        order += level
        following = []
        for op in level:
            places[op] = float(depth)
            if ops.kinds[op] not in COMES_ROUND:
                for user in ops.users[op]:
                    waits[user] -= 1
                    if not waits[user]:
                        following.append(user)
        level, depth = following, depth + 1
    # What depends on constants and variables alone could run at once, and says nothing of the order of layers there.
    fixed = [False] * len(ops.names)
    for op in order:
        taken = list(ops.taken(op))
        fixed[op] = all(fixed[each] for each in taken) if taken else ops.kinds[op] in {"Const", *VARIABLE_OP_KINDS}
    for op in reversed(order):
        if fixed[op] and ops.users[op]:
            places[op] = min(places[user] for user in ops.users[op]) - 0.5
    return sorted(order, key=lambda op: (places[op], op))


def shown(text: Any) -> str:
    """Returns anybody's text for the page: on one line, what is not printed escaped, and cut where it is very long."""
    line = one_line(str(text)[: LONGEST_NAME + 1])
    return line if len(line) <= LONGEST_NAME else f"{line[:LONGEST_NAME]}…"
