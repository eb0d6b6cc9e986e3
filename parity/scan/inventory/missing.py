"""What a combination of gradients does where a tower has none of a variable."""

import ast
import re
from collections.abc import Sequence

from parity.scan.model.module import Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of


def what_none_does(nodes: Sequence[ast.AST], module: Module) -> tuple[str, ast.AST | None]:
    """Returns how a combination takes a gradient that is None and where that is decided: a `Combiner`'s `none`, `none_node`.

    Args:
      nodes: of the combination.
      module: in which.
    """
    tests = [each for each in nodes if isinstance(each, ast.Compare) and _tests_none(each)]
    if not tests:
        stacks = (each for each in nodes if isinstance(each, ast.Call))
        stack = next((each for each in stacks if chain(each.func).rpartition(".")[2] == "expand_dims"), None)
        return ("crash", stack) if stack is not None else ("", None)
    test = tests[0]
    inside = list(module.ancestors(test))
    comprehension = any(isinstance(each, ast.comprehension | ast.ListComp) for each in inside[:3])
    if any(isinstance(each, ast.Call) and "zeros" in chain(each.func) for each in nodes):
        return "zeros", test
    if re.search(r"\[0\]|^(g0|first|grad0)\b", source_of(test)) and not comprehension:
        return "first", test
    return _broken_off(test, tests, module) or "any", test


def _broken_off(test: ast.Compare, tests: Sequence[ast.Compare], module: Module) -> str:
    """Returns what a loop does that ends at the first tower without a gradient, "" of one that goes on."""
    around = next((each for each in module.ancestors(test) if isinstance(each, ast.If | ast.stmt)), None)
    if not isinstance(around, ast.If):
        return ""
    missing = around.body if isinstance(test.ops[0], ast.Is | ast.Eq) else around.orelse
    if not missing or not isinstance(missing[-1], ast.Break):
        return ""
    if all(isinstance(each, ast.Break) or _is_log(each) for each in missing):
        return "before"
    puts = any(source_of(each).endswith(".append(None)") for each in missing if isinstance(each, ast.Expr))
    if puts:
        # None among what is stacked ends the program, unless it is the first and that is looked at.
        return "first" if any("[0]" in source_of(each.left) for each in tests) else "crash"
    return "ends"


def _is_log(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and chain(node.value.func).rpartition(".")[2] in ("print", "warning", "warn", "info", "debug", "error", "log")
    )


def _tests_none(node: ast.Compare) -> bool:
    return any(
        isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        and isinstance(side, ast.Constant)
        and side.value is None
        for operator, side in zip(node.ops, node.comparators, strict=False)
    )
