"""The rule about gates: whether an update may come before gradients that are computed from what it writes."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.module import Function
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import Hit, Rule, is_session_run, linked

# Methods of optimizers that gate by themselves, and the place of the argument that takes the gate away.
GATING_METHODS = {"compute_gradients": 2, "minimize": 3}


def _ungated(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in program.uses:
            if use.name == "tf.gradients":
                gate = use.argument("gate_gradients")
                ungated = program.is_in_towers(use.call) and _of_variables(use, program)
                ungated = ungated and (gate is None or _is_no_gate(gate))
            else:
                gate = use.argument("gate_gradients", GATING_METHODS.get(use.last))
                ungated = use.last in GATING_METHODS and gate is not None and _is_no_gate(gate)
            if ungated:
                text = "gradients of one variable may be applied before those of others are computed"
                yield Hit(use.call, use.module, text)
        yield from _in_one_run(program)


def _in_one_run(program: Program) -> Iterator[Hit]:
    """Updates of several optimizers that run at once: each gates its own gradients alone."""
    for function in linked(program):
        for call in function.calls:
            if function.module.resolved(call.func) != "tf.group" and not is_session_run(call):
                continue
            # A name that is given in two branches stands for one update in each.
            optimizers: dict[str, set[str]] = {}
            for name, optimizer in _updates_in(call, function, program):
                optimizers.setdefault(name, set()).add(optimizer)
            sets = list(optimizers.values())
            disjoint = [each for each in sets if all(each is other or not each & other for other in sets)]
            if len(disjoint) > 1:
                both = " and ".join(sorted(" or ".join(sorted(each)) for each in disjoint)[:2])
                text = f"{both} update in one run: either may do so before the other's gradients are computed"
                yield Hit(call, function.module, text)


def _updates_in(call: ast.Call, function: Function, program: Program) -> Iterator[tuple[str, str]]:
    """Yields the updates in what a call is given, by name, each with the optimizer that computes its gradients too."""
    repository = program.repository
    computing = {_optimizer_of(use.call) for use in program.linked_uses if use.last == "compute_gradients"}
    for part in [each for argument in call.args for each in function.module.inside(argument)]:
        name = chain(part) if isinstance(part, ast.Name | ast.Attribute) else ""
        for value in [given.value for given in repository.assigned(name, function)] if name else [part]:
            if not isinstance(value, ast.Call) or value not in repository.homes:
                continue
            last, optimizer = chain(value.func).rpartition(".")[2], _optimizer_of(value)
            computes = last == "minimize" or (last == "apply_gradients" and optimizer in computing)
            if computes and not _is_in_order(value, repository.homes[value]):
                yield name or source_of(value), optimizer


def _optimizer_of(call: ast.Call) -> str:
    return source_of(call.func.value, 60) if isinstance(call.func, ast.Attribute) else ""


def _is_in_order(node: ast.AST, function: Function) -> bool:
    """Whether something waits for what a `tf.control_dependencies` around it is given."""
    return any(
        isinstance(each, ast.With)
        and any("control_dependencies" in source_of(item.context_expr) for item in each.items)
        for each in function.module.ancestors(node)
    )


def _is_no_gate(node: ast.expr) -> bool:
    """Whether `gate_gradients` is False, None or 0, the value of `Optimizer.GATE_NONE`, or that by its name."""
    return (isinstance(node, ast.Constant) and not node.value) or chain(node).endswith("GATE_NONE")


def _of_variables(use: Use, program: Program) -> bool:
    """Whether gradients are those of variables: of inputs, as in a penalty, none is applied to what they are read from."""
    given = use.argument("xs", 1)
    if given is None:
        return False
    parts = [source_of(part) for part in program.repository.sources(given, use.module, 3)]
    return any(re.search(r"var|param|weight|theta|tvars", part, re.IGNORECASE) for part in parts)


GATE_RULES = (
    Rule(
        "TP508",
        "gradients-not-gated",
        Severity.NOTE,
        "gradients may be computed from weights that are updated already",
        "`tf.gradients` without `gate_gradients=True`, or `compute_gradients` and `minimize` with `GATE_NONE`: an update "
        "may be applied while other gradients are still computed from the variable. So may the update of one optimizer "
        "where several, each with gradients of its own, are in one run.",
        "A port has all gradients before its update.",
        "`loss.backward()`, then `optimizer.step()`; where the script races, no port repeats it.",
        _ungated,
        decided=False,
        hazards=("ungated_update",),
        only_found="Whether the graph lets an update overtake a gradient is seen in the graph, not in the source.",
        for_one_tower=True,
    ),
)
