"""Rules about what is kept beside the weights: moving statistics, averages, slots, counters."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import CALLERS, Hit, Rule, assigns, linked, statement_of

MAKERS_OF_STEPS = frozenset(["get_or_create_global_step", "get_global_step", "create_global_step"])
NORM_WORDS = re.compile(r"batch_?norm|moving_|(^|[^a-z])bn([^a-z]|$)|population", re.IGNORECASE)
NO_AVERAGES = ("np.", "numpy.", "tf.reduce", "slim.")  # that an `average` of arrays is of


def _average(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in linked(program):
            averages, updates = _ops(function)
            for call in function.calls:
                if function.module.resolved(call.func) not in ("tf.group", "tf.control_dependencies"):
                    continue
                given = [part for arg in call.args for part in function.module.inside(arg)]
                if any(call is each for each in _dependencies_of(averages, function)):
                    continue
                names = {chain(each) for each in given if isinstance(each, ast.Name | ast.Attribute)}
                inside = {id(each) for each in given}
                average = names & averages.keys() or any(id(each) in inside for each in averages.values())
                update = names & updates.keys() or any(id(each) in inside for each in updates.values())
                ordered = [
                    averages[name] for name in names & averages.keys() if _ordered(averages[name], function, updates)
                ]
                if average and update and not ordered:
                    holder = function.module.resolved(call.func)
                    text = (
                        f"the average of the weights and their update are in one {holder}: which comes first is chance"
                    )
                    own = [averages[name] for name in averages if name in names or id(averages[name]) in inside]
                    read = _are_read(own, function, program, code)
                    yield Hit(call, function.module, text if read else f"{text}; nothing here reads the averages", read)


def _are_read(averages: list[ast.Call], home: Function, program: Program, code: Code) -> bool:
    """Whether something that runs reads averages of weights: beside the program, or where none is updated."""
    module = home.module
    stays = all(_stays_in(each, home) for each in averages)
    known = set(imported_modules(program.loop.module, code.repository)) | imported_modules(module, code.repository)
    for each in code.repository.modules:
        related = each in known or module in imported_modules(each, code.repository)
        if not related and any(_ops(function)[0] for function in each.functions):
            continue
        if code.endings.of_imports(each):
            continue
        for function in each.functions:
            for call in function.calls:
                if stays and getattr(call.func, "attr", "") == "average" and not _is_inside(function, home):
                    continue
                if _reads_averages(call, function) and not _does_not_run(call, each, code):
                    return True
            if any(
                isinstance(node, ast.Constant) and isinstance(node.value, str) and _names_averages(node, each)
                for node in function.nodes
            ):
                return True
    return False


def _stays_in(average: ast.Call, home: Function) -> bool:
    """Whether the object that keeps averages is one of its function alone: `average()` of another object is of others."""
    owner = average.func.value if isinstance(average.func, ast.Attribute) else None
    if isinstance(owner, ast.Call):
        return True
    if not isinstance(owner, ast.Name) or not home.name or owner.id not in home.assigned:
        return False
    inside = [each for each in home.module.functions if _is_inside(each, home)]
    named = [node for each in inside for node in each.nodes if isinstance(node, ast.Name) and node.id == owner.id]
    return all(isinstance(home.module.parents.get(node), ast.Attribute) or _is_target(node, home) for node in named)


def _is_inside(function: Function | None, home: Function) -> bool:
    while function is not None and function is not home:
        function = function.outer
    return function is home


def _does_not_run(node: ast.AST, module: Module, code: Code) -> str:
    """Returns why something does not run as the repository is, also for want of an option; "" where it may."""
    return code.reach.why_not(node, module) or code.reach_by_default.why_not(node, module)


def _reads_averages(call: ast.Call, function: Function) -> bool:
    if not isinstance(call.func, ast.Attribute) or function.module.resolved(call.func).startswith(NO_AVERAGES):
        return False
    if call.func.attr not in ("variables_to_restore", "average_name", "average"):
        return False
    if _is_left(call, function) or _of_statistics(call, function):
        return False
    return not (call.func.attr == "average" and _of_losses(call))


def _is_left(call: ast.Call, function: Function) -> bool:
    """Whether what a call gives back gets a name that its function never reads, or none."""
    holder = statement_of(call, function.module)
    if getattr(holder, "value", None) is not call or isinstance(holder, ast.Return):
        return False
    names = [target.id for target in getattr(holder, "targets", ()) if isinstance(target, ast.Name)]
    if len(names) < len(getattr(holder, "targets", ())) or not function.name:
        return False
    inside = [function, *(each for each in function.module.functions if each.outer is function)]
    read = (node for each in inside for node in each.nodes if isinstance(node, ast.Name) and node.id in names)
    return all(node in getattr(holder, "targets", ()) for node in read)


def _of_statistics(call: ast.Call, function: Function) -> bool:
    """Whether the average of one variable is read, which is one of batch norm's, by its name and what it is taken from."""
    if call.func.attr == "variables_to_restore" or not call.args:  # type: ignore[attr-defined]
        return False
    given = [call.args[0]]
    for _ in range(2):  # what it is given, and what that is
        names = {part.id for each in given for part in ast.walk(each) if isinstance(part, ast.Name)}
        given += [each.value for name in names for each in function.assigned.get(name, ())]
    return bool(NORM_WORDS.search(" ".join(source_of(each, 200) for each in given)))


