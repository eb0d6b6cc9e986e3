"""Keeps the graph of a recorded script beside its trace, as data: JSON that needs no TensorFlow to be read."""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np

from parity.trace.bounded import read_json
from parity.trace.errors import MissingError, TraceError
from parity.trace.graph_checks import fault_of_nodes, is_run
from parity.trace.provenance import Known, fault_of, is_node
from parity.trace.safetensors import Path, write_json

GRAPH_FORMAT = "tower-parity-graph"
GRAPH_VERSION = 1
GRAPH_FILE = "graph.json"
# Of losses by example: the recorder reduces what it writes, and the shadow the same tensor by the same rule.
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

    The rest says where the graph comes from; it is empty where a trace was recorded before it was kept:
      frames: list of the frames of the script's own code that ops were made in, each [file, line, function, text], as the
        first four of a `SourceLine`.
      callers: dict of op name to the numbers of the frames that it was made in, outermost first.
      shapes: dict of op name to the static shapes of its outputs, each a list with None for an unknown size; None for one of
        unknown rank. Ops without outputs are left out.
      initial: dict of trace name to the tensor of `initial_nodes` that is a variable's initial value.
      initial_nodes: the ops that compute initial values, with all that they take, as in `nodes`; a constant of more than
        64 KiB has no `value`.
      arguments: the script's own, without its name.
      flags: dict of the name of every flag that the script's own modules defined to its value.
      collections: dict of a collection's key to the names of what is in it, in order: tensors, ops, and ops of variables.
      hyper_parameters: dict of section to a dict of name to number, rounded to float32, or to the tensor that gives it in
        each step, e.g. {"learning_rate": "ExponentialDecay:0", "momentum": 0.9}.
      combinations: dict of section to a dict of the name of a variable's op to how its towers' gradients are combined: "one"
        (of one tower only), "sum", "mean", "mean_of_present", "scaled" or "unknown".
      clipping: dict of section to None where it clips nothing, else a dict with
        `kind`, "global_norm" or "norm" (of each gradient by itself) with `limit`, "value" with `low` and `high` (None for a
        bound that there is none of), "scale" with `factor`, or "other"; numbers as in `hyper_parameters`;
        `place`, "before_combining" (in each tower by itself) or "after_combining", None where the combination is unknown;
        `variables`, names of their ops, where not all of the section are clipped;
        `first`, the rule before combining where there is one in both places.
    """

    definition: Dict[str, Any]
    variables: Dict[str, str]
    runs: List[Dict[str, Any]]
    frames: Sequence[List[Any]] = []
    callers: Mapping[str, List[int]] = {}
    shapes: Mapping[str, List[Optional[List[Optional[int]]]]] = {}
    initial: Mapping[str, str] = {}
    initial_nodes: Sequence[Dict[str, Any]] = []
    arguments: Sequence[str] = []
    flags: Mapping[str, Any] = {}
    collections: Mapping[str, List[str]] = {}
    hyper_parameters: Mapping[str, Dict[str, Any]] = {}
    combinations: Mapping[str, Dict[str, str]] = {}
    clipping: Mapping[str, Optional[Dict[str, Any]]] = {}

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        """The ops: each has `name`, `op`, and where it has them `input`, `device` and `attr`."""
        found: List[Dict[str, Any]] = self.definition.get("node", [])
        return found

    @property
    def lines(self) -> Dict[str, int]:
        """Dict of op name to the number of the innermost frame that it was made in; ops without one are left out."""
        return {name: frames[-1] for name, frames in self.callers.items()}


def reduce_value(value: Any, reduction: str) -> Any:
    """Returns the "mean" or "sum" of an array as a scalar of its dtype; the value itself where `reduction` is ""."""
    value = np.asarray(value)
    # The dtype of the tensor again: of int32 numpy's sum is int64, its mean float64.
    return value.dtype.type(GRAPH_REDUCTIONS[reduction](value)) if reduction else value


def write_graph(directory: Path, graph: RecordedGraph) -> None:
    """Writes the graph beside a trace; a reader sees the whole of it or none."""
    described = {"format": GRAPH_FORMAT, "format_version": GRAPH_VERSION, "ops": len(graph.nodes)}
    write_json(os.path.join(str(directory), GRAPH_FILE), dict(described, **graph._asdict()))


def read_graph(directory: Path) -> RecordedGraph:
    """Reads the graph of a trace.

    Raises:
      MissingError: there is none.
      TraceError: it is of another format, or cut short, or what it says contradicts itself.
    """
    path = os.path.join(str(directory), GRAPH_FILE)
    try:
        found = read_json(path)
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise (MissingError if missing else TraceError)(
            f"graph: expected to read {path}, got: {error.strerror}. Record the script with this version."
        ) from error
    except TraceError:
        raise
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
    graph = RecordedGraph(**{name: found[name] for name in RecordedGraph._fields if name in found})
    _check(graph, found.get("ops"), path)
    return graph


def _check(graph: RecordedGraph, ops: Any, path: str) -> None:
    nodes = graph.nodes
    if not isinstance(nodes, list) or not all(is_node(node) for node in nodes) or len(nodes) != ops:
        raise TraceError(f"graph: expected {ops} ops with a name and a type each in {path}. Record the script again.")
    fault = fault_of_nodes(nodes)
    if fault:
        raise TraceError(f"graph: expected {fault} in {path}, got something else. Record the script again.")
    # A reader finds ops by these names much later, inside of a child: a name that leads nowhere is refused here.
    known = {node["name"] for node in nodes}
    for name in _named(graph):
        if not isinstance(name, str) or name not in known:
            raise TraceError(f"graph: expected the op {name!r} in {path}, got no such op. Record the script again.")
    fault = fault_of(graph._asdict(), Known(known, set(graph.variables), _sections(graph)))
    if fault:
        raise TraceError(f"graph: expected {fault} in {path}, got something else. Record the script again.")


def _named(graph: RecordedGraph) -> List[Any]:
    names: List[Any] = list(graph.variables.values())
    for run in graph.runs:
        if not is_run(run):
            return ["(a run without values)"]
        names += [value["tensor"].partition(":")[0] for value in run["values"].values()]
        names += run.get("updates", [])
    return names


def _sections(graph: RecordedGraph) -> Set[str]:
    return {name for run in graph.runs for name in run.get("sections", {})}
