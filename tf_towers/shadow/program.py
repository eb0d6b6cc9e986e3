"""Runs single recorded steps of one graph in float64."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf import json_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.ops import gen_resource_variable_ops, gen_state_ops

from parity.trace import ForwardOp, RecordedGraph, parse_key, quantity_of, reduce_value
from parity.trace.arrays import Array, Tensors
from parity.trace.as_written import as_written
from tf_towers.float64.errors import refuse
from tf_towers.float64.graph_def import by_name, needed, op_of
from tf_towers.float64.op_rewrites import expand
from tf_towers.float64.to_float64 import widen
from tf_towers.graph.forward import forward_of, with_values
from tf_towers.graph.op_types import VARIABLES
from tf_towers.graph.user_errors import INEXACT
from tf_towers.shadow.nhwc import to_channels_last
from tf_towers.shadow.racing_reads import nearest_order
from tf_towers.shadow.side_effects import refuse_side_effects
from tf_towers.shadow.split import cut, import_graph, is_fed
from tf_towers.tf_types import Feeds, Operation, Tensor


class Program:
    """One run of a recorded script, in float64.

    Args:
      recorded: a `RecordedGraph`.
      run: an element of its `runs`.

    Attributes:
      draws_inside: whether draws inside loops or branches are given.
      inexact: sorted names of the ops, of those that losses are computed of, that are as rough as float32 in float64.
      expanded: sorted list of the types of ops that were written out as plain ones.
      constants: what `widen` read otherwise.
      racing: sorted trace names of the counters and slots that updates read in no order with their own.
      others: after a step, dict of trace name to array in the other order, where that is another number.

    Raises:
      CannotShadow: the graph cannot be computed in float64, or does something beside computing.
    """

    def __init__(self, recorded: RecordedGraph, run: Mapping[str, Any]) -> None:
        definition = graph_pb2.GraphDef()
        try:
            json_format.ParseDict(recorded.definition, definition)
        except json_format.ParseError as error:
            refuse(f"expected a graph in protobuf's JSON form, got one in which {str(error)[:200]}")
        self._cut = cut(definition, run, recorded.variables)
        refuse_side_effects(self._cut.definition)
        # Pruned to what is recorded: summaries, savers and other towers' branches need no float64 form.
        definition = self._cut.definition
        self.draws_inside = bool(self._cut.drawn)
        losses = [op_of(each["tensor"]) for key, each in run["values"].items() if quantity_of(key) == "loss"]
        nodes = by_name(definition)
        self.inexact = sorted(name for name in needed(nodes, losses) if nodes[name].op in INEXACT)
        # Still in float32: expand asks it for the types and shapes that the nodes themselves do not say.
        typed = import_graph(definition)
        # Before widen: what is turned is still of the types that its op was made with.
        turned, moved = to_channels_last(definition)
        # Where a script writes its updates itself, it writes their constants too. What has to run before, as moving
        # averages before gradients that are made under a control dependency, is no part of what is computed.
        wanted = [op_of(each["tensor"]) for key, each in run["values"].items() if not is_fed(key)]
        of_the_model = needed(by_name(definition), wanted, control=False)
        by_hand = needed(by_name(definition), run.get("by_hand", []))
        self.constants = widen(definition, of_the_model | by_hand)
        expanded, renamed = expand(definition, typed)
        renamed.update(moved)
        self.expanded = sorted(expanded + [f"{each} in NCHW" for each in turned])
        self._graph = import_graph(definition)
        values = {key: each["tensor"] for key, each in run["values"].items() if not is_fed(key)}
        self._values = {key: renamed.get(name, name) for key, name in values.items()}
        self._reductions = {key: each.get("reduced", "") for key, each in run["values"].items()}
        self._shares = {key: each["share"][0] for key, each in run["values"].items() if each.get("share")}
        self._handed = {key: renamed.get(name, name) for key, name in self._cut.handed.items()}
        # What the forward pass writes by itself is written in the first go.
        self._updates = [name for name in run["updates"] if name not in self._cut.computed]
        of_variables = {key: name for key, name in recorded.variables.items() if quantity_of(key) in ("var", "stat")}
        self._names = {name: parse_key(key).name for key, name in of_variables.items()}
        self.racing = sorted(set(self._cut.racing.values()))
        self.others: Tensors = {}
        self._add_variables(recorded.variables)
        self._session = tf.Session(graph=self._graph, config=_exact())

    def close(self) -> None:
        """Ends its session."""
        self._session.close()

    def step(self, state: Tensors, values: Tensors) -> Tensors:
        """Computes one step; where the script races for a counter or a slot, in the order that is nearer to its own.

        Args:
          state: dict of trace name of a variable to its value before the step.
          values: dict of trace name to recorded value, of at least everything that is fed.

        Returns:
          Dict of trace name to float64 array: losses, gradients, and the variables after the step.
        """
        # First with what races read from before the update, then, where anything races, with what that update left.
        computed = self._in_order(state, values, {key: state[key] for key in self.racing})
        if not self.racing:
            return computed
        late = self._in_order(state, values, {key: computed[key] for key in self.racing})
        order = nearest_order(computed, late, values)
        self.others = order.others
        return order.values

    def _in_order(self, state: Tensors, values: Tensors, racing: Tensors) -> Tensors:
        self._set(state)
        feeds = {f"{name}:0": self._fed(name, keys, values) for name, keys in self._cut.fed.items()}
        feeds = {name: value for name, value in feeds.items() if value is not None}
        found, handed = self._computed(feeds, values)
        feeds.update((f"{name}:0", value) for name, value in handed.items())
        feeds.update((f"{name}:0", wide(racing[key])) for name, key in self._cut.racing.items())
        # The second go; its losses and gradients are fed, so that nothing of it depends on the order of the updates.
        self._session.run(self._updates, feeds)
        # A run of its own: a variable fetched beside its update comes old or new.
        found.update(self._session.run(self._reads))
        return {key: reduce_value(value, self._reductions.get(key, "")) for key, value in found.items()}

    def forward(
        self, state: Tensors, values: Tensors, losses: Sequence[str]
    ) -> List[Tuple[ForwardOp, Optional[Array]]]:
        """Runs the forward pass of one tower; updates nothing.

        Args:
          state: as of `step`.
          values: likewise.
          losses: trace names of the tower's losses.

        Returns:
          List of `ForwardOp` with output, as `write_forward` takes it.
        """
        self._set(state)
        feeds = {f"{name}:0": self._fed(name, keys, values) for name, keys in self._cut.fed.items()}
        feeds = {name: value for name, value in feeds.items() if value is not None}
        passed = forward_of([self._graph.get_tensor_by_name(self._values[key]) for key in losses], self._names)
        # Each draw is used up once: what is left over from an earlier, broken run must not come first.
        for drawn in self._cut.drawn:
            drawn.fill(values)
        return list(with_values(passed, self._session, feeds))

    def settings(self, values: Tensors) -> Dict[str, List[float]]:
        """Returns what was fed as a number and is read otherwise, as `constants` are: dict of trace name to both values."""
        keys = (key for name in sorted(self._cut.settings) for key in self._cut.fed[name] if key in values)
        both = ((key, float(values[key]), float(as_written(values[key]))) for key in keys)
        return {key: [value, written] for key, value, written in both if value != written}

    def _fed(self, name: str, keys: Sequence[str], values: Tensors) -> Optional[Array]:
        reading = as_written if name in self._cut.settings else wide
        if all(key in self._shares and key in values for key in keys):
            return np.concatenate([reading(values[key]) for key in sorted(keys, key=lambda key: self._shares[key])])
        return _one(keys, values, reading)

    def _computed(self, feeds: Feeds, values: Tensors) -> Tuple[Tensors, Tensors]:
        for drawn in self._cut.drawn:
            drawn.fill(values)
        try:
            found = self._session.run([self._values, self._handed], feeds)
        except tf.errors.OpError:
            for drawn in self._cut.drawn:
                if drawn.complaint:
                    refuse(drawn.complaint)
            raise
        for drawn in self._cut.drawn:
            drawn.check()
        return found

    def _set(self, state: Tensors) -> None:
        # The session is used for every step: whatever is not set would keep what the step before left.
        missing = [key for key in self._reads if key not in state]
        if missing:
            refuse(f"expected a recorded value of every variable, got none of {missing[0]}")
        feeds = {placeholder: wide(state[key]) for key, (placeholder, _) in self._sets.items()}
        self._session.run([op for _, op in self._sets.values()], feeds)

    def _add_variables(self, variables: Mapping[str, str]) -> None:
        self._sets, self._reads = {}, {}
        # Pruning may have taken a variable that the run does not touch.
        names = {op.name for op in self._graph.get_operations()}
        with self._graph.as_default():
            for key, name in variables.items():
                if name in names:
                    self._sets[key], self._reads[key] = _access(self._graph.get_operation_by_name(name))
        known = set(variables.values())
        for op in self._graph.get_operations():
            if op.type in VARIABLES and op.name not in known:
                refuse(f"expected the value of every variable to be recorded, got none of {op.name}")


def wide(value: Any) -> Array:
    """Returns an array with its floats in float64."""
    value = np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def widened(key: str, value: Any) -> Array:
    """Returns a recorded value with its floats in float64; a counter as it is."""
    return value if quantity_of(key) == "state" else wide(value)


def settled(key: str, recorded: Any, computed: Mapping[str, Any]) -> Array:
    """Returns what a shadow holds under a trace name: what was computed, or what was recorded where nothing was.

    Args:
      key: the name. Counters are always the recorded ones.
      recorded: the value of the recording.
      computed: dict of trace name to value, as `Program.step` returns it.
    """
    known = quantity_of(key) == "state" or key not in computed
    return widened(key, recorded) if known else np.asarray(computed[key])


def _one(keys: Sequence[str], values: Tensors, reading: Callable[[Any], Array]) -> Optional[Array]:
    found = [reading(values[key]) for key in keys if key in values]
    # A feed that the script gave in some of its runs only.
    if len(found) != len(keys):
        return None  # TensorFlow says which one it needs after all
    # Pieces of one source, one for each tower: equal ones were read whole, others make up the batch in order.
    alike = all(np.array_equal(each, found[0]) for each in found)
    return found[0] if len(found) == 1 or alike or not found[0].ndim else np.concatenate(found)


def _access(op: Operation) -> Tuple[Tuple[Tensor, Operation], Tensor]:
    """Adds ops that write and read a variable; returns ``((placeholder, write), read)``."""
    if op.type == "VarHandleOp":
        dtype = tf.as_dtype(op.get_attr("dtype"))
        value = tf.placeholder(dtype)
        write = gen_resource_variable_ops.assign_variable_op(op.outputs[0], value)
        return (value, write), gen_resource_variable_ops.read_variable_op(op.outputs[0], dtype)
    value = tf.placeholder(op.outputs[0].dtype.base_dtype)
    return (value, gen_state_ops.assign(op.outputs[0], value, validate_shape=False).op), op.outputs[0]


def _exact() -> Any:
    """Nothing is rewritten, and sums are made in one order."""
    # Two threads split sums, and so add in another order: repeated runs would differ in their last bits.
    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1, device_count={"GPU": 0})
    options = config.graph_options
    # L0: no constant folding and no common subexpressions; grappler is switched off below. Both may reorder sums.
    options.optimizer_options.opt_level = -1
    options.rewrite_options.CopyFrom(rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True))
    return config
