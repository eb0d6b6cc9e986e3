"""How many towers a loop builds, and the flags that say so."""

import ast

from parity.scan.inventory.program import Program
from parity.scan.model.module import Module
from parity.scan.model.repository import Flag, Repository

NAMES_DEPTH = 3  # names for names that a number is looked for through


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


def is_one(program: Program) -> bool:
    """Whether a loop builds one tower only, by a number or a list that stands in it or in its function.

    A module's own number is a setting, and an option's default too: several towers are what they are for.
    """
    return _length(program.loop.loop.iter, program.loop.module, program.repository, NAMES_DEPTH) == 1


def _length(over: ast.expr, module: Module, repository: Repository, depth: int) -> int | None:
    if isinstance(over, ast.List | ast.Tuple):
        return None if any(isinstance(each, ast.Starred) for each in over.elts) else len(over.elts)
    if isinstance(over, ast.Call) and over.args:
        name = module.resolved(over.func).rpartition(".")[2]
        if name in ("range", "xrange"):
            return _number(over.args[0], module, repository, depth) if len(over.args) == 1 else None
        if name in ("enumerate", "list", "tuple", "reversed", "tqdm"):
            return _length(over.args[0], module, repository, depth)
        if name in ("zip", "izip"):
            lengths = [_length(each, module, repository, depth) for each in over.args]
            return 1 if 1 in lengths else None
    given = _given_here(over, module, repository) if depth else None
    return _length(given, module, repository, depth - 1) if given is not None else None


def _number(node: ast.expr, module: Module, repository: Repository, depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Call) and module.resolved(node.func) == "len" and len(node.args) == 1:
        return _length(node.args[0], module, repository, depth)
    given = _given_here(node, module, repository) if depth else None
    return _number(given, module, repository, depth - 1) if given is not None else None


def _given_here(node: ast.expr, module: Module, repository: Repository) -> ast.expr | None:
    """Returns what a name is given, once and in a function, else None."""
    given = repository.assigned(node.id, module.within.get(node)) if isinstance(node, ast.Name) else []
    if len(given) != 1 or given[0].how != "=" or given[0].place is not None:
        return None
    home = module.within.get(given[0].by)
    return given[0].value if home is not None and home.name else None
