"""Gradients that the source writes by hand, in the place of an op's derivative."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.module import Function
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.rules.rule import Hit, linked

WITHOUT_DERIVATIVE = re.compile(
    r"(^|\.)(sign|round|rint|floor|ceil|argmax|argmin|one_hot|stop_gradient|greater|less|equal|cast)$"
)
IDENTITIES = re.compile(r"(^|\.)(identity|convert_to_tensor|reshape|copy)$")
FUNCTIONS_OF_PYTHON = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc"])


def replaced_gradients(code: Code) -> Iterator[Hit]:
    """Yields where an op, or a function, has a gradient that the source writes."""
    for program in code.programs:
        maps = [use for use in program.linked_uses if use.last == "gradient_override_map"]
        for use in program.linked_uses:
            if use.last not in ("gradient_override_map", "RegisterGradient"):
                continue
            of_python = use in maps and _is_of_python(use)
            if use.last == "RegisterGradient" and use.call.args:
                mine = source_of(use.call.args[0])
                others = [each for each in maps if mine in _registered(each)]
                of_python = bool(others) and all(_is_of_python(each) for each in others)
            if of_python:
                text = f"{use.last} gives a Python function in the graph its gradient: {source_of(use.call)}"
                yield Hit(use.call, use.module, text, False)
            else:
                yield Hit(use.call, use.module, f"{use.last} gives an op another gradient: {source_of(use.call)}")
        yield from _marked(program)


def _is_of_python(use: Use) -> bool:
    """Whether only functions of Python are given a gradient, which have none of their own."""
    given = use.call.args[0] if use.call.args else None
    if not isinstance(given, ast.Dict) or not given.keys:
        return False
    return all(isinstance(key, ast.Constant) and key.value in FUNCTIONS_OF_PYTHON for key in given.keys)


def _registered(use: Use) -> list[str]:
    given = use.call.args[0] if use.call.args else None
    return [source_of(value) for value in given.values] if isinstance(given, ast.Dict) else []


def _marked(program: Program) -> Iterator[Hit]:
    """Gradients by a decorator: of an op that is registered, or of a function with its own."""
    for module in dict.fromkeys(function.module for function in linked(program)):
        for function in module.functions[1:]:
            for mark in getattr(function.node, "decorator_list", ()):
                name = module.resolved(mark.func if isinstance(mark, ast.Call) else mark)
                if name.endswith("RegisterGradient"):
                    yield _registered_for(mark, function, program)
                elif name.endswith("custom_gradient") and not _is_marked(function.outer):
                    other = _has_another(function)
                    if other is False:
                        continue
                    text = f"{function.name}() has a gradient of its own"
                    yield Hit(mark, module, text if other else f"{text}: it may be the derivative", other is True)


def _registered_for(mark: ast.AST, function: Function, program: Program) -> Hit:
    """What a function is registered for: to replace gradients of ops that TensorFlow has, or of an op that is new to it."""
    name = source_of(mark.args[0]) if isinstance(mark, ast.Call) and mark.args else ""
    maps = [use for use in program.linked_uses if use.last == "gradient_override_map" and name in _registered(use)]
    if any(not _is_of_python(use) for use in maps):
        return Hit(mark, function.module, f"{function.name}() replaces the gradient of an op")
    if maps:
        return Hit(mark, function.module, f"{function.name}() gives a Python function in the graph its gradient", False)
    # Each op has one gradient: a second one for an op of TensorFlow's own ends in an error.
    text = (
        f"{function.name}() is the gradient of {name or 'an op'}, which is no op of TensorFlow's: the port needs both"
    )
    return Hit(mark, function.module, text, False)


def _is_marked(function: Function | None) -> bool:
    """Whether a function is inside of one that has a gradient of its own: it is that gradient."""
    return function is not None and any(
        chain(mark.func if isinstance(mark, ast.Call) else mark).endswith("custom_gradient")
        for mark in getattr(function.node, "decorator_list", ())
    )


def _has_another(function: Function) -> bool | None:
    """Whether a function's own gradient is another than its derivative: None where the source does not decide it.

    It is where the function has no derivative, and where what is given back unchanged has another gradient than the
    incoming one. An identity with the identity as gradient replaces nothing.
    """
    calls = [function.module.resolved(call.func) for call in function.calls]
    if any(WITHOUT_DERIVATIVE.search(name) for name in calls):
        return True
    inner = [each for each in function.module.functions if each.outer is function]
    returns = [node for node in function.nodes if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    forward = next((node.value.elts[0] for node in returns if node.value.elts), None)  # type: ignore[union-attr]
    if forward is None or not _is_unchanged(forward, function):
        return None
    backward = next((node.value.elts[1] for node in returns if len(node.value.elts) > 1), None)  # type: ignore[union-attr]
    if isinstance(backward, ast.Lambda):
        names = [each.arg for each in backward.args.args]
        return not (isinstance(backward.body, ast.Name) and backward.body.id in names)
    for each in inner:
        if isinstance(backward, ast.Name) and each.name == backward.id:
            given = [node.value for node in each.nodes if isinstance(node, ast.Return)]
            return not (bool(given) and all(value is not None and _is_unchanged(value, each) for value in given))
    return None


def _is_unchanged(node: ast.expr, function: Function, depth: int = 2) -> bool:
    """Whether an expression is one of the function's arguments, as it was given."""
    if isinstance(node, ast.Call):
        name = function.module.resolved(node.func)
        return bool(IDENTITIES.search(name)) and bool(node.args) and _is_unchanged(node.args[0], function, depth)
    if not isinstance(node, ast.Name):
        return False
    given = function.assigned.get(node.id, [])
    if not given:
        return node.id in function.parameters
    return bool(depth) and all(each.how == "=" and _is_unchanged(each.value, function, depth - 1) for each in given)
