"""Keeps the graph of a recorded script beside its trace, as data: JSON that needs no TensorFlow to be read."""

import json
import os
from typing import Any, Dict, List, Mapping, NamedTuple

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.safetensors import Path, write_json

GRAPH_FORMAT = "tower-parity-graph"
GRAPH_VERSION = 1
GRAPH_FILE = "graph.json"
GRAPH_REDUCTIONS: Dict[str, Any] = {"mean": np.mean, "sum": np.sum}


class RecordedGraph(NamedTuple):
    """The graph of a recorded script from its inputs to its losses, gradients and updates.

    Fields:
      definition: a GraphDef in protobuf's JSON form, with the original names of its fields.
      variables: dict of trace name, e.g. "var/conv1/kernel", to the name of the variable's op.
      runs: list of what the script fetched in one `Session.run` that trains, each a dict with
        `values`, trace name to a dict with `tensor` (its name), `dtype` and, of feeds, `source` (the tensor it is cut from)
        and `share` (its place among how many equal ones, where what was recorded is a share of the tensor); of draws inside
        loops and branches `loop` (which one: what is recorded has its iterations first); of losses given by example
        `reduced` (what was recorded is the "mean" or "sum" of the tensor);
        `updates`, names of the ops that write variables; `by_hand`, those of them that the script wrote instead of an
        optimizer; and `sections`, name to the names of its `variables`.
    """

    definition: Dict[str, Any]
    variables: Dict[str, str]
    runs: List[Dict[str, Any]]

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        """The ops: each has `name`, `op`, and where it has them `input`, `device` and `attr`."""
        found: List[Dict[str, Any]] = self.definition.get("node", [])
        return found


def reduce_value(value: Any, reduction: str) -> Any:
    """Returns the "mean" or "sum" of an array as a scalar of its dtype; the value itself where `reduction` is ""."""
    value = np.asarray(value)
    return value.dtype.type(GRAPH_REDUCTIONS[reduction](value)) if reduction else value


def write_graph(directory: Path, graph: RecordedGraph) -> None:
    """Writes the graph beside a trace; a reader sees the whole of it or none."""
    described = {"format": GRAPH_FORMAT, "format_version": GRAPH_VERSION, "ops": len(graph.nodes)}
    write_json(os.path.join(str(directory), GRAPH_FILE), dict(described, **graph._asdict()))


def read_graph(directory: Path) -> RecordedGraph:
    """Reads the graph of a trace.

    Raises:
      TraceError: there is none, or it is of another format, or cut short.
    """
    path = os.path.join(str(directory), GRAPH_FILE)
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read().decode("utf-8"))
    except OSError as error:
        raise TraceError(f"graph: expected {path}, got no such file. Record the script with this version.") from error
    except ValueError as error:
        raise TraceError(f"graph: expected JSON in {path}, got {error}. Record the script again.") from error
    if not isinstance(found, dict) or found.get("format") != GRAPH_FORMAT:
        raise TraceError(f"graph: expected the format {GRAPH_FORMAT!r} in {path}, got something else.")
    if found.get("format_version") != GRAPH_VERSION:
        raise TraceError(
            f"graph: expected format version {GRAPH_VERSION} in {path}, got {found.get('format_version')!r}. "
            "Read it with the version that wrote it."
        )
    for name, kind in (("definition", dict), ("variables", dict), ("runs", list)):
        if not isinstance(found.get(name), kind):
            raise TraceError(f"graph: expected {name!r} in {path} to be a {kind.__name__}. Record the script again.")
    graph = RecordedGraph(found["definition"], found["variables"], found["runs"])
    _check(graph, found.get("ops"), path)
    return graph


def _check(graph: RecordedGraph, ops: Any, path: str) -> None:
    nodes = graph.nodes
    whole = isinstance(nodes, list) and all(
        isinstance(node, dict) and isinstance(node.get("name"), str) and isinstance(node.get("op"), str)
        for node in nodes
    )
    if not whole or len(nodes) != ops:
        raise TraceError(f"graph: expected {ops} ops with a name and a type each in {path}. Record the script again.")
    known = {node["name"] for node in nodes}
    for name in _named(graph):
        if name not in known:
            raise TraceError(f"graph: expected the op {name!r} in {path}, got no such op. Record the script again.")


def _named(graph: RecordedGraph) -> List[str]:
    names = list(graph.variables.values())
    for run in graph.runs:
        if not isinstance(run, Mapping) or not isinstance(run.get("values"), dict):
            return ["(a run without values)"]
        names += [value["tensor"].partition(":")[0] for value in run["values"].values()]
        names += list(run.get("updates", []))
    return names
