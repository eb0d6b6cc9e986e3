"""Finds the while loops of a recorded graph, each of which TensorFlow 1 writes as a frame of control-flow ops."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Nodes = Mapping[str, Mapping[str, Any]]


@dataclass
class Frame:
    """A while loop: its state goes from `starts` through `states` to `nexts`, and out through `exits`.

    Attributes:
      name: of it.
      starts, states, nexts: by state variable, the names of its Enter, Merge and NextIteration.
      condition: name of its LoopCond.
      exits: by name of an Exit, which state variable it hands out.
      members: names of all ops that are computed in each iteration.
      place: of its first Exit in the order in which the script made its ops, which is behind the body.
    """

    name: str
    starts: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    nexts: list[str] = field(default_factory=list)
    condition: str = ""
    exits: dict[str, int] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    place: int = 0


class Frames:
    """The while loops of a graph.

    Args:
      nodes: by name.

    Attributes:
      by_name: the loops.
      state_of: by name of a Merge, its loop and which of its state variables it is.
      exit_of: by name of an Exit, likewise.
      gates: names of the Switches that end or go on with a loop.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.by_name: dict[str, Frame] = {}
        self.state_of: dict[str, tuple[Frame, int]] = {}
        self.exit_of: dict[str, tuple[Frame, int]] = {}
        self.gates: set[str] = set()
        for name, node in nodes.items():
            if node["op"] == "Merge":
                self._add_state(name)
        for name, node in nodes.items():
            if node["op"] == "Switch":
                self._add_gate(name)
        for name, node in nodes.items():
            if node["op"] == "Exit":
                self._add_exit(name)
        places = {name: place for place, name in enumerate(nodes)}
        users = _users(nodes) if self.by_name else {}
        for frame in self.by_name.values():
            frame.members = frozenset(self._members(frame, users))
            # The gradients count iterations with a state variable of their own, which they add much later.
            frame.place = min((places[each] for each in frame.exits), default=0)

    def _add_state(self, name: str) -> None:
        taken = data_inputs(self._nodes[name])
        enter = next((each for each in taken if self._kind(each) == "Enter"), None)
        following = next((each for each in taken if self._kind(each) == "NextIteration"), None)
        # Merges of a condition take two switches; those of a loop what enters and what comes round.
        if enter is None or following is None:
            return  # the end of a tf.cond
        own = _frame_name(self._nodes[enter])
        # Several Merges make one loop: each is a variable of its state.
        frame = self.by_name.setdefault(own, Frame(own))
        self.state_of[name] = frame, len(frame.states)
        frame.starts.append(enter)
        frame.states.append(name)
        frame.nexts.append(following)

    def _add_gate(self, name: str) -> None:
        taken = data_inputs(self._nodes[name])
        if len(taken) == 2 and taken[0] in self.state_of and self._kind(taken[1]) == "LoopCond":
            self.gates.add(name)
            self.state_of[taken[0]][0].condition = taken[1]

    def _add_exit(self, name: str) -> None:
        # The true side of a loop's switch goes on into the body, the false side out through the Exit.
        (gate,) = data_inputs(self._nodes[name])[:1] or ("",)
        state = data_inputs(self._nodes[gate])[0] if gate in self.gates else ""
        if state in self.state_of:
            frame, slot = self.state_of[state]
            frame.exits[name] = slot
            self.exit_of[name] = frame, slot

    def _kind(self, name: str) -> str:
        return str(self._nodes[name]["op"]) if name in self._nodes else ""

    def _members(self, frame: Frame, users: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Everything behind what enters a frame, up to what leaves it; loops inside it too."""
        pending = [
            name for name, node in self._nodes.items() if node["op"] == "Enter" and _frame_name(node) == frame.name
        ]
        seen = set(pending)
        while pending:
            name = pending.pop()
            if name in frame.exits:
                continue
            yield name
            pending += [each for each in users.get(name, ()) if each not in seen]
            seen.update(users.get(name, ()))


def data_inputs(node: Mapping[str, Any]) -> list[str]:
    """Returns the names of the ops that a node takes data from."""
    return [each.partition(":")[0] for each in node.get("input", []) if not each.startswith("^")]


def _users(nodes: Nodes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for each in node.get("input", []):
            found.setdefault(each.lstrip("^").partition(":")[0], []).append(name)
    return found


def _frame_name(node: Mapping[str, Any]) -> str:
    kept = node.get("attr", {}).get("frame_name", {}).get("s", "")
    return base64.b64decode(kept).decode("utf-8", "replace")
