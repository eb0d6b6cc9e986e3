"""How many towers a loop builds, and the flags that say so."""

import ast

from parity.scan.inventory.program import Program
from parity.scan.model.module import Module
from parity.scan.model.repository import Flag, Repository


def flags_in(node: ast.AST, module: Module, repository: Repository) -> list[Flag]:
    """Returns the flags that a value depends on."""
    names = []
    for each in repository.sources(node, module):
        if isinstance(each, ast.Attribute) and each.attr in repository.flags:
            names.append(each.attr)
        elif (
            isinstance(each, ast.Subscript)
            and isinstance(each.slice, ast.Constant)
            and isinstance(each.slice.value, str)
            and each.slice.value in repository.flags
        ):
            names.append(each.slice.value)
    return [repository.flags[name] for name in dict.fromkeys(names)]


def count_of(program: Program) -> ast.expr:
    """Returns what says how many towers there are: N of `range(N)`, of a split, or what the loop goes over."""
    return _count(program.loop.loop.iter, program.loop.module, program.repository, 3)


def _count(over: ast.expr, module: Module, repository: Repository, depth: int) -> ast.expr:
    if isinstance(over, ast.Call):
        name = module.resolved(over.func).rpartition(".")[2]
        if name in ("range", "xrange") and over.args:
            return over.args[1] if len(over.args) > 1 else over.args[0]
        if name in ("enumerate", "zip", "izip", "list", "tuple", "reversed", "tqdm") and over.args and depth:
            return _count(over.args[0], module, repository, depth)
        if name == "split" and len(over.args) > 1:
            # The number came first in TensorFlow 0.
            first = over.args[0]
            old = isinstance(first, ast.Constant) or (len(over.args) == 3 and isinstance(over.args[1], ast.Constant))
            return over.args[1] if not old or len(over.args) < 3 else over.args[0] if over.args[1] != first else first
        for each in over.keywords:
            if name == "split" and each.arg == "num_or_size_splits":
                return each.value
    if isinstance(over, ast.Name) and depth:
        given = repository.assigned(over.id, module.within.get(over))
        made = [each for each in given if each.how == "="]
        if len(made) == 1:
            return _count(made[0].value, module, repository, depth - 1)
    return over
