"""Writes what a tower does to moving statistics that are no layer's: assignments to buffers, while it trains."""

from collections.abc import Iterator, Sequence

from parity.port.source.writer import Writer
from parity.port.tower.moves import reached
from parity.port.tower.ops import VARIABLE, Op, Tensor, Write, in_order, ops_of

MOVING_METHODS = {"Sub": "sub_", "Add": "add_", "AddV2": "add_"}
MOST_CHARACTERS_OF_A_CHANGE = 24  # characters of what stands with a variable: the names of those are long themselves


def write_moves(writer: Writer, moves: Sequence[Write], model: Sequence[Op]) -> None:
    """Writes assignments behind everything that a function computes.

    Args:
      writer: of the function, with the model written and what it returns counted.
      moves: what is written, all of it computed of what was there before.
      model: ops of the function.
    """
    writer.assign_all()  # what is made in the block has no gradient, which the model needs
    before, writer.statements = writer.statements, []
    for group in _groups(moves, model):
        _write_group(writer, group, model)
    block = ["if self.training:", "    with torch.no_grad():", *(f"        {line}" for line in writer.statements)]
    writer.statements = [*before, *block]


def _groups(moves: Sequence[Write], model: Sequence[Op]) -> Iterator[list[Write]]:
    """Yields what is computed of one another, in the order of the script."""
    left = sorted(moves, key=_place)
    while left:
        group, grown = [left.pop(0)], True
        while grown:
            own = {op for each in group for op in _own_ops(each, model)}
            more = [each for each in left if not own.isdisjoint(_own_ops(each, model))]
            left = [each for each in left if each not in more]
            group, grown = [*group, *more], bool(more)
        yield sorted(group, key=_place)


def _place(move: Write) -> int:
    return _after(move).op.place


def _after(move: Write) -> Tensor:
    assert move.after is not None
    return move.after


def _own_ops(move: Write, model: Sequence[Op]) -> set[Op]:
    read = {op for op in ops_of([_after(move)], stop=frozenset(model)) if op.kind == VARIABLE}
    return {*reached([_after(move)], model)[0], *read}


def _write_group(writer: Writer, group: list[Write], model: Sequence[Op]) -> None:
    ops = reached([_after(each) for each in group], model)[0]
    steps = {_after(each).op for each in group if _is_step(each, ops, group)}
    given = {each: _after(each).op.inputs[1] if _after(each).op in steps else _after(each) for each in group}
    ops = [op for op in in_order(ops) if op not in steps]
    writer.count(ops, [*given.values()])
    held = {each: writer.parameters.plain(each.variable, writer.owner).text for each in group}
    made: list[Write] = []
    for move in group:
        needed = {*reached([given[move]], model)[0]}
        for op in [op for op in ops if op in needed]:
            if any(each.kind == VARIABLE for each in op.inputs):
                writer.assign_longer(op.inputs, MOST_CHARACTERS_OF_A_CHANGE)
            writer.write_all([op])
        ops = [op for op in ops if op not in needed]
        made.append(move)
        for each in [*made]:
            # A variable is written when nothing is to be computed any more of what it holds.
            later = any(
                tensor.op.name == each.variable for op in ops for tensor in op.inputs if tensor.kind == VARIABLE
            )
            if not later:
                writer.assign_reading(held[each], given[each])
                kind = MOVING_METHODS[_after(each).kind] if _after(each).op in steps else "copy_"
                writer.statements.append(f"{held[each]}.{kind}({writer.code(given[each]).text})")
                made.remove(each)


def _is_step(move: Write, ops: Sequence[Op], group: Sequence[Write]) -> bool:
    """Whether a number is added to a variable or taken off, and nothing else needs what it then holds."""
    op = _after(move).op
    if op.kind not in MOVING_METHODS or len(op.inputs) != 2 or op.inputs[0].kind != VARIABLE:
        return False
    used = sum(each is op for other in ops for each in (tensor.op for tensor in other.inputs))
    wanted = sum(_after(each).op is op for each in group)
    return op.inputs[0].op.name == move.variable and not used and wanted == 1
