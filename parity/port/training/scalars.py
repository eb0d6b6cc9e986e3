"""How numbers are computed in Python: what a schedule or a counter is written with."""

from collections.abc import Callable, Iterable

from parity.port.source.code import ATOM, COMPARISON, MULTIPLIED, RAISED_TO, Code, call, infix
from parity.port.source.functions import Names
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer, writes
from parity.port.tower.ops import CONST, FEED, Op, Tensor, ops_of
from parity.port.training.values import WHOLE_NUMBERS, rewritten

OF_PYTHON = "Python"  # what the kind of an op begins with that is computed of numbers, not of tensors
FUNCTIONS_OF_NUMBERS = {
    "Sqrt": "math.sqrt",
    "Exp": "math.exp",
    "Log": "math.log",
    "Cos": "math.cos",
    "Sin": "math.sin",
    "Tanh": "math.tanh",
    "Floor": "math.floor",
    "Ceil": "math.ceil",
    "Abs": "abs",
    "Maximum": "max",
    "Minimum": "min",
}
WORDS_OF_LOGIC = {"LogicalAnd": "and", "LogicalOr": "or"}
OF_NUMBERS = (
    *FUNCTIONS_OF_NUMBERS,
    *WORDS_OF_LOGIC,
    "Cast",
    "Square",
    "Rsqrt",
    "Reciprocal",
    "Select",
    "SelectV2",
    "LogicalNot",
)


@writes(*(OF_PYTHON + kind for kind in FUNCTIONS_OF_NUMBERS))
def _function(writer: Writer, op: Op) -> Code:
    return call(FUNCTIONS_OF_NUMBERS[op.kind.removeprefix(OF_PYTHON)], *(writer.code(each) for each in op.inputs))


@writes(*(OF_PYTHON + kind for kind in WORDS_OF_LOGIC))
def _word(writer: Writer, op: Op) -> Code:
    first, second = (writer.code(each).within(COMPARISON + 1) for each in op.inputs)
    return Code(f"{first} {WORDS_OF_LOGIC[op.kind.removeprefix(OF_PYTHON)]} {second}", COMPARISON)


@writes(f"{OF_PYTHON}LogicalNot")
def _opposite(writer: Writer, op: Op) -> Code:
    return Code(f"not {writer.code(op.inputs[0]).within(ATOM)}", COMPARISON)


@writes(f"{OF_PYTHON}Cast")
def _cast(writer: Writer, op: Op) -> Code:
    return call("int" if op.dtypes[0].startswith(WHOLE_NUMBERS) else "float", writer.code(op.inputs[0]))


@writes(f"{OF_PYTHON}Square")
def _square(writer: Writer, op: Op) -> Code:
    return infix(writer.code(op.inputs[0]), "**", Code("2"))


@writes(f"{OF_PYTHON}Rsqrt")
def _reciprocal_root(writer: Writer, op: Op) -> Code:
    return Code(f"{writer.code(op.inputs[0]).within(RAISED_TO + 1)} ** -0.5", RAISED_TO)


@writes(f"{OF_PYTHON}Reciprocal")
def _reciprocal(writer: Writer, op: Op) -> Code:
    return Code(f"1 / {writer.code(op.inputs[0]).within(MULTIPLIED + 1)}", MULTIPLIED)


@writes(f"{OF_PYTHON}Select", f"{OF_PYTHON}SelectV2")
def _choice(writer: Writer, op: Op) -> Code:
    chosen, yes, no = (writer.code(each) for each in op.inputs)
    return Code(f"{yes.within(ATOM)} if {chosen.text} else {no.within(ATOM)}", -1)


def with_plain_numbers(tensors: Iterable[Tensor], is_number: Callable[[str], bool]) -> list[Tensor]:
    """Returns expressions in which what is computed of numbers alone is marked as such.

    Args:
      tensors: folded.
      is_number: whether a leaf is a Python number, and no tensor.
    """
    plain: dict[Op, bool] = {}

    def mark(op: Op) -> Tensor | None:
        if op.kind == FEED:
            plain[op] = is_number(op.name)
            return None
        plain[op] = (op.kind == CONST and op.output().shape == ()) or (
            bool(op.inputs) and all(plain.get(each.op, False) for each in op.inputs)
        )
        if plain[op] and op.kind in OF_NUMBERS:
            marked = Op(OF_PYTHON + op.kind, op.name, op.inputs, op.attributes, op.shapes, op.dtypes, op.place)
            plain[marked] = True
            return marked.output()
        return None

    return rewritten(tensors, mark)


def written_statements(
    tensors: Iterable[Tensor], called: dict[str, str], names: Names
) -> tuple[list[str], list[Code], list[str]]:
    """Returns statements, the expressions of what is wanted, and the types of ops that cannot be written.

    Args:
      tensors: what is wanted.
      called: by leaf, its name in the function.
      names: where the script's own names come from.
    """
    wanted = list(tensors)
    ops = ops_of(wanted)
    given = {op.output(): called[op.name] for op in ops if op.kind == FEED}
    own = {*called.values()}

    def suggested(op: Op) -> str:
        # The names of what is given stay theirs to the end: they are written to.
        found = names.suggested(op)
        return f"new_{found}" if found in own else found

    writer = Writer(Parameters({}, {}), "self", given, suggested, names.lines)
    found = writer.write(ops, wanted)
    return writer.statements, found, [each.kind.removeprefix(OF_PYTHON) for each in writer.refused]
