"""Writes the ops of a region as Python statements: names, order, what is inlined, and where channels stand."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from parity.port.source.code import Code, identifier, method, number, whole
from parity.port.source.parameters import Parameters
from parity.port.tower.layers import BATCH_NORM, CROSS_ENTROPY, LAYERS
from parity.port.tower.ops import CONST, FEED, SETTING, VARIABLE, Op, Tensor
from parity.port.tower.regions import CALLED_BLOCK, DRAWING_KINDS, Frames
from parity.port.tower.simplify import number_of

MOST_CHARACTERS_TAKEN = 64  # characters of what an op takes; with more of them it gets statements of their own
MOST_CHARACTERS_OF_OPERANDS = 48  # of two of them
MOST_CHARACTERS_OF_AN_OPERAND = (
    80  # of one: with what it is combined with there is no room for it on a line of an update
)
COMBINING = ("Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")
NAMED_REDUCTIONS = ("Mean", "Sum", CROSS_ENTROPY)
# What ops give, where the script has no name for it.
NOUNS = {
    **dict.fromkeys(["Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Tanh"], "activated"),
    **dict.fromkeys(["Conv2d", "DepthwiseConv2d", "Conv3d", "ConvTranspose2d"], "features"),
    **dict.fromkeys(["MaxPool", "AvgPool"], "pooled"),
    **dict.fromkeys(["Add", "AddV2", "AddN", "Sum"], "total"),
    **dict.fromkeys(["BatchNorm", "LayerNorm"], "normed"),
    **dict.fromkeys(["Mul", "MatMul", "BatchMatMul", "BatchMatMulV2"], "product"),
    "Linear": "projected",
    "Embedding": "embedded",
    "Dropout": "dropped",
    "Sigmoid": "gate",
    "Softmax": "probabilities",
    "ConcatV2": "joined",
    "Pack": "stacked",
    "Reshape": "flat",
    "Pad": "padded",
    "Sub": "difference",
    "RealDiv": "quotient",
    "Square": "squared",
    "Mean": "average",
    "Transpose": "turned",
}
# What statements call, and what they are given: a name of the script's never stands for another thing.
NAMES_OF_PORTS = frozenset(
    [
        "self",
        "model",
        "module",
        "group",
        "slots",
        "torch",
        "nn",
        "F",
        "like_tf",
        "math",
        "abs",
        "float",
        "getattr",
        "int",
        "len",
        "max",
        "min",
        "range",
        "sum",
        "super",
        "tuple",
    ]
)
SEVERAL = ("Split", "SplitV", "Unpack", "TopKV2")

WriteOp = Callable[["Writer", Op], Code | None]
WRITERS: dict[str, WriteOp] = {}
WriteStatements = Callable[["Writer", Op], None]
STATEMENTS: dict[str, WriteStatements] = {}  # of ops that are no expression


def writes(*kinds: str) -> Callable[[WriteOp], WriteOp]:
    """Puts a function that writes an op into `WRITERS`, under each of some types."""

    def put(function: WriteOp) -> WriteOp:
        for kind in kinds:
            WRITERS[kind] = function
        return function

    return put


def states(*kinds: str) -> Callable[[WriteStatements], WriteStatements]:
    """Puts a function that writes an op as statements into `STATEMENTS`, under each of some types."""

    def put(function: WriteStatements) -> WriteStatements:
        for kind in kinds:
            STATEMENTS[kind] = function
        return function

    return put


@dataclass
class Refused:
    """An op that cannot be written.

    Attributes:
      kind: its type.
      name: in the graph.
      function: that stands in for it and raises.
      line: of the script, "" where it is not known.
      taken, given: shapes of its inputs and its outputs.
      arguments: number of its inputs.
    """

    kind: str
    name: str
    function: str
    line: str
    taken: list[tuple[int, ...]]
    given: tuple[int, ...]


@dataclass
class _Pending:
    code: Code
    calls: bool
    draws: bool
    names: frozenset[str]


@dataclass
class Writer:
    """Writes one function's body.

    Args:
      parameters: of the module.
      owner: what the module is called there: "self", or "model.module".
      names: by tensor, what it is called that the function is given.
      suggested: what the script calls what an op gives, "" where that is not known.
      lines: the line of the script of an op, for what is refused.
      frames: the lines of the script that an op was made in, outermost first.
      named_terms: whether numbers that the script has a name for get statements of their own.

    Attributes:
      statements: the body so far.
      refused: what could not be written.
      channels_first: what has its channels behind the examples, where the script has them last.
      wishes: by tensor, what is called so rather than as the script calls it.
    """

    parameters: Parameters
    owner: str
    names: dict[Tensor, str]
    suggested: Callable[[Op], str] = lambda op: ""
    lines: Callable[[Op], str] = lambda op: ""
    frames: Frames = lambda op: ()
    statements: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    named_terms: bool = False
    channels_first: set[Tensor] = field(default_factory=set)
    wishes: dict[Tensor, str] = field(default_factory=dict)
    _pending: dict[Tensor, _Pending] = field(default_factory=dict)
    _left: dict[Tensor, int] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    calls: bool = False
    draws: bool = False

    def write(self, ops: Sequence[Op], wanted: Sequence[Tensor], as_they_are: bool = False) -> list[Code]:
        """Writes ops in order; returns the expressions of what is wanted of them.

        Args:
          ops: in an order in which each comes after what it takes from.
          wanted: what the function returns.
          as_they_are: whether it returns images with their channels where they are, and not last.
        """
        self._left = {}
        self.count(ops, wanted)
        self.write_all(ops)
        return [self.code(each, as_they_are and each in self.channels_first) for each in wanted]

    def count(self, ops: Sequence[Op], wanted: Sequence[Tensor]) -> None:
        """Counts how often what is computed will be taken, by ops and by whoever wants it."""
        for each in [*(each for op in ops for each in taken_by(op)), *wanted]:
            self._left[each] = self._left.get(each, 0) + 1

    def write_all(self, ops: Sequence[Op]) -> None:
        """Writes ops whose inputs were counted, in order."""
        for op in ops:
            if op.kind not in (CONST, FEED, SETTING, VARIABLE) and op.output() not in self.names:
                self._write(op)

    def _write(self, op: Op) -> None:
        if op.kind in STATEMENTS:
            self._assign_long(op)
            STATEMENTS[op.kind](self, op)
            return
        self.calls = op.kind in (*LAYERS, CALLED_BLOCK)
        self.draws = op.kind in DRAWING_KINDS
        # A draw within an expression that is written later would come behind this one.
        if self.draws:
            self._assign_pending(lambda pending: pending.draws)
        if op.kind in (*LAYERS, CALLED_BLOCK) and op.kind != BATCH_NORM:  # a norm stands around the layer before it
            for each in taken_by(op):
                if each in self._pending and self._pending[each].calls:
                    self._assign(each)
        self._assign_long(op)
        written = WRITERS.get(op.kind)
        code = written(self, op) if written is not None else None
        if code is None:
            code = self.refuse(op)
        given = op.attributes["region"].given if op.kind == CALLED_BLOCK else [op.output()]
        tensor = given[0]
        self._pending[tensor] = _Pending(code, self.calls, self.draws, self._names_in(code))
        if op.kind in SEVERAL:
            self._assign_several(op)
        elif len(given) > 1:
            self._assign_each(given)
        elif self._left.get(tensor, 0) != 1 or (self.named_terms and self._is_named_term(op)):
            self._assign(tensor)

    def _is_named_term(self, op: Op) -> bool:
        return op.output().shape == () and op.kind in NAMED_REDUCTIONS and bool(self.suggested(op))

    def _assign_long(self, op: Op) -> None:
        """Gives what an op takes statements of their own, the longest first, until the rest fits on a line."""
        inside = {each: self._pending[each].code.text for each in taken_by(op) if each in self._pending}
        most = MOST_CHARACTERS_TAKEN if op.kind not in COMBINING else MOST_CHARACTERS_OF_OPERANDS
        while sum(map(len, inside.values())) > most:
            alone = len(inside) == 1 and op.kind in COMBINING
            if alone and sum(map(len, inside.values())) <= MOST_CHARACTERS_OF_AN_OPERAND:
                break
            longest = max(inside, key=lambda each: len(inside[each]))
            del inside[longest]
            self._assign(longest)

    def refuse(self, op: Op) -> Code:
        """Writes a call that raises, for an op that is not known."""
        function = f"not_ported_{identifier(op.kind)}_{len(self.refused)}"
        given = [self.code(each) for each in op.inputs if each.kind != CONST]
        shapes = [each.shape for each in op.inputs]
        self.refused.append(Refused(op.kind, op.name, function, self.lines(op), shapes, op.output().shape))
        return Code(f"{function}({', '.join(each.text for each in given)})")

    def code(self, tensor: Tensor, channels_first: bool = False) -> Code:
        """Returns an expression for a tensor.

        Args:
          tensor: given, constant, or of an op that was written.
          channels_first: whether the axis of channels, the last one in the script, is wanted behind that of examples.
        """
        found = self._found(tensor)
        if tensor.kind in (CONST, SETTING, VARIABLE) or (tensor in self.channels_first) == channels_first:
            return found
        # NHWC to NCHW and back: TensorFlow's last axis is torch's second.
        rank = len(tensor.shape)
        order = (0, rank - 1, *range(1, rank - 1)) if channels_first else (0, *range(2, rank), 1)
        return method(found, "permute", *map(str, order))

    def as_it_is(self, tensor: Tensor) -> Code:
        """Returns an expression for a tensor, with its channels where they are."""
        return self.code(tensor, tensor in self.channels_first)

    def named(self, tensor: Tensor) -> Code:
        """Returns an expression that may stand several times: what is computed gets a name first."""
        self.assign([tensor])
        return self.code(tensor)

    def _found(self, tensor: Tensor) -> Code:
        if tensor.kind == CONST:
            return self._constant(tensor)
        if tensor.kind == SETTING:
            return self.parameters.setting(tensor.op.name, number_code(tensor), self.owner)
        if tensor.kind == VARIABLE:
            return self.parameters.plain(tensor.op.name, self.owner)
        self._left[tensor] = self._left.get(tensor, 1) - 1
        if tensor in self.names:
            return Code(self.names[tensor])
        pending = self._pending.pop(tensor, None)
        if pending is None:
            raise KeyError(f"port: {tensor.op.kind} {tensor.op.name} was not written before it was used")
        self.calls = self.calls or pending.calls
        self.draws = self.draws or pending.draws
        return pending.code

    def _constant(self, tensor: Tensor) -> Code:
        if not tensor.shape or (tensor.value.size == 1):
            return number_code(tensor)
        value = tensor.value
        if tensor.is_number and value.dtype.kind == "f":
            like = self.parameters.example(self.owner)
            filled = float(value.flat[0])
            if filled in (0.0, 1.0):
                return Code(f"{like}.new_{'ones' if filled else 'zeros'}({', '.join(map(str, value.shape))})")
            return Code(f"{like}.new_full({value.shape}, {number(filled).text})")
        return self.parameters.constant(tensor.op.name, value, self.owner)

    # Assignments.

    def give_up(self, tensor: Tensor) -> None:
        """Somebody who was counted will not take it after all."""
        self._left[tensor] = self._left.get(tensor, 0) - 1

    def assign(self, tensors: Iterable[Tensor]) -> None:
        """Gives names to those of some tensors that are expressions as yet."""
        for tensor in tensors:
            if tensor in self._pending:
                self._assign(tensor)
            elif "(" in self.names.get(tensor, ""):  # the call of the model, which must not stand several times
                called = self.names.pop(tensor)
                self.names[tensor] = self.free_name(self.wished(tensor, "output"))
                self.statements.append(f"{self.names[tensor]} = {called}")

    def assign_all(self) -> None:
        """Gives names to everything that is an expression as yet."""
        self._assign_pending(lambda pending: True)

    def assign_longer(self, tensors: Iterable[Tensor], most: int) -> None:
        """Gives names to those of some tensors that are expressions of more characters."""
        self.assign([each for each in tensors if each in self._pending and len(self._pending[each].code.text) > most])

    def assign_reading(self, text: str, but: Tensor) -> None:
        """Gives names to expressions that read something, before it is written; one of them is what is written."""
        for tensor in [each for each, pending in self._pending.items() if text in pending.code.text and each != but]:
            self._assign(tensor)

    def assign_draws(self) -> None:
        """Gives names to everything that draws, so that it stays in front of what comes next."""
        self._assign_pending(lambda pending: pending.draws)

    def call_it(self, tensor: Tensor, name: str) -> None:
        """Says what a tensor is called."""
        self.names[tensor] = name

    def _assign_pending(self, which: Callable[[_Pending], bool]) -> None:
        for tensor in [tensor for tensor, pending in self._pending.items() if which(pending)]:
            self._assign(tensor)

    def _assign(self, tensor: Tensor) -> None:
        pending = self._pending.pop(tensor)
        wished = self.wished(tensor)
        # Where that is taken by what is needed still, what it is: a number behind a name says nothing.
        other = NOUNS.get(tensor.kind, wished)
        self.names[tensor] = name = self.free_name(wished if other in self._holding() else self._free_of(wished, other))
        self.statements.append(f"{name} = {pending.code.text}")

    def _assign_several(self, op: Op) -> None:
        pending = self._pending.pop(op.output())
        count = int(op.attributes.get("num_split") or op.attributes.get("num") or len(op.shapes))
        used = [op.output(index) for index in range(count)]
        chosen = []
        wished = self.wished(op.output())
        for index, tensor in enumerate(used):
            name = self.new_name(f"{wished}_{'abcdefghijklmnop'[index % 16]}") if self._left.get(tensor) else "_"
            self.names[tensor] = name
            chosen.append(name)
            if op.output() in self.channels_first:
                self.channels_first.add(tensor)
        self.statements.append(f"{', '.join(chosen)} = {pending.code.text}")

    def _assign_each(self, given: Sequence[Tensor]) -> None:
        """Gives each of what a block gives a name."""
        pending = self._pending.pop(given[0])
        for tensor in given:
            self.names[tensor] = self.free_name(self.wished(tensor))
        self.statements.append(f"{', '.join(self.names[each] for each in given)} = {pending.code.text}")

    def wished(self, tensor: Tensor, otherwise: str = "x") -> str:
        """Returns what a tensor would best be called."""
        wished = self.wishes.get(tensor) or self.suggested(tensor.op) or otherwise
        return f"{wished}_" if wished in NAMES_OF_PORTS else wished

    def is_left(self, tensor: Tensor) -> bool:
        """Whether anybody will take it."""
        return self._left.get(tensor, 0) > 0

    def free_name(self, wished: str) -> str:
        """Returns a name for what an op gives, which is taken again where nobody needs its old value."""
        if wished not in self._holding():
            self._forget(wished)
            self._used.add(wished)
            return wished
        return self.new_name(wished)

    def _holding(self) -> set[str]:
        """The names of what will be taken still."""
        holding = {name for tensor, name in self.names.items() if self._left.get(tensor, 0) > 0}
        return holding | {name for each in self._pending.values() for name in each.names}

    def _free_of(self, wished: str, other: str) -> str:
        return other if wished in self._holding() else wished

    def new_name(self, wished: str) -> str:
        """Returns a name that was not used before."""
        name, count = wished, 2
        while name in self._used or name in self.names.values():
            name, count = f"{wished}{count}", count + 1
        self._used.add(name)
        return name

    def _forget(self, name: str) -> None:
        """A name that is taken again stands for its old tensors no more."""
        for tensor in [tensor for tensor, own in self.names.items() if own == name]:
            del self.names[tensor]

    def _names_in(self, code: Code) -> frozenset[str]:
        return frozenset(re.findall(r"\b[A-Za-z_]\w*", code.text)) & frozenset(self.names.values())


def number_code(tensor: Tensor) -> Code:
    """Returns the number of a constant that has one."""
    value = tensor.value.flat[0]
    if tensor.value.dtype.kind == "b":
        return Code(str(bool(value)))
    return number(float(value)) if tensor.value.dtype.kind == "f" else whole(int(value))


def taken_by(op: Op) -> list[Tensor]:
    """Returns what an op takes that is computed: no constants, no variables."""
    return [each for each in op.inputs if each.kind not in (CONST, SETTING, VARIABLE)]


def scalar(tensor: Tensor) -> Code | None:
    """Returns a constant that has one number throughout as this number, None where it is none."""
    found = number_of(tensor)
    if found is None:
        return None
    return number_code(tensor)
