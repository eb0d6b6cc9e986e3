"""What is done for one tower only: below a test of its number, or where such a test sets a flag of what is called."""

import ast

from parity.scan.inventory.loops import TowerLoop
from parity.scan.inventory.program import Program
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain

CALL_DEPTH = 3  # calls in calls by which a flag is handed on
NAMES_OF_TESTS = ("is_first", "first", "is_first_tower", "is_main_training_tower", "is_chief")


def of_first_tower(node: ast.AST, loop: TowerLoop, module: Module) -> bool:
    """Whether something runs for one tower only: below a test of the loop's number, or of what is made of it."""
    below = node
    for each in module.ancestors(node):
        if isinstance(each, ast.If) and below is not each.test and is_number_test(each.test, loop, module):
            return True
        if isinstance(each, ast.IfExp) and is_number_test(each.test, loop, module):
            return True
        if each is loop.node:
            return False
        below = each
    return False


def is_number_test(test: ast.expr, loop: TowerLoop, module: Module) -> bool:
    """Whether a test distinguishes towers: `i == 0`, `i == n - 1`, `not i`, `is_chief`, `first`."""
    for each in module.inside(test):
        if isinstance(each, ast.Compare) and any(isinstance(operator, ast.Eq | ast.Is) for operator in each.ops):
            sides = [each.left, *each.comparators]
            if any(isinstance(side, ast.Name) and side.id in loop.names for side in sides):
                return True
        if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) and chain(each.operand) in loop.names:
            return True
    return chain(test).rpartition(".")[2] in NAMES_OF_TESTS


def _is_for_one(node: ast.AST, loop: TowerLoop, module: Module) -> bool:
    """Whether something stands in the branch of one tower: that of `i == 0`, the other one of `i > 0`."""
    below = node
    for each in module.ancestors(node):
        if isinstance(each, ast.If | ast.IfExp) and below is not each.test:
            held = below in each.body if isinstance(each, ast.If) else below is each.body
            if is_number_test(each.test, loop, module) if held else _is_test_of_others(each.test, loop):
                return True
        if each is loop.node:
            return False
        below = each
    return False


def _is_test_of_others(test: ast.expr, loop: TowerLoop) -> bool:
    """Whether a test is true of all towers but one: `i != 0`, `i > 0`, `i >= 1`, `i`."""
    if isinstance(test, ast.Name):
        return test.id in loop.names
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or chain(test.left) not in loop.names:
        return False
    operator, side = test.ops[0], test.comparators[0]
    number = side.value if isinstance(side, ast.Constant) else None
    return (
        isinstance(operator, ast.NotEq | ast.IsNot)
        or (isinstance(operator, ast.Gt) and number == 0)
        or (isinstance(operator, ast.GtE) and number == 1)
    )


def only_of_one_tower(
    node: ast.AST, program: Program, module: Module, depth: int = CALL_DEPTH
) -> tuple[ast.AST, Module] | None:
    """Returns where one tower is chosen for something that an iteration runs, None where every tower runs it.

    That is where it stands, if that is below a test of the tower's number; else the call that leads to it, if all calls in
    the loop that do are below such a test, or leave out, but for one tower, the flag that it depends on.
    """
    loop, repository = program.loop, program.repository
    if _is_for_one(node, loop, module):
        return node, module
    function = repository.homes.get(node)
    if function is None or function is loop.function or not depth:
        return None
    flags = _flags_around(node, function)
    chosen: list[tuple[ast.AST, Module]] = []
    for call, of in loop.region:
        if not isinstance(call, ast.Call) or function not in repository.callees(call, of):
            continue
        given = [_given(call, function, flag) for flag in flags]
        if any(isinstance(each, ast.Constant) and not each.value for each in given):
            continue
        tested = any(each is not None and _is_test(each, call, program, of) for each in given)
        place = (call, of) if tested else only_of_one_tower(call, program, of, depth - 1)
        if place is None:
            return None
        chosen.append(place)
    return chosen[0] if chosen else None


def _flags_around(node: ast.AST, function: Function) -> list[str]:
    """Returns the function's parameters that are tested, and true, where something runs."""
    flags = list[str]()
    below = node
    for each in function.module.ancestors(node):
        if each is function.node:
            break
        if isinstance(each, ast.If | ast.IfExp):
            held = each.body if isinstance(each.body, list) else [each.body]
            tests = each.test.values if _is_and(each.test) else [each.test]  # type: ignore[attr-defined]
            if below in held:
                flags += [test.id for test in tests if isinstance(test, ast.Name) and _takes(function, test.id)]
        below = each
    return flags


def _is_and(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _takes(function: Function, name: str) -> bool:
    node = function.node
    return isinstance(node, ast.FunctionDef) and name in [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def _given(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """Returns what a call gives for a parameter, or its default, None where neither is known."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    assert isinstance(function.node, ast.FunctionDef)
    arguments = function.node.args
    names = function.parameters
    if name in names:
        bound = bool(function.owner) and names[:1] in (["self"], ["cls"])
        place = names.index(name) - bound
        if place < len(call.args):
            return call.args[place]
        default = len(arguments.defaults) - len(names) + names.index(name)
        return arguments.defaults[default] if default >= 0 else None
    return dict(zip((each.arg for each in arguments.kwonlyargs), arguments.kw_defaults, strict=True)).get(name)


def _is_test(value: ast.expr, call: ast.Call, program: Program, module: Module) -> bool:
    """Whether a flag is a test of the tower's number, or a name that is given one."""
    if isinstance(value, ast.Constant):
        return False
    if is_number_test(value, program.loop, module):
        return True
    if not isinstance(value, ast.Name) or module is not program.loop.module:
        return False
    given = program.repository.assigned(value.id, module.within.get(call))
    return bool(given) and all(is_number_test(each.value, program.loop, module) for each in given)
