"""Checks the ops of a recorded graph: the forms of their attributes, and that no op comes of itself but in a loop."""

import base64
import binascii
from typing import Any, Callable, Dict, List, Mapping, Sequence

from parity.trace.description import are_names
from parity.trace.provenance import is_count

REDUCTIONS_OF_LOSSES = ("mean", "sum")  # of losses by example
COMES_ROUND = ("NextIteration", "RefNextIteration")  # the only ops that a graph of TensorFlow's goes back through
MOST_DIGITS_OF_INT64 = 20  # with its sign


def fault_of_nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Returns what the ops of a graph should be and are not; "" where they are as protobuf writes them.

    Args:
      nodes: each has the form that `provenance.is_node` asks for.
    """
    names = {node["name"] for node in nodes}
    if len(names) < len(nodes):
        return "every op once"
    for node in nodes:
        if not all(_is_attribute(each) for each in node.get("attr", {}).values()):
            return f"attributes in protobuf's JSON form for the op {node['name'][:80]!r}"
    # Whoever walks from an op to what it takes would not come to an end.
    return "no op that comes of itself but in a loop" if _is_cyclic(nodes) else ""


def is_value(value: Any) -> bool:
    """Tells whether a JSON value describes what was recorded of a run, as `RecordedGraph.runs` says."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("tensor", "dtype")):
        return False
    share = value.get("share") or []
    whole = isinstance(value.get("source", ""), str) and isinstance(value.get("loop", ""), str)
    return (
        whole
        and value.get("reduced", "mean") in REDUCTIONS_OF_LOSSES
        and isinstance(share, list)
        and all(map(is_count, share))
    )


def is_run(value: Any) -> bool:
    """Tells whether a JSON value describes one run of a graph, as `RecordedGraph.runs` says."""
    if not isinstance(value, dict) or not isinstance(value.get("values"), dict):
        return False
    names = all(are_names(value.get(name, [])) for name in ("updates", "by_hand"))
    sections = isinstance(value.get("sections", {}), dict)
    return names and sections and all(is_value(each) for each in value["values"].values())


def _is_cyclic(nodes: Sequence[Mapping[str, Any]]) -> bool:
    known = {node["name"]: node["op"] for node in nodes}
    users: Dict[str, List[str]] = {}
    waits: Dict[str, int] = {}
    for node in nodes:
        taken = {each.lstrip("^").partition(":")[0] for each in node.get("input", [])}
        taken = {each for each in taken if known.get(each, COMES_ROUND[0]) not in COMES_ROUND}
        waits[node["name"]] = len(taken)
        for each in taken:
            users.setdefault(each, []).append(node["name"])
    # Kahn's algorithm: what waits for nothing goes; what is left in the end waits for itself.
    ready = [name for name, count in waits.items() if not count]
    gone = 0
    while ready:
        gone += 1
        for user in users.get(ready.pop(), ()):
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    return gone < len(nodes)


def _is_attribute(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "list" in value:
        lists = value["list"]
        return isinstance(lists, dict) and all(
            isinstance(listed, list) and all(_is_kept(kind, each) for each in listed) for kind, listed in lists.items()
        )
    return all(_is_kept(kind, each) for kind, each in value.items())


def _is_kept(kind: str, value: Any) -> bool:
    return kind not in KEPT or KEPT[kind](value)


def _is_int(value: Any) -> bool:
    # protobuf's JSON form writes integers of 64 bits as strings.
    if isinstance(value, str):
        return len(value) <= MOST_DIGITS_OF_INT64 and value.isascii() and value.lstrip("-").isdigit()
    return type(value) is int


def _is_float(value: Any) -> bool:
    return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_type(value: Any) -> bool:
    return isinstance(value, str) or type(value) is int


def _is_bytes(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value) is not None
    except (binascii.Error, ValueError):
        return False


def _is_static_shape(value: Any) -> bool:
    axes = value.get("dim", []) if isinstance(value, dict) else None
    return isinstance(axes, list) and all(isinstance(each, dict) and _is_int(each.get("size", 0)) for each in axes)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and _is_static_shape(value.get("tensor_shape", {}))


KEPT: Dict[str, Callable[[Any], bool]] = {
    "i": _is_int,
    "f": _is_float,
    "b": _is_bool,
    "s": _is_bytes,
    "type": _is_type,
    "shape": _is_static_shape,
    "tensor": _is_tensor,
}
