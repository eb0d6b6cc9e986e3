"""Rules about optimizers, schedules and the global step."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.facts import SCHEDULES, optimizers
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.module import Function
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import Hit, Rule, block_of, linked, uses_in

OTHER_RULES = {
    "RMSPropOptimizer": "epsilon stands inside of the root and averages of squares begin at 1",
    "FtrlOptimizer": "torch has no such optimizer",
    "ProximalAdagradOptimizer": "torch has no such optimizer",
    "AdagradDAOptimizer": "torch has no such optimizer",
    "LazyAdamOptimizer": "moments of rows that were not looked up stay as they are",
    "NadamOptimizer": "its schedule of momentum is not that of torch",
    "AdaMaxOptimizer": "epsilon is added to the norm, and not in its maximum",
}
# Of those whose formula is torch's: the arguments that decide, their places, and what holds where one is not given.
DEFAULTS = {
    "AdagradOptimizer": ((("initial_accumulator_value", 1), "accumulators begin at 0.1"),),
    "AdadeltaOptimizer": (
        (("learning_rate", 0), "the rate is 0.001, in torch 1"),
        (("rho", 1), "rho is 0.95, in torch 0.9"),
        (("epsilon", 2), "epsilon is 1e-8, in torch 1e-6"),
    ),
}
# Those whose rate has no default.
WITHOUT_A_RATE = frozenset(["RMSPropOptimizer", "FtrlOptimizer", "ProximalAdagradOptimizer", "AdagradDAOptimizer"])
STEP_WORDS = re.compile(r"global_?step|(^|\.)(_?g?step|gstep|train_step)$", re.IGNORECASE)


def _adam(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in optimizers(program):
            if use.name in ("tf.train.AdamOptimizer", "tf.contrib.opt.AdamWOptimizer"):
                yield Hit(
                    use.call, use.module, f"{source_of(use.call)}: epsilon is added before the correction of the bias"
                )


def _others(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in optimizers(program):
            if not use.name.startswith("tf."):
                continue
            if use.last in OTHER_RULES:
                text = f"{source_of(use.call)}: {OTHER_RULES[use.last]}"
                raises = use.last in WITHOUT_A_RATE and _lacks_its_rate(use)
                yield Hit(use.call, use.module, f"{text}; it has no rate, and raises" if raises else text, not raises)
            lacking = [text for argument, text in DEFAULTS.get(use.last, ()) if use.argument(*argument) is None]
            if use.last == "AdagradOptimizer":
                # Without an epsilon nothing differs but where an accumulator is nearly 0: torch's is 1e-10.
                lacking.append("there is no epsilon")
            if lacking and not any(key.arg is None for key in use.call.keywords):
                text = f"{source_of(use.call)}: {' and '.join(lacking)}"
                yield Hit(use.call, use.module, text, lacking != ["there is no epsilon"])


def _lacks_its_rate(use: Use) -> bool:
    """Whether a call gives no learning rate: neither by its name, nor at its place, nor in what is unpacked."""
    return not use.call.args and not any(key.arg in (None, "learning_rate") for key in use.call.keywords)


def _applies(functions: list[Function]) -> list[Use]:
    return [use for use in uses_in(functions) if use.last in ("apply_gradients", "minimize")]


def step_of(use: Use) -> ast.expr | None:
    """Returns the global step that an update counts, or None."""
    step = use.argument("global_step", 1)
    if step is None or (isinstance(step, ast.Constant) and step.value is None):
        return None
    # The second argument of minimize and apply_gradients; a name for it may be anything.
    return step


def _twice(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        functions = linked(program)
        counted = [use for use in _applies(functions) if step_of(use) is not None]
        if not counted:
            continue
        for function in functions:
            for call in function.calls:
                if _counts_step(call, function) and not _takes_its_place(call, counted, function):
                    text = f"{source_of(call)} counts a step that {source_of(counted[0].call)} counts as well"
                    read = _is_read(_counted_by(call), program)
                    yield Hit(call, function.module, text if read else f"{text}; no schedule here reads it", read)


def _counts_step(call: ast.Call, function: Function) -> bool:
    name = function.module.resolved(call.func)
    if name in ("tf.assign_add", "tf.assign") and len(call.args) > 1:
        by = call.args[1]
        counted = source_of(call.args[0])
        plus = isinstance(by, ast.BinOp) and isinstance(by.op, ast.Add) and source_of(by.left) == counted
        return bool(STEP_WORDS.search(counted)) and (_is_one(by) if name == "tf.assign_add" else plus)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "assign_add" and call.args:
        return bool(STEP_WORDS.search(source_of(call.func.value))) and _is_one(call.args[0])
    return False


def _counted_by(call: ast.Call) -> str:
    """Returns the step that a call counts, as source."""
    if chain(call.func) in ("tf.assign_add", "tf.assign") or not isinstance(call.func, ast.Attribute):
        return source_of(call.args[0])
    return source_of(call.func.value)


def _is_read(step: str, program: Program) -> bool:
    """Whether a schedule, or what the optimizer is given, is computed from a step."""
    read = [
        part
        for use in uses_in(linked(program))
        if use.last in SCHEDULES or use.last == "ExponentialMovingAverage"
        for part in [*use.call.args, *(key.value for key in use.call.keywords)]
    ]
    read += [each for use in optimizers(program) if (each := use.argument("learning_rate", 0)) is not None]
    names = {
        chain(part)
        for each in read
        for function in [program.repository.homes.get(each)]
        if function is not None
        for part in program.repository.sources(each, function.module, 3)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    # A step that is looked up where it is read may be this one by another name.
    return step in names or any(name.endswith(("get_global_step", "get_or_create_global_step")) for name in names)


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _takes_its_place(call: ast.Call, counted: list[Use], function: Function) -> bool:
    """Whether the counting is of another step, or in a branch, or function, that the update is not in."""
    target = _counted_by(call)
    for use in counted:
        step = step_of(use)
        same = step is not None and source_of(step) == target
        if same and use.module is function.module and use.module.within.get(use.call) is function:
            first, second = block_of(call, function.module), block_of(use.call, use.module)
            if not (first[0] is second[0] and first[1] != second[1]):
                return False
    return True


def _never_read(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        functions = linked(program)
        applies = _applies(functions)
        if not applies or any(step_of(use) is not None for use in applies) or _counts_elsewhere(program):
            continue
        for use in uses_in(functions):
            if use.last in SCHEDULES:
                step = use.argument(
                    "x" if use.last.startswith("piecewise") else "global_step",
                    0 if use.last.startswith("piecewise") else 1,
                )
                if step is not None and _is_step(step, program, use):
                    text = (
                        f"{source_of(use.call)} reads a step that no update counts: the rate stays what it is at first"
                    )
                    yield Hit(use.call, use.module, text, _may_steer(use, program))


def _may_steer(schedule: Use, program: Program) -> bool:
    """Whether an optimizer may have its rate from a schedule: not where each that is seen has a number for its rate."""
    makers = optimizers(program)
    rates = [(use.argument("learning_rate", 0), use.module) for use in makers]
    return not makers or any(
        rate is None or not all(isinstance(each, ast.Constant) for each in program.repository.sources(rate, module, 2))
        for rate, module in rates
    )


def _is_step(node: ast.expr, program: Program, use: Use) -> bool:
    for each in program.repository.sources(node, use.module, 2):
        if isinstance(each, ast.Call):
            name = use.module.resolved(each.func).rpartition(".")[2]
            # A number that is fed is counted in Python.
            if name == "placeholder":
                return False
            if name in (
                "get_or_create_global_step",
                "get_global_step",
                "create_global_step",
                "Variable",
                "get_variable",
            ):
                return True
    return False


def _counts_elsewhere(program: Program) -> bool:
    for function in (*linked(program), *program.leading):
        for call in function.calls:
            name = chain(call.func).rpartition(".")[2]
            if name in (
                "assign",
                "assign_add",
                "load",
                "increment_global_step",
                "create_train_op",
                "optimize_clones",
            ) and (STEP_WORDS.search(source_of(call, 200)) or name in ("create_train_op", "optimize_clones")):
                return True
    return False


def _not_counted(code: Code) -> Iterator[Hit]:
    read = {hit.module for hit in _never_read(code)}
    for program in code.programs:
        functions = linked(program)
        applies = _applies(functions)
        if program.loop.module in read or not applies or _counts_elsewhere(program):
            continue
        if all(step_of(use) is None for use in applies):
            yield Hit(applies[0].call, applies[0].module, f"{source_of(applies[0].call)} counts no step")


def _unit(code: Code) -> Iterator[Hit]:
    words = re.compile(r"batch_?size|num_examples|per_epoch|num_gpu|n_gpu|num_batches|epoch", re.IGNORECASE)
    for program in code.programs:
        for use in program.linked_uses:
            if use.last not in SCHEDULES:
                continue
            name = "boundaries" if use.last.startswith("piecewise") else "decay_steps"
            given = use.argument(name, 1 if name == "boundaries" else 2)
            counted = use.argument("global_step", 1)
            parts = [
                part
                for each in (given, counted)
                if each is not None
                for part in program.repository.sources(each, use.module, 2)
            ]
            if any(isinstance(part, ast.Name | ast.Attribute) and words.search(chain(part)) for part in parts):
                text = f"{source_of(use.call)}: its steps are computed from batches or examples"
                yield Hit(use.call, use.module, text)


def _by_hand(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in linked(program):
            if function.name == "" or not re.search(
                r"grad|(^|\W)g(\W|$)", " ".join([*function.parameters, function.name]), re.I
            ):
                continue
            assigns = [
                call
                for call in function.calls
                if (isinstance(call.func, ast.Attribute) and call.func.attr in ("assign", "assign_add", "assign_sub"))
                or function.module.resolved(call.func) in ("tf.assign", "tf.assign_add", "tf.assign_sub")
            ]
            loops = [node for node in function.nodes if isinstance(node, ast.For) and "zip" in source_of(node.iter)]
            inside = [call for call in assigns if any(loop in function.module.ancestors(call) for loop in loops)]
            if len(inside) >= 2:
                yield Hit(function.node, function.module, f"{function.name}() is an optimizer of assignments")


OPTIMIZER_RULES = (
    Rule(
        "TP501",
        "adam-epsilon",
        Severity.NOTE,
        "Adam's epsilon stands in another place",
        "TensorFlow adds epsilon to the root of the uncorrected average (epsilon hat of the paper).",
        "`torch.optim.Adam` adds it after the correction: where gradients are tiny, early steps differ by as much "
        "as the update.",
        "`torch_ddp.like_tf.Adam(model.parameters(), lr=...)`.",
        _adam,
        for_one_tower=True,
    ),
    Rule(
        "TP502",
        "optimizer-differs",
        Severity.WARNING,
        "the optimizer computes otherwise than the one of its name in torch",
        "TensorFlow's RMSProp, Adagrad, Adadelta, AdaMax, Nadam and lazy Adam have other first values, defaults or "
        "formulas than "
        "torch's; some torch does not have. A note where a call lacks the rate that it has to be given.",
        "The optimizer of the same name is another one: its updates differ from the first step on.",
        "`torch_ddp.like_tf` has RMSProp, Adagrad, Adadelta and more, with TensorFlow's formulas and defaults.",
        _others,
        for_one_tower=True,
    ),
    Rule(
        "TP503",
        "step-counted-twice",
        Severity.WARNING,
        "the global step is counted twice",
        "An update counts the global step, and an op of its own counts it too: schedules go twice as fast. Where none that "
        "is seen reads it, a note.",
        "A scheduler's `step()` once for each update is half as fast.",
        "Call `scheduler.step()` as often, or halve its steps.",
        _twice,
        hazards=("global_step_counted_twice",),
        only_found="Where the op of its own is not run with each update, the step is counted once: the recording counts.",
        for_one_tower=True,
    ),
    Rule(
        "TP504",
        "schedule-stands-still",
        Severity.WARNING,
        "the schedule reads a step that nothing counts",
        "No update is given the global step, and nothing else counts it: the learning rate stays what it is at first. Where "
        "every optimizer that is seen has a number for its rate, a note.",
        "A scheduler that is stepped changes the rate.",
        "A constant rate is the script's training; most wanted the schedule.",
        _never_read,
        hazards=("global_step_not_counted",),
        for_one_tower=True,
    ),
    Rule(
        "TP505",
        "step-not-counted",
        Severity.NOTE,
        "no update counts the global step",
        "`apply_gradients` and `minimize` count a step only where they are given it. Checkpoints are not numbered, "
        "hooks that stop or "
        "save by steps wait forever.",
        "Nothing of the training: a port counts its own steps.",
        "Count updates in the loop.",
        _not_counted,
        hazards=("global_step_not_counted",),
        for_one_tower=True,
    ),
    Rule(
        "TP506",
        "unit-of-the-schedule",
        Severity.NOTE,
        "the schedule's steps are computed from batches or examples",
        "Boundaries are computed from a batch size or a number of examples. Whether that batch is a tower's or that "
        "of all towers, "
        "and whether the step counts updates or examples, decides when the rate falls.",
        "A rank's batch is a tower's; the batch of an update is world size times as large.",
        "Write the boundaries in updates, as numbers that the recording shows.",
        _unit,
        decided=False,
        for_one_tower=True,
    ),
    Rule(
        "TP507",
        "optimizer-by-hand",
        Severity.NOTE,
        "an optimizer of assignments",
        "Weights and slots are assigned by the script itself.",
        "A `torch.optim.Optimizer` of one's own computes the same; that of the same name mostly differs in its "
        "details.",
        "`parity port` writes the optimizer from the recorded graph.",
        _by_hand,
        for_one_tower=True,
    ),
)
