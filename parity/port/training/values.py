"""Reads what a script's updates compute: expressions of gradients, weights, slots, counters and what is fed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parity.port.errors import PortError
from parity.port.tower.attributes import attributes_of
from parity.port.tower.fold import fold
from parity.port.tower.ops import CONST, FEED, Op, Tensor, Tower, Write
from parity.port.tower.reader import GIVES, READING_KINDS, Reader

VARIABLE_KINDS = ("VariableV2", "Variable", "VarHandleOp")
ASSIGNS = ("Assign", "AssignVariableOp")
ADDS_TO = ("AssignAdd", "AssignAddVariableOp")
TAKES_FROM = ("AssignSub", "AssignSubVariableOp")
WRITERS_OF_VARIABLES = (*ASSIGNS, *ADDS_TO, *TAKES_FROM)
FED_LEAF = "fed "  # what the leaf of a placeholder is called, before its name
FED_KINDS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
WHOLE_NUMBERS = ("int", "uint")  # what their types begin with
MOST_OPS_OF_AN_UPDATE = 20_000  # of one expression: an update that goes through a whole model is not read


class Values:
    """Reads tensors of an update as expressions.

    Variables become leaves by their keys in the trace ("slot/m/w"), placeholders by `FED_LEAF` and their names. What is read
    after an assignment that the script ordered before it is what was assigned.

    Args:
      reader: of the graph.
      leaves: by tensor, what it is called; nothing behind it is read.
    """

    def __init__(self, reader: Reader, leaves: Mapping[str, str]) -> None:
        self._reader = reader
        self._leaves = leaves
        self._made: dict[str, Op] = {}
        self._known: dict[str, Op] = {}
        self._writers = {
            _bare(taken[0]): name
            for name in reader.updates()
            for taken in [_data(reader.node(name))]
            if reader.node(name)["op"] in WRITERS_OF_VARIABLES and taken
        }

    def tensor(self, text: str) -> Tensor:
        """Returns a tensor of the graph.

        Raises:
          PortError: there is none, or too much stands behind it.
        """
        name, _, index = text.partition(":")
        if self._is_leaf(text):
            return self._leaf(self._leaves[_full(text)], self._reader.shapes(name)).output()
        pending = [name]
        while pending:
            if len(self._made) > MOST_OPS_OF_AN_UPDATE:
                raise PortError(
                    f"port: expected an update of at most {MOST_OPS_OF_AN_UPDATE} ops, got more behind {text!r}."
                )
            last = pending[-1]
            needed = [] if last in self._made else [each for each in self._needed(last) if each not in self._made]
            if needed:
                pending += needed
                continue
            pending.pop()
            self._made.setdefault(last, self._build(last))
        return self._tensor(text, int(index or 0))

    def written(self, variable: str) -> Tensor | None:
        """Returns what a step leaves in a variable, by the name of its op; None where it writes nothing there."""
        writer = self._writers.get(variable)
        return self.tensor(writer) if writer else None

    def _needed(self, name: str) -> list[str]:
        """The ops that are read before an op."""
        return [_bare(each) for each in self._taken(name) if not self._is_leaf(each)]

    def _taken(self, name: str) -> list[str]:
        """The tensors that an op's value is computed from."""
        node = self._reader.node(name)
        if self._reader.variable(name) is not None or node["op"] in (*FED_KINDS, *VARIABLE_KINDS):
            return []
        taken = _data(node)
        # Only the data: on what side it comes out, the merge says.
        if node["op"] == "Switch":
            return taken[:1]
        if node["op"] == "Merge":
            # A condition of TensorFlow 1 names what it decides by "pred_id" in its scope, and merges (no, yes).
            scope = name.rpartition("/")[0]
            return [f"{scope}/pred_id", *taken]
        ordered = self._ordered_writer(name) if node["op"] in READING_KINDS else ""
        return [ordered] if ordered else taken

    def _ordered_writer(self, name: str) -> str:
        """The op that writes the variable that an op reads, where the script has it run before; else ""."""
        node = self._reader.node(name)
        writer = str(self._writers.get(_bare((_data(node) or [""])[0]), ""))
        # tf.control_dependencies stand in the graph as inputs with a caret.
        pending = [each[1:] for each in node.get("input", []) if each.startswith("^")] if writer else []
        seen: set[str] = set()
        while pending:
            each = pending.pop()
            if each == writer:
                return writer
            if each not in seen:
                seen.add(each)
                pending += [_bare(other.lstrip("^")) for other in self._reader.node(each).get("input", [])]
        return ""

    def _build(self, name: str) -> Op:
        node = self._reader.node(name)
        shapes = self._reader.shapes(name)
        key = self._reader.variable(name)
        if key is not None:
            return self._leaf(str(key), shapes)
        if node["op"] in FED_KINDS:
            return self._leaf(f"{FED_LEAF}{name}", shapes)
        if node["op"] in VARIABLE_KINDS:
            return self._leaf(f"unknown/{name}", shapes)
        inputs = [self._tensor(each, int(each.partition(":")[2] or 0)) for each in self._taken(name)]
        attributes = attributes_of(node)
        kind = str(node["op"])
        if kind == "Switch" or (kind in READING_KINDS and len(inputs) == 1):
            kind = "Identity"
        elif kind == "Merge":
            kind, inputs = "Select", [inputs[0], inputs[2], inputs[1]]
        elif kind in ASSIGNS:
            kind, inputs = "Identity", inputs[1:]
        elif kind in (*ADDS_TO, *TAKES_FROM):
            kind = "AddV2" if kind in ADDS_TO else "Sub"
        dtype = str(attributes.get("dtype") or attributes.get("T") or "float32")
        if kind in GIVES:
            dtype = str(attributes.get(GIVES[kind]) or GIVES[kind])
        if kind == CONST:
            shapes = [attributes["value"].shape] if "value" in attributes else [()]
        return Op(kind, name, inputs, attributes, shapes or [()], [dtype], self._reader.place(name))

    def _tensor(self, text: str, index: int) -> Tensor:
        if self._is_leaf(text):
            return self._leaf(self._leaves[_full(text)], self._reader.shapes(_bare(text))).output()
        op = self._made[_bare(text)]
        return Tensor(op, 0 if op.kind in ("Identity", FEED) else index)

    def _is_leaf(self, text: str) -> bool:
        return _full(text) in self._leaves

    def _leaf(self, called: str, shapes: list[tuple[int, ...]]) -> Op:
        if called not in self._known:
            self._known[called] = Op(FEED, called, [], {}, shapes[:1] or [()], ["float32"])
        return self._known[called]


