"""The device that an iteration of a loop chooses, in the loop itself or in what it calls."""

import ast
from collections.abc import Sequence

from parity.scan.inventory.loops import dependent_names, mentions
from parity.scan.model.module import Function, Module
from parity.scan.model.repository import Repository

DEVICE_DEPTH = 2  # calls in calls in which the device may be chosen


def is_device(call: ast.AST, module: Module) -> bool:
    """Whether a call is `tf.device(...)`, of whatever graph."""
    return isinstance(call, ast.Call) and bool(call.args) and module.resolved(call.func).rpartition(".")[2] == "device"


def chosen_device(
    nodes: Sequence[ast.AST], names: set[str], module: Module, repository: Repository, depth: int = DEVICE_DEPTH
) -> tuple[ast.Call, Module] | None:
    """Returns the call that chooses a device by some names, with its module; None where none does.

    Args:
      nodes: that are looked through, and what they call.
      names: that depend on the tower.
      module: that the nodes are in.
      repository: all modules.
      depth: of calls in calls.
    """
    for each in nodes:
        if isinstance(each, ast.With):
            for item in each.items:
                call = item.context_expr
                if (
                    isinstance(call, ast.Call)
                    and is_device(call, module)
                    and mentions(call.args[0], names, module)
                    and not _of_a_job(call.args[0], module, repository)
                ):
                    return call, module
    if not depth:
        return None
    for each in nodes:
        if isinstance(each, ast.Call):
            for callee in repository.callees(each, module):
                passed = _passed(each, callee, names, module)
                if passed:
                    inner = [part for statement in callee.body for part in callee.module.inside(statement)]
                    passed = dependent_names(passed, inner, callee.module)
                    chosen = chosen_device(inner, passed, callee.module, repository, depth - 1)
                    if chosen is not None:
                        return chosen
    return None


def _passed(call: ast.Call, callee: Function, names: set[str], module: Module) -> set[str]:
    """The parameters of a function that are given what depends on some names."""
    parameters = callee.parameters
    if parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    given = {name for name, value in zip(parameters, call.args, strict=False) if mentions(value, names, module)}
    return given | {each.arg for each in call.keywords if each.arg and mentions(each.value, names, module)}


def _of_a_job(device: ast.expr, module: Module, repository: Repository) -> bool:
    """Whether a device is another machine: that is a parameter server's work, or a place for a variable."""
    words = [
        each.value
        for each in repository.sources(device, module, 1)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    text = "".join(words).lower()
    return ("job:" in text or "task:" in text) and "gpu" not in text and "device" not in text
