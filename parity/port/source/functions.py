"""Puts the source of a port together: the module, the loss and the optimizer of each part."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from parity.port.errors import PortError
from parity.port.source.code import SUMMED, Code, identifier
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Refused, Writer
from parity.port.tower.border import Border, border_of
from parity.port.tower.fold import fold
from parity.port.tower.layers import raise_layers
from parity.port.tower.loops import nest, raise_loops
from parity.port.tower.ops import FEED, Op, Reader, Tensor, Tower
from parity.port.tower.simplify import simplify
from parity.port.tower.terms import in_first_only, terms_of, with_decay
from parity.trace.escape import is_argument

MOST_CHARACTERS_OF_A_SUM = 100  # characters of a sum on one line
Suggested = Callable[[Op], str]


@dataclass
class Function:
    """A function of the port.

    Attributes:
      name: of it.
      arguments: of it.
      body: its statements.
    """

    name: str
    arguments: list[str]
    body: list[str]


@dataclass
class Written:
    """What was written of a part.

    Attributes:
      forward: what the module computes.
      loss: what is differentiated.
      ops: number of ops of the tower, as recorded.
      refused: ops that could not be written.
    """

    forward: Function
    loss: Function
    ops: int
    refused: list[Refused] = field(default_factory=list)


@dataclass(frozen=True)
class Names:
    """Where names come from.

    Attributes:
      suggested: what the script calls what an op gives.
      lines: the script's line of an op.
    """

    suggested: Suggested
    lines: Callable[[Op], str]


def prepared(tower: Tower) -> Tower:
    """Returns a tower as it is written: folded, simplified, with layers."""
    return raise_layers(raise_loops(simplify(fold(tower))))


def write_part(
    reader: Reader, section: str, several: bool, parameters: Parameters, towers: int, names: Names
) -> Written:
    """Writes the forward pass and the loss of one optimizer's part.

    Args:
      reader: of the graph.
      section: its name, "" where there is one.
      several: whether the script has several optimizers.
      parameters: of the module; grows.
      towers: their number.
      names: where names come from.

    Raises:
      PortError: the towers differ in more than terms of the loss that only the first has.
    """
    recorded = reader.tower(0)
    count = len(recorded.ops())
    first = prepared(recorded)
    only = _first_towers_own(reader, first, towers)
    kept = [each for each in terms_of(first.loss) if each not in only]
    common, own = with_decay(kept), with_decay(only)
    nested = nest([*common, *own])
    common, own = nested[: len(common)], nested[len(common) :]
    border = border_of(nested)
    forward, refused = _forward(border, section, several, parameters, names)
    loss, more = _loss(first, border, (common, own), (section, several), parameters, names)
    return Written(forward, loss, count, refused + more)


def _first_towers_own(reader: Reader, first: Tower, towers: int) -> list[Tensor]:
    """The terms of the loss that the first tower alone has."""
    found: list[Tensor] = []
    for number in range(1, towers):
        other = prepared(reader.tower(number))
        only = in_first_only(terms_of(first.loss), terms_of(other.loss))
        if only is None or (number > 1 and only != found):
            raise PortError(
                f"port: expected towers that compute the same but for terms of the first one's loss, got another "
                f"tower {number}. Write this port by hand: `parity replay --init` begins it."
            )
        found = only
    return found


def _forward(
    border: Border, section: str, several: bool, parameters: Parameters, names: Names
) -> tuple[Function, list[Refused]]:
    arguments = {name: _argument(name) for name in border.data}
    writer = Writer(parameters, "self", _given(border.model, arguments), names.suggested, names.lines)
    found = writer.write(border.model, border.outputs)
    returned = ", ".join(each.text for each in found)
    name = _method_name(section) if several else "forward"
    body = [*writer.statements, f"return {returned or 'None'}"]
    return Function(name, ["self", *arguments.values()], body), writer.refused


def _method_name(section: str) -> str:
    return f"forward_{identifier(section)}"


def _given(ops: Sequence[Op], arguments: dict[str, str]) -> dict[Tensor, str]:
    """By tensor what it is called that a function is given."""
    feeds = {each.op: each for op in ops for each in op.inputs if each.kind == FEED}
    return {tensor: arguments[op.name] for op, tensor in feeds.items() if op.name in arguments}


def _argument(name: str) -> str:
    if not is_argument(name):
        raise PortError(f"port: expected an input whose name a function can have, got {name!r}.")
    return name


def _loss(
    tower: Tower,
    border: Border,
    terms: tuple[list[Tensor], list[Tensor]],
    section: tuple[str, bool],
    parameters: Parameters,
    names: Names,
) -> tuple[Function, list[Refused]]:
    arguments = {name: _argument(name) for name in tower.feeds}
    given = _given(border.loss, arguments)
    called = [repr(section[0] and _method_name(section[0]))] if section[1] else []
    outputs = f"model({', '.join([*called, *(arguments[name] for name in border.data)])})"
    statements = []
    if len(border.outputs) == 1 and sum(op.inputs.count(border.outputs[0]) for op in border.loss) == 1:
        given[border.outputs[0]] = outputs
    else:
        chosen = _output_names(border.outputs, names, [*arguments.values()])
        given.update(zip(border.outputs, chosen, strict=True))
        statements = [f"{', '.join(chosen)} = {outputs}"]
    writer = Writer(parameters, "model.module", given, names.suggested, names.lines, statements)
    common, own = terms
    found = writer.write(border.loss, [*common, *own])
    body = [*writer.statements, *_summed(found[: len(common)], found[len(common) :])]
    name = f"loss_{identifier(section[0])}" if section[1] else "loss"
    return Function(name, ["model", *arguments.values()], body), writer.refused


def _output_names(outputs: Sequence[Tensor], names: Names, taken: list[str]) -> list[str]:
    found: list[str] = []
    for tensor in outputs:
        wished = names.suggested(tensor.op) or "output"
        name, count = wished, 2
        while name in [*found, *taken]:
            name, count = f"{wished}{count}", count + 1
        found.append(name)
    return found


def _summed(common: Sequence[Code], own: Sequence[Code]) -> Iterator[str]:
    """Statements that return the sum of terms, some of them on the first rank only."""
    total = " + ".join(each.within(SUMMED) for each in common) or "0"
    if not own and len(total) <= MOST_CHARACTERS_OF_A_SUM:
        yield f"return {total}"
        return
    if len(total) <= MOST_CHARACTERS_OF_A_SUM:
        yield f"loss = {total}"
    else:
        yield f"loss = {common[0].text}"
        yield from (f"loss = loss + {each.within(SUMMED)}" for each in common[1:])
    if not own:
        yield "return loss"
        return
    yield "if torch.distributed.get_rank() == 0:  # the script adds it in its first tower only"
    yield f"    loss = loss + {' + '.join(each.within(SUMMED) for each in own)}"
    yield "return loss"