def _of_losses(call: ast.Call) -> bool:
    """Whether the average of a loss or a metric is read, for a summary."""
    text = " ".join([source_of(call.func), *(source_of(each) for each in call.args)])
    return bool(re.search(r"loss|acc|metric|error|cost|\bl\b", text, re.IGNORECASE))


def _names_averages(node: ast.Constant, module: Module) -> bool:
    """Whether a text is part of an average's name: a script may restore it by that."""
    return "/ExponentialMovingAverage" in str(node.value) and not isinstance(module.parents.get(node), ast.Expr)


def _ops(function: Function) -> tuple[dict[str, ast.Call], dict[str, ast.Call]]:
    """The calls that update averages and weights, by the name that they are given to."""
    averages: dict[str, ast.Call] = {}
    updates: dict[str, ast.Call] = {}
    for call in function.calls:
        last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        owner = chain(call.func).rpartition(".")[0]
        made = function.assigned.get(owner, ())
        of_average = "ExponentialMovingAverage" in source_of(call.func, 200) or any(
            isinstance(each.value, ast.Call) and chain(each.value.func).endswith("ExponentialMovingAverage")
            for each in made
        )
        holder = statement_of(call, function.module)
        name = chain(holder.targets[0]) if isinstance(holder, ast.Assign) else f"#{id(call)}"
        if last == "apply" and of_average and _of_weights(call, function):
            averages[name] = call
        elif last in ("apply_gradients", "minimize") or (last or chain(call.func)).endswith(
            ("adam_updates", "_updates")
        ):
            updates[name] = call
    return averages, updates


def _dependencies_of(averages: dict[str, ast.Call], function: Function) -> Iterator[ast.AST]:
    """The calls of control_dependencies that an average is made under: what they name comes before it."""
    for call in averages.values():
        for each in function.module.ancestors(call):
            if isinstance(each, ast.With):
                yield from (item.context_expr for item in each.items)


def _of_weights(call: ast.Call, function: Function) -> bool:
    """Whether an average is one of weights: `apply([loss])` is in no race."""
    if not call.args:
        return True
    text = source_of(call.args[0], 300)
    if isinstance(call.args[0], ast.Name):
        text += " ".join(source_of(each.value, 300) for each in function.assigned.get(call.args[0].id, ()))
    return bool(re.search(r"variables|params|weights|var_list|vars", text, re.IGNORECASE))


def _ordered(call: ast.Call, function: Function, updates: dict[str, ast.Call]) -> bool:
    return any(
        isinstance(each, ast.With)
        and any("control_dependencies" in source_of(item.context_expr) for item in each.items)
        for each in function.module.ancestors(call)
    )


