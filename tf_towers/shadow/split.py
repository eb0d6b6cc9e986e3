"""Cuts a recorded graph where recorded values go in, and between what is computed first and the updates after it."""

import collections
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Set, Tuple

import tensorflow.compat.v1 as tf

from parity.trace import quantity_of
from tf_towers.float64.errors import refuse
from tf_towers.float64.graph_def import add_placeholder, by_name, full, needed, op_of, pruned, redirect
from tf_towers.float64.op_rewrites import plain_concats
from tf_towers.graph.op_types import REFERENCES, VARIABLES
from tf_towers.shadow.racing_reads import hand_racing_reads
from tf_towers.shadow.random_ops import Drawn, is_drawn_inside, replace_draws
from tf_towers.tf_types import Graph, GraphDef, NodeDef

# What a step starts from: everything else of a trace is computed again, and compared with what was recorded.
RECORDED_INPUTS = ("feed", "noise", "state")


class Cut(NamedTuple):
    """A graph that is run in two goes.

    Fields:
      definition: the GraphDef.
      fed: dict of placeholder to the list of the trace names whose values go in: several are put one after the other.
      settings: set of the placeholders of `fed` that take a number which only losses and gradients know, as a keep
        probability; an optimizer's numbers are float32 in TensorFlow whatever was meant.
      handed: dict of placeholder to the tensor of the first go whose value it takes in the second.
      computed: set of the names of the ops of the first go.
      drawn: list of the `Drawn` that give the draws inside loops and branches.
      racing: dict of placeholder to the trace name of the variable that updates read through it in no order with its own.
    """

    definition: GraphDef
    fed: Dict[str, List[str]]
    settings: Set[str]
    handed: Dict[str, str]
    computed: Set[str]
    drawn: List[Drawn]
    racing: Dict[str, str]


def is_fed(key: str) -> bool:
    """Tells whether a recorded value goes in instead of being computed: feeds, draws, the learning rate and the like."""
    return quantity_of(key) in RECORDED_INPUTS


def cut(definition: GraphDef, run: Mapping[str, Any], variables: Mapping[str, str]) -> Cut:
    """Returns the `Cut` of one run of a `RecordedGraph`.

    Losses and gradients are computed in a first go that updates nothing, and are handed to the updates in a second one: a
    script that races is computed as it was meant.

    Args:
      definition: its GraphDef, changed in place.
      run: an element of its `runs`.
      variables: dict of trace name to the name of a variable.
    """
    values = run["values"]
    # Before anything is cut: the placeholders that take the place of inputs have no shapes, which ParallelConcat wants.
    plain_concats(definition)
    drawn = replace_draws(definition, values)
    fed = _cut_inputs(definition, values)
    wanted = [op_of(each["tensor"]) for key, each in values.items() if not is_fed(key)]
    definition = pruned(definition, wanted + run["updates"] + list(fed))
    _refuse_unknown_inputs(definition, fed)
    typed = import_graph(definition)
    nodes = by_name(definition)
    computed = needed(nodes, wanted)
    # What both goes need belongs to the first; its values are handed over, so that an update cannot be overtaken.
    updating = needed(nodes, run["updates"]) - computed
    racing = hand_racing_reads(definition, typed, updating, variables)
    handed = _cut_updates(definition, typed, computed, updating)
    return Cut(definition, fed, _settings(definition, fed, run), handed, computed, drawn, racing)


def import_graph(definition: GraphDef) -> Graph:
    """Returns a `tf.Graph` of a GraphDef, from which colocation is taken: it may be with something that is cut away."""
    inside = [node for function in definition.library.function for node in function.node_def]
    for node in list(definition.node) + inside:
        node.attr.pop("_class", None)
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    return graph


def _cut_inputs(definition: GraphDef, values: Mapping[str, Dict[str, Any]]) -> Dict[str, List[str]]:
    tensors: Dict[str, Tuple[str, List[str]]] = collections.OrderedDict()
    for key, each in sorted(values.items()):
        # A draw inside a loop is no tensor that could be fed: replace_draws has put a function there.
        if is_fed(key) and not is_drawn_inside(each):
            keys = tensors.setdefault(each["tensor"], (each["dtype"], []))[1]
            if not keys or each.get("share"):  # towers that read the same recorded the same
                keys.append(key)
    pieces: Dict[str, Tuple[str, List[str]]] = {}
    for key, each in sorted(values.items()):
        if "source" in each and each["source"] not in tensors:
            pieces.setdefault(each["source"], (each["dtype"], []))[1].append(key)
    fed, renamed = collections.OrderedDict(), {}
    for number, (tensor, (dtype, keys)) in enumerate(list(tensors.items()) + sorted(pieces.items())):
        placeholder = add_placeholder(definition, f"shadow_fed/{number}", tf.as_dtype(dtype))
        # Towers that read pieces of one recorded source share its placeholder, fed with the pieces put together.
        renamed[full(tensor)] = placeholder
        fed[op_of(placeholder)] = keys
    redirect(definition, renamed)
    return fed


def _settings(definition: GraphDef, fed: Mapping[str, List[str]], run: Mapping[str, Any]) -> Set[str]:
    # A number that an update reads too may be a rate, which TensorFlow holds in float32 whatever was meant.
    known_to_updates = needed(by_name(definition), run["updates"])
    values = run["values"]
    numbers = (name for name, keys in fed.items() if all(_is_number(key, values[key]) for key in keys))
    return {name for name in numbers if name not in known_to_updates}


def _is_number(key: str, value: Mapping[str, Any]) -> bool:
    return quantity_of(key) == "feed" and value["shape"] == [] and value["dtype"] == "float32"


def _refuse_unknown_inputs(definition: GraphDef, fed: Mapping[str, List[str]]) -> None:
    for node in definition.node:
        # By the beginnings of the names, so that versions of an op (IteratorV2, QueueDequeueManyV2) count as well.
        stateless = not node.op.startswith(("Placeholder", "Iterator", "Queue", "Random", "Truncated", "Multinomial"))
        if node.name not in fed and not stateless and node.op not in ("PlaceholderWithDefault",):
            refuse(f"expected every input and draw to be recorded, got none of {node.name} ({node.op})")


def _cut_updates(
    definition: GraphDef, typed: Graph, computed: AbstractSet[str], updating: AbstractSet[str]
) -> Dict[str, str]:
    nodes = by_name(definition)
    handed: Dict[str, str] = collections.OrderedDict()
    renamed: Dict[str, str] = {}
    for name in sorted(updating):
        node = nodes[name]
        for each in list(node.input):
            if op_of(each) not in computed or _is_read(nodes, op_of(each)):
                continue
            if each.startswith("^"):
                node.input.remove(each)  # it is done before the second go
            elif full(each) not in renamed:
                tensor = typed.get_tensor_by_name(full(each))
                # No value to hand over: a variable's buffer or handle, which is the same one in both goes.
                if tensor.dtype._is_ref_dtype or tensor.dtype in (tf.resource, tf.variant):
                    continue
                renamed[full(each)] = add_placeholder(definition, f"shadow_handed/{len(renamed)}", tensor.dtype)
                handed[op_of(renamed[full(each)])] = full(each)
    redirect(definition, renamed, updating)
    return handed


def _is_read(nodes: Mapping[str, NodeDef], name: str) -> bool:
    """A read of a reference variable is the variable itself, before an update and after it."""
    node = nodes[name]
    if node.op in VARIABLES:
        return True
    return node.op == "Identity" and nodes[op_of(node.input[0])].op in REFERENCES