def folded(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Returns expressions with what is constant computed, without casts that change none; what is equal is shared."""
    first, *others = tensors
    tower = fold(Tower(first, writes=[Write("", "", each) for each in others]))
    return rewritten([tower.loss, *(each.value for each in tower.writes)], _without_casts)


def _without_casts(op: Op) -> Tensor | None:
    # A counter that is cast to float32 is the same number; what is true or false becomes 1 or 0, which is another
    # thing.
    if op.kind != "Cast" or "bool" in (op.inputs[0].dtype, op.dtypes[0]):
        return None
    # One to whole numbers cuts off what is behind the point; a leaf counts, whatever it is held in.
    cuts = op.dtypes[0].startswith(WHOLE_NUMBERS) and not op.inputs[0].dtype.startswith(WHOLE_NUMBERS)
    return None if cuts and op.inputs[0].kind != FEED else op.inputs[0]


def rewritten(tensors: Iterable[Tensor], rule: Callable[[Op], Tensor | None]) -> list[Tensor]:
    """Returns expressions in which a rule's tensors stand for the ops that it gives one for."""
    made: dict[Op, Tensor] = {}

    def now(tensor: Tensor) -> Tensor:
        pending = [tensor.op]
        while pending:
            op = pending[-1]
            missing = [each.op for each in op.inputs if each.op not in made] if op not in made else []
            if missing:
                pending += missing
                continue
            pending.pop()
            if op not in made:
                inputs = [_replaced(each, made) for each in op.inputs]
                fresh = op if inputs == op.inputs else Op(op.kind, op.name, inputs, *_rest(op))
                found = rule(fresh)
                made[op] = fresh.output() if found is None else found
        return _replaced(tensor, made)

    return [now(each) for each in tensors]


def _replaced(tensor: Tensor, made: Mapping[Op, Tensor]) -> Tensor:
    found = made[tensor.op]
    return found if tensor.number == 0 else Tensor(found.op, tensor.number)


def _rest(op: Op) -> tuple[dict[str, Any], list[tuple[int, ...]], list[str], int]:
    return op.attributes, op.shapes, op.dtypes, op.place


def leaves_of(tensor: Tensor) -> set[str]:
    """Returns what the leaves of an expression are called."""
    return {op.name for op in Tower(tensor).ops() if op.kind == FEED}


def _data(node: Mapping[str, Any]) -> list[str]:
    return [each for each in node.get("input", []) if not each.startswith("^")]


def _bare(text: str) -> str:
    return text.partition(":")[0]


def _full(text: str) -> str:
    return text if ":" in text else f"{text}:0"
