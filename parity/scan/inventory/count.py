"""How many towers a loop builds, and the flags that say so."""

import ast
import re
from collections.abc import Callable

from parity.scan.inventory.program import Program, Use
from parity.scan.model.bound import GLOBALS
from parity.scan.model.module import Function, Module
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
    """Whether a loop builds one tower only, by a number or a list that its own file fixes, or that every caller gives.

    An option's default is a setting, and so is what another module has: several towers are what they are for.
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
    return _of_all(over, module, repository, _length, depth)


def _number(node: ast.expr, module: Module, repository: Repository, depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Call) and module.resolved(node.func) == "len" and len(node.args) == 1:
        return _length(node.args[0], module, repository, depth)
    return _of_all(node, module, repository, _number, depth)


def _of_all(
    node: ast.expr,
    module: Module,
    repository: Repository,
    measure: Callable[[ast.expr, Module, Repository, int], int | None],
    depth: int,
) -> int | None:
    """Returns what all values of a name come to, None where they differ or one is not known."""
    given = _values_of(node, module, repository) if depth else []
    found = {measure(value, of, repository, depth - 1) for value, of in given}
    return found.pop() if len(found) == 1 else None


def _values_of(node: ast.expr, module: Module, repository: Repository) -> list[tuple[ast.expr, Module]]:
    """Returns what a name is given once, in its function or its file, or what all calls give a parameter; else nothing."""
    if not isinstance(node, ast.Name):
        return []
    function = module.within.get(node)
    given = repository.assigned(node.id, function)
    if given:
        once = len(given) == 1 and given[0].how == "=" and given[0].place is None
        fixed = once and not _is_set_elsewhere(node.id, given[0].by, module, repository)
        return [(given[0].value, module)] if fixed else []
    while function is not None and node.id not in function.parameters:
        function = function.outer
    return _given_by_calls(node.id, function, repository) if function is not None else []


def _is_set_elsewhere(name: str, by: ast.AST, module: Module, repository: Repository) -> bool:
    """Whether a file's own name may be another one's: it is assigned from outside, by a text, or where a test says so."""
    home = module.within.get(by)
    if home is not None and home.name:
        return False
    if module.parents.get(by) is not module.tree:
        return True
    said = (GLOBALS.match(line) for line in module.lines)
    if any(name in re.split(r"\s*,\s*", each[1].strip()) for each in said if each):
        return True
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name and isinstance(of.parents.get(node), ast.Assign))
        for of in repository.modules
        for function in of.functions
        for node in function.nodes
    )


def _given_by_calls(name: str, function: Function, repository: Repository) -> list[tuple[ast.expr, Module]]:
    """Returns what each call gives a parameter, or its default; nothing where one is not seen to give any."""
    if not isinstance(function.node, ast.FunctionDef) or name in function.assigned:
        return []
    arguments = function.node.args
    names = function.parameters
    place = names.index(name) - (1 if function.owner else 0)
    default = len(arguments.defaults) - len(names) + names.index(name)
    values = []
    for call, module in repository.calls_of(function.owner if function.name == "__init__" else function.name):
        callees = repository.callees(call, module)
        if callees and function not in callees:
            continue
        if any(isinstance(each, ast.Starred) for each in call.args) or any(not each.arg for each in call.keywords):
            return []
        value = Use(call, module, "").argument(name, place)
        if value is None and default < 0:
            return []
        values.append((value, module) if value is not None else (arguments.defaults[default], function.module))
    return values