def _slots(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for module in dict.fromkeys(use.module for use in program.uses):
            for function in module.functions:
                for call in function.calls:
                    if module.resolved(call.func) == "tf.Variable" and len(call.args) > 1 and _is_text(call.args[1]):
                        text = f"{source_of(call)}: the second argument is `trainable`, and a text is true"
                        taken = _are_taken_later(call, function, program)
                        text += "" if taken else "; nothing here takes the trainable variables after it is made"
                        yield Hit(call.args[1], module, text, taken)


def _are_taken_later(call: ast.Call, function: Function, program: Program) -> bool:
    """Whether something takes all trainable variables behind a call, or behind the calls that lead to it."""
    repository = program.repository
    seen = {function}
    waiting: list[tuple[ast.AST, Function, int]] = [(call, function, CALLERS)]
    while waiting:
        node, inside, left = waiting.pop()
        loops = [each for each in inside.module.ancestors(node) if isinstance(each, ast.For | ast.While)]
        behind = [
            each
            for each in inside.calls
            if each.lineno > node.lineno  # type: ignore[attr-defined]
            or any(loop in inside.module.ancestors(each) for loop in loops)
        ]
        for each, module in repository.reached(behind, inside.module, 2):
            if isinstance(each, ast.Call) and _takes_trainable(Use(each, module, module.resolved(each.func))):
                return True
        calls = [*repository.calls_of(inside.name), *(repository.calls_of(inside.owner) if inside.owner else ())]
        for use, module in calls if left and inside.name else ():
            home = repository.homes[use]
            if home not in seen and inside in repository.callees(use, module):
                seen.add(home)
                waiting.append((use, home, left - 1))
    return False


def _takes_trainable(use: Use) -> bool:
    """Whether a call takes the collection of trainable variables: by its name, or where no list is given."""
    if use.last == "trainable_variables" or "TRAINABLE_VARIABLES" in source_of(use.call, 200):
        return True
    if use.last in ("minimize", "compute_gradients") and isinstance(use.call.func, ast.Attribute):
        return use.argument("var_list", 2 if use.last == "minimize" else 1) is None
    return use.last == "apply" and not use.call.args and bool(re.search("ema|average", source_of(use.call.func), re.I))


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.BinOp) and (_is_text(node.left) or _is_text(node.right))


def _counters(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in linked(program):
            for name, given in function.assigned.items():
                once = [each for each in given if not _of_each_variable(each.by, function)]
                made = {_makes_a_counter(each.value, function) for each in once}
                if not made - {""}:
                    continue
                writes = [call for call in function.calls if _counts(call, name, function)]
                reads = _reads(function, name, writes)
                if not writes or not reads or _has_order(function):
                    continue
                by_hand = "variable" in made and any(
                    assigns(each, function.module) for each in function.calls if each not in writes
                )
                if by_hand or _reach_an_optimizer(reads, function, program):
                    text = f"{name} is counted beside the updates that read it, in no order"
                    yield Hit(writes[0], function.module, text)


def _makes_a_counter(node: ast.AST, function: Function) -> str:
    """Returns "variable", "step", or "" of what makes neither."""
    name = function.module.resolved(node.func) if isinstance(node, ast.Call) else ""
    if name in ("tf.Variable", "tf.get_variable"):
        return "variable"
    return "step" if name.rpartition(".")[2] in MAKERS_OF_STEPS else ""


def _of_each_variable(node: ast.AST, function: Function) -> bool:
    """Whether something is made in a loop: a slot of each variable is read by its own update alone."""
    return any(isinstance(each, ast.For | ast.While) for each in function.module.ancestors(node))


def _counts(call: ast.Call, name: str, function: Function) -> bool:
    """Whether a call makes of a variable's value its next one."""
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("assign", "assign_add")
        and chain(call.func.value) == name
    ):
        return call.func.attr == "assign_add" or (bool(call.args) and _is_next(call.args[0], name, function))
    if chain(call.func) not in ("tf.assign", "tf.assign_add") or not call.args or chain(call.args[0]) != name:
        return False
    return chain(call.func) == "tf.assign_add" or (len(call.args) > 1 and _is_next(call.args[1], name, function))


