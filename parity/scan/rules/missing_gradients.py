"""Rules about gradients that are None: which are left out, what they are paired with then, and what ends the program."""

import ast
from collections.abc import Iterator

from parity.scan.inventory.combination import Combiner
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.inventory.sharing import shares_variables
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import Hit, Rule, linked

NONE_IS_SEEN = "; no gradient is seen to be None here, and of equal towers the pairs are right"


def _pairing(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in dict.fromkeys([*linked(program), *(c.function for c in [program.combiner] if c)]):
            for node in function.nodes:
                if isinstance(node, ast.ListComp) and isinstance(node.elt, ast.ListComp) and _filters_none(node.elt):
                    text = "gradients that are None are left out in each tower, and the rest is paired by position"
                    lacks = lacks_gradients(program)
                    yield Hit(node, function.module, text if lacks else f"{text}{NONE_IS_SEEN}", lacks)
                elif isinstance(node, ast.ListComp) and _filters_none(node) and _appended(node, program):
                    text = "a tower's gradients that are None are left out before the towers are paired by position"
                    paired = _are_paired(program)
                    lacks = lacks_gradients(program)
                    text += NONE_IS_SEEN if paired and not lacks else ""
                    text += "" if paired else "; what pairs them is called before there are any"
                    yield Hit(node, function.module, text, paired and lacks)


def lacks_gradients(program: Program) -> bool:
    """Whether the code shows that some tower's gradient is None.

    Towers with several losses do not reach by each of them what the others train, where gradients are taken of all
    variables; and towers that share none do not reach each other's.
    """
    calls = [call for call in _differentiations(program) if _of_all_variables(call)]
    losses = {source_of(call.call.args[0]) for call in calls if call.call.args}
    return len(losses) > 1 or (bool(calls) and not shares_variables(program))


def _differentiations(program: Program) -> list[Use]:
    return [
        use for use in program.uses if use.last in ("compute_gradients", "gradients") and program.is_in_towers(use.call)
    ]


def _of_all_variables(use: Use) -> bool:
    """Whether gradients are taken of all trainable variables: no list is given, or that of all."""
    given = use.argument("var_list", 1) if use.last == "compute_gradients" else use.argument("xs", 1)
    if given is None or source_of(given) == "None":
        return use.last == "compute_gradients"
    return isinstance(given, ast.Call) and not given.args and source_of(given.func).endswith("trainable_variables")


def _are_paired(program: Program) -> bool:
    """Whether what combines the towers is not only called before the loop that builds them."""
    loop, combiner = program.loop, program.combiner
    if combiner is None or combiner.function is loop.function:
        return True
    calls = [each for each in loop.function.calls if combiner.function in program.repository.callees(each, loop.module)]
    inside = set(loop.module.inside(loop.node))
    before = [each for each in calls if each.lineno < loop.node.lineno and each not in inside]  # type: ignore[attr-defined]
    around = [each for each in loop.module.ancestors(loop.node) if isinstance(each, ast.For | ast.While)]
    return not calls or len(before) < len(calls) or bool(around)


def _filters_none(node: ast.ListComp) -> bool:
    if not isinstance(node.elt, ast.Name | ast.Tuple):
        return False
    tests = [test for clause in node.generators for test in clause.ifs]
    return any(
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.IsNot)
        and source_of(test.comparators[0]) == "None"
        for test in tests
        if isinstance(test, ast.Compare) and test.ops
    )


def _appended(node: ast.ListComp, program: Program) -> bool:
    """Whether a tower's own pairs are filtered: the list goes over what compute_gradients gives."""
    if not program.is_in_towers(node) or program.combiner is None or "losses" in program.combiner.kind:
        return False
    if program.loop.node not in program.loop.module.ancestors(node):
        return False
    over = node.generators[0].iter
    sources = list(program.repository.sources(over, program.loop.module, 2))
    calls = [chain(each.func).rpartition(".")[2] for each in sources if isinstance(each, ast.Call)]
    # With the variables at their sides, or a list of gradients alone: both lose their places.
    return any(name in ("compute_gradients", "gradients") for name in calls)


