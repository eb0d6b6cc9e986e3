"""Whether towers use the same variables, as far as source says."""

import ast
from collections.abc import Iterator
from itertools import chain as chained

from parity.scan.inventory.norms import reached_by_towers
from parity.scan.inventory.program import Program
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of

CALLED_BY_OBJECTS = ("__call__", "call", "build")  # methods of an object that may be one for all towers


def shares_variables(program: Program) -> bool:
    """Whether anything that an iteration runs, or that stands around it, has variables used again."""
    loop, repository = program.loop, program.repository
    around = [loop.function, *repository.callers(loop.function)]
    towers = reached_by_towers(program, imported_modules(loop.module, repository))
    nodes = chained(towers, ((node, each.module) for each in around for node in each.nodes))
    return any(_uses_again(node, module) for node, module in nodes)


def shares_what_is_made(node: ast.AST, module: Module, program: Program) -> bool:
    """Whether variables that a call in the towers makes may be those of all towers.

    They are each tower's own where no scope around the call, nor around the calls that lead to it from the loop, has
    variables used again.
    """
    if _is_around(node, module):
        return True
    seen: set[Function] = set()
    waiting: list[tuple[ast.AST, Module]] = [(node, module)]
    while waiting:
        each, of = waiting.pop()
        function = of.within.get(each)
        if function is None or function is program.loop.function or function in seen:
            continue
        seen.add(function)
        if any(chain(inside.func).endswith("reuse_variables") for inside in function.calls):
            return True
        calls = [] if function.name in CALLED_BY_OBJECTS else list(_calls_in_towers(function, program))
        if not calls or any(_is_around(call, home) for call, home in calls):
            return True
        waiting += calls
    loop = program.loop
    return any(
        _uses_again(inside, each.module)
        for each in [loop.function, *program.repository.callers(loop.function)]
        for inside in each.nodes
    )


def _is_around(node: ast.AST, module: Module) -> bool:
    """Whether a call, or a block that it stands in, has variables used again."""
    blocks = [each for each in module.ancestors(node) if isinstance(each, ast.With)]
    calls = [item.context_expr for each in blocks for item in each.items]
    return any(_uses_again(each, module) for each in [node, *calls])


def _calls_in_towers(function: Function, program: Program) -> Iterator[tuple[ast.Call, Module]]:
    """Yields what the towers call by a function's name, whosever it is."""
    name = function.owner if function.name == "__init__" and function.owner else function.name
    imported = imported_modules(program.loop.module, program.repository)
    for node, module in reached_by_towers(program, imported):
        if isinstance(node, ast.Call) and chain(node.func).rpartition(".")[2] == name:
            yield node, module


def _uses_again(node: ast.AST, module: Module) -> bool:
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Attribute) and "reuse" in node.attr.lower()
    if chain(node.func).endswith(("reuse_variables", "make_template", "Template")):
        return True
    if any("reuse" in (each.arg or "") and source_of(each.value) not in ("None", "False") for each in node.keywords):
        return True
    # By its place, in what is unpacked, or by a function of the script's own.
    scoped = module.resolved(node.func).endswith(("variable_scope", "variable_op_scope"))
    unseen = scoped and (len(node.args) > 1 or any(each.arg is None for each in node.keywords))
    return unseen or any("reuse" in source_of(each, 300).lower() for each in [node.func, *node.args])