def _is_next(node: ast.expr, name: str, function: Function) -> bool:
    """Whether a value is computed from a variable's, here or where its own name is given it."""
    return _mentions(node, name) or any(_mentions(each, name) for each in _values(node, function))


def _values(node: ast.expr, function: Function) -> list[ast.expr]:
    given = function.assigned.get(node.id, ()) if isinstance(node, ast.Name) else ()
    return [each.value for each in given if each.how == "="]


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name | ast.Attribute) and chain(each) == name for each in ast.walk(node))


def _reads(function: Function, name: str, writes: list[ast.Call]) -> set[ast.AST]:
    """Returns where a function reads a counter, but for what a write itself is computed from: that is read before it."""
    taken = [value for write in writes for argument in write.args for value in _values(argument, function)]
    own = {each for node in [*writes, *taken] for each in function.module.inside(node)}
    return {
        node
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id == name and node not in own and not _is_target(node, function)
    }


def _reach_an_optimizer(reads: set[ast.AST], function: Function, program: Program) -> bool:
    made = [call for call in function.calls if chain(call.func).endswith("Optimizer")]
    return any(not reads.isdisjoint(program.repository.sources(each, function.module)) for each in made)


def _is_target(node: ast.Name, function: Function) -> bool:
    holder = function.module.parents.get(node)
    return isinstance(holder, ast.Assign) and node in holder.targets


def _has_order(function: Function) -> bool:
    return any(chain(call.func).endswith("control_dependencies") for call in function.calls)


STATE_RULES = (
    Rule(
        "TP305",
        "average-without-order",
        Severity.WARNING,
        "the average of the weights is updated in no order with the weights",
        "`ExponentialMovingAverage.apply` and `apply_gradients` are in one `tf.group`: the average takes the "
        "weights before or after "
        "the update, by chance: before in most runs. A note where nothing reads the averages (`average()`, "
        "`variables_to_restore()`, `average_name()`, or their names), what does so needs an option that "
        "nothing gives or ends at its imports, what is read of them goes nowhere, or only those of batch norm's statistics "
        "are read. `average()` of another object reads none of them where a function keeps its own to itself.",
        "A port updates the average after `optimizer.step()`: one update later than most runs of the script.",
        "Update it after `optimizer.step()`, and expect its averages one step ahead of the script's.",
        _average,
        hazards=("unordered_average",),
        for_one_tower=True,
    ),
    Rule(
        "TP306",
        "slots-are-trainable",
        Severity.WARNING,
        "a variable's name was passed as `trainable`",
        "The second argument of `tf.Variable` is `trainable`, not `name`: the text makes the variable trainable, "
        "under a name of "
        "TensorFlow's. Slots and counters of a hand-written optimizer then are in `tf.trainable_variables()`, and "
        "in what is made "
        "of it: averages, decay, counts of parameters. A note where nothing takes the trainable variables after these "
        "are made.",
        "Only the model's parameters belong to the port's optimizer and state.",
        "Map variables that the loss reaches; slots are the optimizer's state.",
        _slots,
        hazards=("trainable_slots",),
        for_one_tower=True,
    ),
    Rule(
        "TP307",
        "counter-races",
        Severity.NOTE,
        "a counter may be read before or after it is counted",
        "A hand-written update reads a variable that the same run assigns, without an order between them, or an optimizer's "
        "schedule reads a step that is assigned beside its update: powers of beta or a warm-up are those of this step or of "
        "the next, for each parameter by chance.",
        "A port counts in one place: it is the script's in one of the two orders.",
        "Count before or after all updates, as `parity replay` finds it nearer to the recording: it allows either.",
        _counters,
        decided=False,
        hazards=("ungated_state",),
        only_found="Whether TensorFlow orders the two is decided by the graph, not by the source: the recording looks "
        "there.",
    ),
)
