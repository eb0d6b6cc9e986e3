"""What becomes of the towers' losses: which are reported or returned, and where they are divided by the number of towers."""

import ast
import re
from collections.abc import Iterator, Sequence

from parity.scan.inventory.combination import divides_by_count
from parity.scan.inventory.count import count_of
from parity.scan.inventory.loops import LOSS_WORDS
from parity.scan.inventory.program import Program, Use
from parity.scan.model.module import Assigned, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of


def reported(program: Program) -> Iterator[tuple[Use, str, str]]:
    """Yields the session runs that fetch a loss, its name, and whose it is: of the "last" tower, or a "list"."""
    loop = program.loop
    inside = {
        name
        for name, given in loop.function.assigned.items()
        if LOSS_WORDS.search(name)
        and any(loop.node in loop.module.ancestors(each.by) for each in given)
        and not _adds_up(given, program)
        and not _of_the_graph(given, program)
    }
    behind = {
        name
        for name, given in loop.function.assigned.items()
        if any(
            loop.node not in loop.module.ancestors(each.by) and each.by is not loop.node and each.how == "="
            for each in given
        )
    }
    for use in program.uses:
        if use.last != "run" or not use.call.args or use.module is not loop.module or program.is_in_towers(use.call):
            continue
        fetched = [chain(each) for each in use.module.inside(use.call.args[0]) if isinstance(each, ast.Name)]
        for name in dict.fromkeys(fetched):
            if name in inside and use.module.within.get(use.call) is loop.function:
                made = [each for each in loop.function.assigned[name] if each.how == "append"]
                if name in behind and not _only_before(name, program):
                    continue
                yield use, name, "list" if made else "last"


def _adds_up(given: Sequence[Assigned], program: Program) -> bool:
    """Whether a name has the sum over towers: it begins before the loop, and the loop only adds to it."""
    loop = program.loop
    inside = [each for each in given if loop.node in loop.module.ancestors(each.by)]
    return len(inside) < len(given) and all(each.how == "+=" for each in inside)


def _of_the_graph(given: Sequence[Assigned], program: Program) -> bool:
    """Whether a name is given the whole graph's regularisation in each iteration: that of all towers, not of the last."""
    loop = program.loop
    inside = [each for each in given if loop.node in loop.module.ancestors(each.by)]
    return bool(inside) and all(
        re.fullmatch(r"(tf\.add_n\()?tf\.(losses\.get_regularization_losses\(\)|get_collection\([^,()]*\))\)?", text)
        for text in (source_of(each.value, 200) for each in inside)
    )


def returned(program: Program) -> Iterator[tuple[ast.Return, Module, str]]:
    """Yields what is returned behind the loop and is a loss of the tower that was built last, with its name."""
    loop = program.loop
    end = getattr(loop.node, "end_lineno", 0)
    for node in loop.function.nodes:
        if not isinstance(node, ast.Return) or node.value is None or node.lineno <= end:
            continue
        for each in loop.module.inside(node.value):
            name = chain(each) if isinstance(each, ast.Name) else ""
            given = loop.function.assigned.get(name, [])
            inside = [part for part in given if loop.node in loop.module.ancestors(part.by) and part.how == "="]
            if LOSS_WORDS.search(name) and inside and len(inside) == len(given):
                yield node, loop.module, name
                break


def _only_before(name: str, program: Program) -> bool:
    """Whether a name is given nothing behind the loop that the loop does not give it."""
    loop = program.loop
    end = getattr(loop.node, "end_lineno", 0)
    return all(getattr(each.by, "lineno", 0) <= end for each in loop.function.assigned[name])


def scales_losses(program: Program) -> ast.AST | None:
    """Returns where the towers' losses, or their gradients, are divided by the number of towers."""
    for node, module in program.loop.region:
        if divides_by_towers(node, program) and _is_of_losses(node, module):
            return node
    return None


def divides_by_towers(node: ast.AST, program: Program) -> bool:
    """Whether something is divided by the number of a program's towers.

    A number that is written out is that of the towers where there are as many of them, and a number that is made of a
    shape, as `int(channels / 3)`, never is.
    """
    if not divides_by_count(node, program.repository):
        return False
    function = program.repository.homes.get(node)
    if function is not None and any(
        isinstance(each, ast.Call) and chain(each.func) in ("int", "len", "range")
        for each in function.module.ancestors(node)
    ):
        return False
    by = getattr(node, "right", getattr(node, "value", None))
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(by, ast.Constant):
        return True
    parts = program.repository.sources(count_of(program), program.loop.module, 2)
    known = [part.value for part in parts if isinstance(part, ast.Constant)]
    return by.value in known or not known


def _is_of_losses(node: ast.AST, module: Module) -> bool:
    """Whether a loss or a gradient is divided, by the names in it, of what it is given to and of the function."""
    words = re.compile(rf"grad|{LOSS_WORDS.pattern}", re.IGNORECASE)
    around = [each for each in list(module.ancestors(node))[:3] if isinstance(each, ast.Assign | ast.Return)]
    function = module.within.get(node)
    texts = [source_of(each, 300) for each in (node, *around)]
    return bool(words.search(" ".join([*texts, function.name if function else ""])))
