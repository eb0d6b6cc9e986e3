"""Reads the towers of a recorded graph: their ops from what is fed to the loss, with shapes, constants and variables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from parity.experiment.replay.script import Part
from parity.port.errors import PortError
from parity.port.tower.attributes import attributes_of
from parity.port.tower.frames import Frames
from parity.port.tower.ops import (
    COMPARISONS,
    CONST,
    FEED,
    LOOP,
    LOOP_MEMBERS,
    LOOP_NUMBER,
    LOOP_SLOT,
    LOOP_STATE,
    OPEN,
    SETTING,
    UNKNOWN,
    VARIABLE,
    Op,
    Tensor,
    Tower,
    Write,
    ops_of,
)
from parity.trace import RecordedGraph, TensorKey, parse_key, trace_name
from parity.trace.arrays import Array

READING_KINDS = ("Identity", "ReadVariableOp", "Enter")
# In TensorFlow 1 a while loop is these five ops in a frame; there is no op that is the loop.
GATE_KINDS = ("Enter", "NextIteration", "LoopCond")  # hand on what they take
# Ops that write a variable, and give what it then holds: what they compute of what it held before, where it is
# anything.
WRITING_KINDS = {"Assign": "Identity", "AssignSub": "Sub", "AssignAdd": "Add"}
LOGIC = ("LogicalAnd", "LogicalOr", "LogicalNot", "IsFinite", "IsNan", "IsInf", "All", "Any")
# Ops whose output is of another type than their input: the type itself, or the attribute that names it.
GIVES = {
    "Cast": "DstT",
    "ArgMax": "output_type",
    "ArgMin": "output_type",
    "Shape": "out_type",
    **dict.fromkeys([*COMPARISONS, *LOGIC], "bool"),
}


class Reader:
    """Reads the towers of a part from the recorded graph.

    Args:
      graph: as `read_graph` gives it.
      part: one optimizer's part of the trace.
      shapes: by name of op, the shapes of its outputs in the recorded steps, as far as they are known.
    """

    def __init__(self, graph: RecordedGraph, part: Part, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        self._part, self._shapes, self._static = part, shapes, graph.shapes
        self._unmoved = part.unmoved()
        handing_on = functions_that_hand_on(graph.definition)
        self._nodes = {
            node["name"]: {**node, "op": "Identity"} if node["op"] in handing_on else node for node in graph.nodes
        }
        self.frames = Frames(self._nodes)
        self._places = {node["name"]: place for place, node in enumerate(graph.nodes)}
        self._variables = {op: parse_key(key) for key, op in graph.variables.items()}
        key = trace_name("loss", tower=0, section=part.name)
        # A script calls session.run for other things too: the run that trains is the one in which the first tower's
        # loss was seen.
        self._run = next((run for run in graph.runs if key in run["values"]), None)
        if self._run is None:
            raise PortError(f"port: expected {key} in the graph of the trace, got none. Record the script again.")

    @property
    def values(self) -> dict[str, Any]:
        """What was recorded of the run, by name."""
        found: dict[str, Any] = self._run["values"] if self._run else {}
        return found

    def tower(self, number: int) -> Tower:
        """Returns a tower by its number."""
        loss = self.values[trace_name("loss", tower=number, section=self._part.name)]
        building = _Building(self, number)
        tensor = building.tensor(loss["tensor"])
        if "reduced" in loss:
            # The script differentiates a loss for each example; what was recorded as its loss is their mean or their
            # sum.
            kind = {"mean": "Mean", "sum": "Sum"}[loss["reduced"]]
            axes = Op(CONST, "axes", [], {"value": np.arange(len(tensor.shape))}, [()], ["int32"])
            # behind every op of the graph: regions are written in the order of the places
            last = len(self._places)
            tensor = Op(
                kind, "loss", [tensor, axes.output()], {"keep_dims": False}, [()], [tensor.dtype], last
            ).output()
        return Tower(tensor, building.feeds, building.variables, building.writes(), building.numbers, self._unmoved)

    def fed(self, number: int) -> Iterator[tuple[str, TensorKey, str]]:
        """Yields the tensor, the key and the dtype of everything that is fed to a tower."""
        for text, described in self.values.items():
            if text.startswith(self._part.prefix):
                key = parse_key(text[len(self._part.prefix) :])
                if key.quantity == "feed" and key.tower == str(number):
                    yield described["tensor"], key, str(described["dtype"])

    def updates(self) -> list[str]:
        """Returns the names of the ops that write variables in this run."""
        return list(self._run.get("updates", [])) if self._run else []

    def fed_number(self, number: int, name: str) -> Array | None:
        """Returns the one number that a tower was fed in every recorded step; None where it is none, or changes."""
        key = trace_name("feed", name, tower=number, section=self._part.name)
        fed = [self._part.trace.step(each).read(key) for each in self._part.steps]
        # A rate or a flag fed as a number: one that never changed in the recorded steps is written as a constant and
        # said so.
        constant = all(not each.shape and each == fed[0] for each in fed)
        return np.asarray(fed[0]) if constant else None

    def fed_shape(self, number: int, name: str) -> tuple[int, ...]:
        """Returns the shape of what is fed to a tower in the first recorded step."""
        first = self._part.trace.step(self._part.steps[0])
        return tuple(first.shape(trace_name("feed", name, tower=number, section=self._part.name)))

    def kept(self, key: str) -> Array | None:
        """Returns the number that a variable of the script's own holds; None where it is none, or changes."""
        values = [self._part.trace.step(step).read(key) for step in self._part.steps]
        same = all(each.shape == () and each == values[0] for each in values)
        return np.asarray(values[0]) if same else None

    def shares(self, number: int) -> set[str]:
        """Returns the tensors that the script feeds whole, and splits among the towers only behind other ops."""
        shared = {each["tensor"] for each in self.values.values() if "share" in each}
        return {tensor for tensor, _, _ in self.fed(number) if tensor in shared}

    def node(self, name: str) -> Mapping[str, Any]:
        """Returns a node by name."""
        if name not in self._nodes:
            raise PortError(f"port: expected the op {name!r} in the graph, got none. Record the script again.")
        found: Mapping[str, Any] = self._nodes[name]
        return found

    def place(self, name: str) -> int:
        """Returns where among the others the script made an op."""
        return self._places.get(name, 0)

    def variable(self, name: str) -> TensorKey | None:
        """Returns the key of a variable by the name of its op."""
        return self._variables.get(name)

    def described(self, name: str) -> tuple[list[int], str]:
        """Returns shape and dtype of a variable by its name in the trace."""
        entry = self._part.trace.variables.get(name)
        if entry is None:
            raise PortError(
                f"port: expected {name!r} among the variables of the trace, got none. Record the script again."
            )
        return list(entry["shape"]), str(entry["dtype"])

    def open_lengths(self, tensor: str) -> Array:
        """Returns which lengths of a tensor the script leaves open; one number where it leaves all, or none."""
        name, _, index = tensor.partition(":")
        known = self._static.get(name, [])
        shape = known[int(index or 0)] if int(index or 0) < len(known) else []
        return np.array(True) if shape is None else np.array([each is None for each in shape], bool)

    def state_shape(self, key: str) -> tuple[int, ...] | None:
        """Returns the shape of a variable that is neither weight nor statistic; None where it was not recorded."""
        first = self._part.trace.step(self._part.steps[0])
        return tuple(first.shape(key)) if key in first else None

    def shapes(self, name: str) -> list[tuple[int, ...]]:
        """Returns the shapes of an op's outputs."""
        return [tuple(shape) for shape in self._shapes.get(name, [])]


