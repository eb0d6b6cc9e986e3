"""Puts the source of a port together: the module, the loss and the optimizer of each part."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from parity.port.errors import PortError
from parity.port.source.code import SUMMED, Code, identifier
from parity.port.source.layer_names import name_layers
from parity.port.source.moves import write_moves
from parity.port.source.parameters import Parameters
from parity.port.source.writer import NAMES_OF_PORTS, Refused, Writer
from parity.port.tower.border import Border, border_of
from parity.port.tower.cells import raise_cells, raise_dynamic_rnn
from parity.port.tower.fold import fold, with_formulas
from parity.port.tower.layers import BATCH_NORM, raise_layers, settings
from parity.port.tower.lengths import with_lengths
from parity.port.tower.loops import BODY, nest, raise_loops
from parity.port.tower.moves import moves_in, moves_of, reached, with_batch_statistics, with_own_moves, without_gradient
from parity.port.tower.ops import CONST, FEED, LOOP, VARIABLE, Op, Tensor, Tower, Write, ops_of
from parity.port.tower.reader import Reader
from parity.port.tower.regions import Frame, Frames, contracted, regions_of, whole_call
from parity.port.tower.simplify import simplify
from parity.port.tower.terms import DECAY, in_first_only, terms_of, with_decay
from parity.trace.arrays import Array
from parity.trace.escape import is_argument

# Of 120, with indentation and the name that is assigned to.
MOST_CHARACTERS_OF_A_SUM = 100  # characters of a sum on one line
Suggested = Callable[[Op], str]


@dataclass
class Function:
    """A function of the port.

    Attributes:
      name: of it.
      arguments: of it.
      body: its statements.
      gives: number of tensors that it returns.
      returned: what the script calls that.
      frame: a line of the script's function that it is, None where there is none.
    """

    name: str
    arguments: list[str]
    body: list[str]
    gives: int = 1
    returned: str = ""
    frame: Frame | None = None


@dataclass
class Written:
    """What was written of a part.

    Attributes:
      forward: what the module computes.
      loss: what is differentiated.
      ops: number of ops of the tower, as recorded.
      refused: ops that could not be written.
      frame: the first line of the script's function that makes the whole model, None where there is none.
      numbers: by name, what is fed the same in every recorded step and is a constant for that.
      lengths: lines of the script that are written with lengths of what was recorded, which it leaves open.
      moved_by: the tower that moves the statistics.
    """

    forward: Function
    loss: Function
    ops: int
    refused: list[Refused] = field(default_factory=list)
    frame: Frame | None = None
    numbers: dict[str, Array] = field(default_factory=dict)
    lengths: list[str] = field(default_factory=list)
    moved_by: int = 0


@dataclass(frozen=True)
class Names:
    """Where names come from.

    Attributes:
      suggested: what the script calls what an op gives.
      lines: the script's line of an op.
      frames: the script's lines that it was made in, outermost first.
      assigned: the name that the script assigns exactly what the op gives to, "" where there is none.
      inputs: by recorded name, what an input is called, where that is another name.
    """

    suggested: Suggested
    lines: Callable[[Op], str]
    frames: Frames = lambda op: ()
    assigned: Suggested = lambda op: ""
    inputs: Mapping[str, str] = field(default_factory=dict)

    def argument(self, name: str) -> str:
        """Returns what a function calls an input."""
        name = self.inputs.get(name, name)
        if not is_argument(name) or name in NAMES_OF_PORTS:
            raise PortError(f"port: expected an input whose name a function can have, got {name!r}.")
        return name


def prepared(tower: Tower) -> Tower:
    """Returns a tower as it is written: folded, simplified, with layers."""
    return with_formulas(raise_cells(raise_layers(raise_loops(simplify(fold(with_own_moves(tower)))))))


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
    count = len(ops_of([recorded.loss, *(each.value for each in recorded.writes)]))
    first = prepared(recorded)
    only = _first_towers_own(reader, first, towers, names.lines)
    moved_by = 0 if only or is_moving(first) else moving_tower(reader, towers)
    first = prepared(reader.tower(moved_by)) if moved_by else first
    kept = [each for each in terms_of(first.loss) if each not in only]
    common, own = with_decay(kept), with_decay(only)
    moves = moves_of(first, ops_of([*common, *own]))
    behind = with_batch_statistics([each.after for each in moves if each.after is not None])
    nested = nest([*common, *own, *behind], raise_dynamic_rnn)
    terms, behind = nested[: len(common) + len(own)], nested[len(common) + len(own) :]
    common, own = terms[: len(common)], terms[len(common) :]
    border = border_of(terms)
    behind = without_gradient(behind, border.model)
    moves = [each._replace(after=after) for each, after in zip(moves, behind, strict=True)]
    moves = moves_in(moves, border.model, border.data)
    forward, refused = _forward(border, moves, section, several, parameters, names)
    parameters.is_whole = not several  # another optimizer's part adds what only it reads
    loss, more = _loss(first, border, (common, own), (section, several), parameters, names)
    # A statistic that makes up for a count of examples, as an unbiased variance does, has that count's number in it.
    written = dict.fromkeys([*border.model, *border.loss, *ops_of([each.after for each in moves if each.after])])
    lengths = [names.lines(each) or each.kind for each in with_lengths(_with_bodies(written), _stops_of)]
    whole = whole_call(border.model, names.frames)
    numbers = recorded.numbers
    return Written(forward, loss, count, refused + more, whole, numbers, [*dict.fromkeys(lengths)], moved_by)


def is_moving(tower: Tower) -> bool:
    """Returns whether a tower, as it is written, moves a statistic."""
    layers = (op for op in ops_of([tower.loss]) if op.kind == BATCH_NORM)
    moved = any(op.attributes.get(name) for op in layers for name in ("mean", "variance"))
    return moved or any(each.after is not None and each.is_statistic for each in tower.writes)


def moving_tower(reader: Reader, towers: int) -> int:
    """Returns the tower by whose numbers statistics are moved, where the first one's move none; 0 where none do.

    It is the last one where a script keeps the UPDATE_OPS of the scope that its loop over the towers ends with.
    """
    return next((number for number in range(1, towers) if is_moving(prepared(reader.tower(number)))), 0)


def _with_bodies(ops: Iterable[Op]) -> Iterator[Op]:
    """All ops, those in loops too."""
    pending = [*ops]
    while pending:
        op = pending.pop(0)
        yield op
        pending += op.attributes[BODY].all_ops() if op.kind == LOOP and BODY in op.attributes else []


def _stops_of(loop: Op) -> list[Tensor]:
    return [*loop.attributes[BODY].stops] if BODY in loop.attributes else []


def _first_towers_own(reader: Reader, first: Tower, towers: int, lines: Callable[[Op], str]) -> list[Tensor]:
    """The terms of the loss that the first tower alone has."""
    found: list[Tensor] = []
    for number in range(1, towers):
        other = prepared(reader.tower(number))
        only = in_first_only(terms_of(first.loss), terms_of(other.loss))
        if only is None or (number > 1 and only != found):
            raise PortError(
                f"port: expected towers that compute the same but for terms of the first one's loss, got tower {number}, "
                f"{_otherwise(first, other, lines)}. Write this port by hand: `parity replay --init` begins it."
            )
        found = only
    return found


def _otherwise(first: Tower, other: Tower, lines: Callable[[Op], str]) -> str:
    """Where a tower begins to compute something else than the first one, in words."""
    for one, two in zip(ops_of([first.loss]), ops_of([other.loss]), strict=False):
        both_constant = one.kind == two.kind == CONST
        if np.array_equal(one.output().value, two.output().value) if both_constant else settings(one) == settings(two):
            continue
        where = f" ({lines(two)})" if lines(two) else ""
        if both_constant:
            return (
                f"which has other numbers in the constant {two.name}{where}: data that is built into the graph is no "
                "input that ranks could be given, feed it through a placeholder"
            )
        return f"which has {two.kind} {two.name}{where} where the first has {one.kind} {one.name}"
    return "which goes on where the first ends"


def _forward(
    border: Border, moves: list[Write], section: str, several: bool, parameters: Parameters, names: Names
) -> tuple[Function, list[Refused]]:
    arguments = {name: names.argument(name) for name in border.data}
    taken = reached([each.after for each in moves if each.after is not None], border.model)[1]
    wanted = [*dict.fromkeys([*border.outputs, *(each for each in taken if each.kind != FEED)])]
    items = contracted(border.model, regions_of(border.model, wanted, names.frames, parameters.no_blocks))
    name_layers(items, parameters, names.frames)
    given = _given(border.model, arguments)
    writer = Writer(parameters, "self", given, names.suggested, names.lines, names.frames)
    if moves:
        parameters.hold(op for each in moves if each.after for op in ops_of([each.after]) if op.kind == VARIABLE)
        writer.count(items, wanted)
        writer.write_all(items)
        write_moves(writer, moves, border.model)
        found = [writer.code(each) for each in border.outputs]
    else:
        found = writer.write(items, border.outputs)
    returned = ", ".join(each.text for each in found)
    name = _method_name(section) if several else "forward"
    body = [*writer.statements, f"return {returned or 'None'}"]
    returned = names.assigned(border.outputs[0].op) if len(border.outputs) == 1 else ""
    return Function(name, ["self", *arguments.values()], body, len(border.outputs), returned), writer.refused


def _method_name(section: str) -> str:
    return f"forward_{identifier(section)}"


def _given(ops: Sequence[Op], arguments: dict[str, str]) -> dict[Tensor, str]:
    """By tensor what it is called that a function is given."""
    feeds = {each.op: each for op in ops for each in op.inputs if each.kind == FEED}
    return {tensor: arguments[op.name] for op, tensor in feeds.items() if op.name in arguments}


def _loss(
    tower: Tower,
    border: Border,
    terms: tuple[list[Tensor], list[Tensor]],
    section: tuple[str, bool],
    parameters: Parameters,
    names: Names,
) -> tuple[Function, list[Refused]]:
    arguments = {name: names.argument(name) for name in tower.feeds}
    given = _given(border.loss, arguments)
    called = [json.dumps(_method_name(section[0]))] if section[1] else []
    outputs = f"model({', '.join([*called, *(arguments[name] for name in border.data)])})"
    statements = []
    if len(border.outputs) == 1 and sum(op.inputs.count(border.outputs[0]) for op in border.loss) == 1:
        given[border.outputs[0]] = outputs
    else:
        chosen = _output_names(border.outputs, names, [*arguments.values()])
        given.update(zip(border.outputs, chosen, strict=True))
        statements = [f"{', '.join(chosen)} = {outputs}"]
    common, own = terms

    def written(named_terms: bool) -> tuple[Writer, list[Code]]:
        names_given = dict(given), names.suggested, names.lines, names.frames, [*statements]
        writer = Writer(parameters, "module", *names_given, named_terms=named_terms)
        return writer, writer.write(border.loss, [*common, *own])

    writer, found = written(False)
    if len(_sum_of(found)) > MOST_CHARACTERS_OF_A_SUM:
        writer, found = written(True)
    body = [*writer.statements, *_summed(found[: len(common)], found[len(common) :])]
    if any(re.search(r"\bmodule\.", line) for line in body):
        body = ["module: Model = model.module", *body]
    name = f"loss_{identifier(section[0])}" if section[1] else "loss"
    made_in = [_made_in(each.op, names.frames) for each in common if each.kind != DECAY]
    frame = next((each for each in made_in if each is not None), None)
    return Function(name, ["model", *arguments.values()], body, returned="loss", frame=frame), writer.refused


def _made_in(op: Op, frames: Frames) -> Frame | None:
    """The innermost line of the script that makes an op in a function."""
    return next((each for each in reversed(frames(op)) if not each.function.startswith("<")), None)


def _output_names(outputs: Sequence[Tensor], names: Names, taken: list[str]) -> list[str]:
    found: list[str] = []
    for tensor in outputs:
        wished = names.assigned(tensor.op) or _output_of(tensor, names)
        name, count = wished, 2
        while name in [*found, *taken, *NAMES_OF_PORTS]:
            name, count = f"{wished}{count}", count + 1
        found.append(name)
    return found


def _output_of(tensor: Tensor, names: Names) -> str:
    """What an output may be called after what it is computed of, where the script has no name for it."""
    for each in tensor.op.inputs:
        of = names.argument(each.op.name) if each.kind == FEED else names.assigned(each.op)
        if of:
            return f"{identifier(of)}_output"
    return "output"


def _sum_of(terms: Sequence[Code]) -> str:
    return " + ".join(each.within(SUMMED) for each in terms) or "0"


def _summed(common: Sequence[Code], own: Sequence[Code]) -> Iterator[str]:
    """Statements that return the sum of terms, some of them on the first rank only."""
    total = _sum_of(common)
    if not own and (len(total) <= MOST_CHARACTERS_OF_A_SUM or len(common) == 1):
        yield f"return {total}"
        return
    if len(total) <= MOST_CHARACTERS_OF_A_SUM:
        yield f"loss = {total}"
    else:
        yield f"loss = {common[0].text}"
        yield from (f"loss = loss + {each.within(SUMMED)}" for each in common[1 : None if own else -1])
    if not own:
        yield f"return loss + {common[-1].within(SUMMED)}"
        return
    yield "if torch.distributed.get_rank() == 0:  # the script adds it in its first tower only"
    yield f"    loss = loss + {' + '.join(each.within(SUMMED) for each in own)}"
    yield "return loss"