def _of_kind(code: Code, none: str) -> Iterator[Combiner]:
    seen = set()
    for program in code.programs:
        combiner = program.combiner
        if combiner is not None and combiner.none == none and combiner.none_node is not None and combiner not in seen:
            seen.add(combiner)
            yield combiner


def _crash(code: Code) -> Iterator[Hit]:
    for combiner in _of_kind(code, "crash"):
        module = code.repository.homes[combiner.none_node].module  # type: ignore[index]
        text = (
            "a gradient that is None goes to what stacks them: a variable that no loss reaches ends the program"
            if isinstance(combiner.none_node, ast.Compare)
            else "a gradient goes into expand_dims without a test for None: a variable that no loss reaches ends the program"
        )
        yield Hit(combiner.none_node, module, text)  # type: ignore[arg-type]


def _any(code: Code) -> Iterator[Hit]:
    for none, behind in (("any", ""), ("before", ", and so are those behind them")):
        for combiner in _of_kind(code, none):
            module = code.repository.homes[combiner.none_node].module  # type: ignore[index]
            text = f"towers without a gradient of a variable are left out of its mean{behind}"
            yield Hit(combiner.none_node, module, text)  # type: ignore[arg-type]


def _first(code: Code) -> Iterator[Hit]:
    for combiner in _of_kind(code, "first"):
        module = code.repository.homes[combiner.none_node].module  # type: ignore[index]
        text = "whether a variable has a gradient is looked up in the first tower alone"
        yield Hit(combiner.none_node, module, text)  # type: ignore[arg-type]


MISSING_RULES = (
    Rule(
        "TP104",
        "paired-by-position",
        Severity.WARNING,
        "gradients are paired by position after some were left out",
        "Pairs whose gradient is None are taken out of each tower's list, and the lists are then read side by side. "
        "Where towers "
        "lack gradients of different variables, a variable gets the gradient of another one, and nothing fails if "
        "shapes agree. A note where the code does not show that a gradient is None, as it does where a tower takes the "
        "gradients of all variables of several losses, or towers share none; and where what pairs them is called "
        "before the towers are built.",
        "DDP pairs by parameter. A port pairs rightly, and is another training where the script did not.",
        "`DistributedDataParallel(model, find_unused_parameters=True)` where a parameter may have no gradient.",
        _pairing,
        decided=False,
        hazards=("positional_pairing",),
        only_found="Towers that are built equally lack the same gradients, and the pairs are right: a recording shows it.",
    ),
    Rule(
        "TP105",
        "gradient-may-be-none",
        Severity.NOTE,
        "a missing gradient would end the program",
        "Gradients are stacked without a test for None. A variable that the loss does not reach makes TensorFlow "
        "raise.",
        "DDP waits for a gradient of each parameter that requires one: what raised here would hang or raise there.",
        "Freeze what no loss reaches (`requires_grad_(False)`), or pass `find_unused_parameters=True`.",
        _crash,
        decided=False,
        hazards=("gradient_missing_in_some_towers",),
        only_found="The source does not say whether a gradient is None; a recording that ran has shown that none is.",
    ),
    Rule(
        "TP106",
        "mean-of-those-present",
        Severity.NOTE,
        "the mean is over the towers that have a gradient",
        "Towers without a gradient of a variable are left out (all behind the first such tower, where the loop over towers "
        "ends there), and the rest is divided by how many are left.",
        "DDP divides by the number of all ranks: such a variable's gradient is smaller there.",
        "Multiply its gradient by world size / ranks that have one, in a hook, where towers differ in what they train.",
        _any,
        decided=False,
        hazards=("gradient_missing_in_some_towers",),
        only_found="The source does not say whether a gradient is None: record the script.",
    ),
    Rule(
        "TP107",
        "first-tower-decides",
        Severity.NOTE,
        "the first tower decides which variables have gradients",
        "Whether a gradient is None is tested in the first tower, and taken to be so in all of them, or the program ends "
        "where another tower lacks it.",
        "DDP looks at each rank's own: with `find_unused_parameters=True` a gradient that any rank has is averaged.",
        "Nothing to do where all towers are equal; else freeze what the first tower does not train.",
        _first,
        decided=False,
        hazards=("gradient_missing_in_some_towers",),
        only_found="The source does not say whether a gradient is None: record the script.",
    ),
)
