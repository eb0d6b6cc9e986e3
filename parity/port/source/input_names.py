"""What the inputs of a port are called, where a script leaves their names to TensorFlow: after its own variables."""

import re
from collections.abc import Mapping

from parity.port.source.code import identifier
from parity.port.source.names import ASSIGNED, SEVERAL_ASSIGNED
from parity.port.source.writer import NAMES_OF_PORTS
from parity.port.tower.reader import Reader
from parity.trace import RecordedGraph
from parity.trace.escape import is_argument

# Of every candidate sampler: candidate_sampling_ops.py.
OF_SAMPLERS = ("sampled_candidates", "true_expected_count", "sampled_expected_count")
VERSION = re.compile(r"V\d+$")


def input_names(graph: RecordedGraph, reader: Reader) -> dict[str, str]:
    """Returns by recorded name what an input is called instead: those that are types of ops, with a number.

    Args:
      graph: of the script.
      reader: of one part of it.
    """
    nodes = {node["name"]: node for node in graph.nodes}
    fed = [(tensor, key.name) for tensor, key, _ in reader.fed(0)]
    wished: dict[str, str] = {}
    for tensor, name in fed:
        own, _, number = tensor.partition(":")
        # What a tower takes of a placeholder goes by the placeholder's name: it is called as that is.
        own, number = (name, "") if name in nodes else (own, number)
        if own in nodes and _is_left_to_tensorflow(nodes[own]["op"], name):
            wished[name] = _wished(graph, nodes[own], int(number or 0))
    taken = {name for _, name in fed} | set(NAMES_OF_PORTS)
    counts = [*wished.values()]
    return {
        name: each
        for name, each in wished.items()
        if is_argument(each) and each not in taken and counts.count(each) == 1
    }


def _is_left_to_tensorflow(kind: str, name: str) -> bool:
    """Whether a name is that of an op's type: `IteratorGetNext_0`, or `fifo_queue_Dequeue_1` of a queue."""
    core = "dequeue" if kind.startswith("QueueDequeue") else VERSION.sub("", kind).lower()
    return core in name.lower()


def _wished(graph: RecordedGraph, node: Mapping[str, str], number: int) -> str:
    if node["op"].endswith("CandidateSampler") and number < len(OF_SAMPLERS):
        return OF_SAMPLERS[number]
    for frame in reversed(graph.callers.get(node["name"], ())):
        text = str(graph.frames[frame][3])
        several, one = SEVERAL_ASSIGNED.match(text), ASSIGNED.match(text)
        if several is not None:
            names = [each.strip() for each in several.group(1).split(",")]
            return identifier(names[number]) if number < len(names) else ""
        if one is not None:
            return identifier(one.group(1)) if not number else ""
        if not text.startswith("return "):
            break
    return ""