def functions_that_hand_on(definition: Mapping[str, Any]) -> frozenset[str]:
    """Returns the functions of a graph that give the one tensor that they take: of such a script wants the gradient alone.

    What that is stands in no trace: the gradients of the port are compared.
    """
    found = []
    for function in definition.get("library", {}).get("function", []):
        signature = function.get("signature", {})
        taken, given = ([each.get("name") for each in signature.get(f"{way}_arg", [])] for way in ("input", "output"))
        if (
            len(taken) == len(given) == 1
            and not function.get("node_def")
            and function.get("ret") == {given[0]: taken[0]}
        ):
            found.append(str(signature.get("name")))
    return frozenset(found)


class _Building:
    def __init__(self, reader: Reader, number: int) -> None:
        self._reader = reader
        self._ops: dict[str, Op] = {}
        self.feeds: dict[str, Op] = {}
        self.variables: dict[str, Op] = {}
        self.numbers: dict[str, Array] = {}
        self._fed: dict[str, Op] = {}
        self._loops: dict[str, int] = {}
        self._whole: set[Op] = set()
        self._states: set[str] = set()
        shares = reader.shares(number)
        for tensor, key, dtype in reader.fed(number):
            shape = reader.fed_shape(number, key.name)
            constant = reader.fed_number(number, key.name) if not shape else None
            if constant is not None:  # a keep_prob, a flag: a number of the script's
                self._fed[tensor] = Op(CONST, key.name, [], {"value": constant, "written": True}, [()], [dtype])
                continue
            op = Op(FEED, key.name, [], {}, [shape], [dtype])
            self._fed[tensor] = self.feeds[key.name] = op
            if tensor in shares:
                self._whole.add(op)

    def tensor(self, text: str) -> Tensor:
        name, _, index = text.partition(":")
        fed = self._fed.get(f"{name}:{index or 0}")
        if fed is not None:
            if fed.kind == CONST:
                self.numbers[fed.name] = fed.output().value
            return fed.output()
        self._build(name)
        return Tensor(self._ops[name], int(index or 0))

    def writes(self) -> list[Write]:
        """Returns what the run writes into moving statistics, and into variables that this is computed of."""
        updates = [*self._updates()]
        # What the loss reads was made before: a number that is another one in each step is none that a port is given.
        self._states = {str(key) for key, _ in updates if key.quantity == "state"}
        found = [self._write(key, name) for key, name in updates if key.quantity == "stat"]
        pending = {key.name for key, _ in updates if key.quantity == "state"}
        while read := pending & {op.name for each in found for op in ops_of([each.after or each.value])}:
            found += [self._write(key, name) for key, name in updates if key.quantity == "state" and key.name in read]
            pending -= read
        return found

    def _updates(self) -> Iterator[tuple[TensorKey, str]]:
        """Yields the variables that the run writes, with the ops that do."""
        for name in self._reader.updates():
            taken = self._reader.node(name).get("input", [])
            key = self._written(taken[0]) if len(taken) > 1 else None
            if key is not None:
                yield key, name

    def _write(self, key: TensorKey, name: str) -> Write:
        node = self._reader.node(name)
        live = node["op"] in WRITING_KINDS and self._is_live(node["input"][0])
        value, after = self.tensor(node["input"][1]), self.tensor(name) if live else None
        return Write(key.name, node["op"], value, after, key.quantity == "stat")

    def _is_live(self, tensor: str) -> bool:
        """Whether a variable that is written is that of a branch that is taken in every step."""
        name, _, index = tensor.partition(":")
        node = self._reader.node(name)
        if node["op"] != "RefSwitch":
            return True
        chosen = self.tensor(node["input"][1])
        while chosen.kind == "Identity":
            chosen = chosen.op.inputs[0]
        taken = chosen.kind == CONST and bool(chosen.value) == (index == "1")
        return taken and self._is_live(node["input"][0])

    def _written(self, tensor: str) -> TensorKey | None:
        """The variable that is written, also through the switch of a condition."""
        name = tensor.partition(":")[0]
        while self._reader.node(name)["op"] == "RefSwitch":
            name = self._reader.node(name)["input"][0].partition(":")[0]
        return self._reader.variable(name)

    def _build(self, wanted: str) -> None:
        pending = [wanted]
        while pending:
            name = pending[-1]
            needed = [each for each in self._inputs(name) if each not in self._ops] if name not in self._ops else []
            if needed:
                pending += needed
                continue
            pending.pop()
            if name not in self._ops:
                self._ops[name] = self._made(name)

    def _inputs(self, name: str) -> list[str]:
        """The ops that an op takes data from and that are not fed."""
        if self._reader.variable(name) is not None:
            return []
        split = [each.partition(":") for each in self._taken(name)]
        return [own for own, _, index in split if f"{own}:{index or 0}" not in self._fed]

    def _taken(self, name: str) -> list[str]:
        """The tensors that an op takes, where a loop is an op of its own."""
        frames = self._reader.frames
        if name in frames.by_name:
            frame = frames.by_name[name]
            return [*frame.starts, *frame.nexts, frame.condition]
        if name in frames.exit_of:
            frame, slot = frames.exit_of[name]
            return [f"{frame.name}:{slot}"]
        listed = [each for each in self._reader.node(name).get("input", []) if not each.startswith("^")]
        if name in frames.state_of:
            frame, slot = frames.state_of[name]
            return [frame.starts[slot]]
        return listed[:1] if name in frames.gates else listed

    def _made(self, name: str) -> Op:
        key = self._reader.variable(name)
        if key is not None:
            return self._variable(key)
        inputs = [self.tensor(each) for each in self._taken(name)]
        if any(each.op in self._whole for each in inputs):
            return self._of_share(name, self._reader.node(name), inputs)
        looped = self._looped(name, inputs)
        if looped is not None:
            return looped
        written = self._written_op(name, inputs)
        if written is not None:
            return written
        node = self._reader.node(name)
        if node["op"] in READING_KINDS and inputs and inputs[0].kind == VARIABLE:
            return inputs[0].op
        attributes = attributes_of(node)
        if node["op"] in ("Shape", "Size"):
            attributes[OPEN] = self._reader.open_lengths(self._taken(name)[0])
        shapes, dtypes = self._reader.shapes(name), [str(attributes.get("dtype") or attributes.get("T") or "float32")]
        if node["op"] == CONST:
            shapes = [attributes["value"].shape] if "value" in attributes else [()]
        if node["op"] in GIVES:
            dtypes = [str(attributes.get(GIVES[node["op"]]) or GIVES[node["op"]])]
        return Op(node["op"], name, inputs, attributes, shapes or [()], dtypes, self._reader.place(name))

    def _of_share(self, name: str, node: Mapping[str, Any], inputs: list[Tensor]) -> Op:
        """An op of what the script has whole and a rank has its share of: the split among the towers is no op there."""
        dtypes = [inputs[-1].dtype]
        if node["op"] == "Split":
            return Op("Identity", name, inputs[1:], {}, [(UNKNOWN,)], dtypes, self._reader.place(name))
        found = Op(node["op"], name, inputs, attributes_of(node), [(UNKNOWN,)], dtypes, self._reader.place(name))
        self._whole.add(found)
        return found

    def _looped(self, name: str, inputs: list[Tensor]) -> Op | None:
        """An op of a loop's control flow; None of any other."""
        frames = self._reader.frames
        if name in frames.by_name:
            frame, starts = frames.by_name[name], inputs[: len(inputs) // 2]
            attributes = {LOOP_NUMBER: self._loop_number(name), LOOP_MEMBERS: frame.members}
            return Op(LOOP, name, inputs, attributes, [()] * len(starts), [each.dtype for each in starts], frame.place)
        dtypes = [inputs[0].dtype] if inputs else []
        if name in frames.state_of:
            frame, slot = frames.state_of[name]
            attributes = {LOOP_NUMBER: self._loop_number(frame.name), LOOP_SLOT: slot}
            return Op(LOOP_STATE, name, inputs, attributes, [(UNKNOWN,)], dtypes, self._reader.place(name))
        handed_on = name in frames.exit_of or name in frames.gates or self._reader.node(name)["op"] in GATE_KINDS
        if handed_on and inputs and inputs[0].kind != VARIABLE:
            return Op("Identity", name, inputs, {}, [(UNKNOWN,)], dtypes, self._reader.place(name))
        return None

    def _written_op(self, name: str, inputs: list[Tensor]) -> Op | None:
        """What a variable holds behind an op that writes it; None of any other op, and of a variable that is not read."""
        node = self._reader.node(name)
        key = self._written(node["input"][0]) if node["op"] in WRITING_KINDS else None
        variable = self._variable(key) if key is not None else None
        if variable is None or variable.kind != VARIABLE:
            return None
        taken = [inputs[1]] if node["op"] == "Assign" else [variable.output(), inputs[1]]
        kind, place = WRITING_KINDS[node["op"]], self._reader.place(name)
        return Op(kind, name, taken, {}, list(variable.shapes), list(variable.dtypes), place)

    def _loop_number(self, name: str) -> int:
        """Its place among the loops of the tower, which another tower's has too."""
        return self._loops.setdefault(name, len(self._loops))

    def _variable(self, key: TensorKey) -> Op:
        name = key.name
        shape = self._reader.state_shape(str(key)) if str(key) in self._states else None
        if shape is not None:
            return self.variables.setdefault(name, Op(VARIABLE, name, [], {"kind": "state"}, [shape], ["float32"]))
        if key.quantity not in ("var", "stat"):
            value = self._reader.kept(str(key))
            if value is None:
                return Op("State", str(key), [], {}, [()], ["float32"])
            return Op(SETTING, name, [], {"value": value}, [()], [str(value.dtype)])
        if name not in self.variables:
            sizes, dtype = self._reader.described(name)
            self.variables[name] = Op(VARIABLE, name, [], {"kind": key.quantity}, [tuple(sizes)], [dtype])
        return self.variables[name]
