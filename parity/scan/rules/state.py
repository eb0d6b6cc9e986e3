"""Rules about what is kept beside the weights: moving statistics, averages, slots, counters."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.facts import scoped, update_ops
from parity.scan.inventory.norms import is_read_early, updates_of_towers
from parity.scan.inventory.one_tower import of_first_tower
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import Hit, Rule, linked, statement_of

CALLERS = 4  # callers of callers that are looked through for what takes the trainable variables
NO_AVERAGES = ("np.", "numpy.", "tf.reduce", "slim.")  # that an `average` of arrays is of
NORMS = frozenset(["batch_norm", "batch_normalization", "BatchNormalization", "fused_batch_norm"])
NORM_LAYERS = frozenset(
    ["slim.batch_norm", "tf.contrib.layers.batch_norm", "tf.layers.batch_normalization", "tf.layers.BatchNormalization"]
)
# What runs the updates by itself.
RUN_UPDATES = frozenset(
    [
        "create_train_op",
        "optimize_loss",
        "SyncMultiGPUTrainer",
        "UPDATE_OPS",
        "update_ops",
        "get_updates_for",
        "optimize_clones",
    ]
)


def _linked_updates(program: Program) -> list[Use]:
    functions = set(linked(program))
    return [use for use in update_ops(program) if use.module.within.get(use.call) in functions]


def _all_towers(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        uses = _linked_updates(program)
        puts = updates_of_towers(program) if uses else False
        if puts is False:
            continue
        for use in uses:
            if scoped(use) or _others_collection(use) or of_first_tower(use.call, program.loop, use.module):
                continue
            if (program.is_in_towers(use.call) and _under_condition(use, program)) or is_read_early(use, program):
                continue
            text = f"{source_of(use.call)} has the updates of all towers, which run in no order"
            if puts is None:
                text = (
                    f"{source_of(use.call)} has the updates of all towers, in no order, where their net puts any there"
                )
            yield Hit(use.call, use.module, text, puts is True)


def _others_collection(use: Use) -> bool:
    return not re.search(r"UPDATE_OPS|update_ops", source_of(use.call))


def _under_condition(use: Use, program: Program) -> bool:
    """Whether something in the loop looks at a condition that is not seen to be the tower's number."""
    for each in use.module.ancestors(use.call):
        if each is program.loop.node:
            return False
        if isinstance(each, ast.If):
            return True
    return False


def _last_tower(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        loop = program.loop
        uses = _linked_updates(program)
        puts = updates_of_towers(program) if uses else False
        if puts is False:
            continue
        for use in uses:
            if not scoped(use) or loop.node not in use.module.ancestors(use.call) or use.module is not loop.module:
                continue
            if of_first_tower(use.call, loop, use.module) or _under_condition(use, program):
                continue
            statement = statement_of(use.call, use.module)
            # Only where the name is bound anew in each iteration, and nothing in the loop runs it.
            if isinstance(statement, ast.Assign) and not _used_inside(statement, program):
                name = source_of(statement.targets[0])
                text = f"{name} is taken anew for each tower, and what runs behind the loop is that of the last"
                if puts is None:
                    text += ", where their net puts any there"
                yield Hit(use.call, use.module, text, puts is True)


def _used_inside(statement: ast.Assign, program: Program) -> bool:
    names = {chain(target) for target in statement.targets}
    for part in program.loop.body:
        for each in program.loop.module.inside(part):
            if isinstance(each, ast.Name | ast.Attribute) and chain(each) in names and each not in statement.targets:
                return True
    return False


def _never(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        modules = dict.fromkeys(function.module for function in [*program.linked, *program.functions])
        text = "\n".join(line for module in modules for line in module.lines)
        if any(word in text for word in RUN_UPDATES):
            continue
        for use in program.uses:
            if use.name in NORM_LAYERS and program.is_in_towers(use.call) and not _in_place(use) and _may_train(use):
                text = "a batch norm whose updates are in UPDATE_OPS, which nothing here runs"
                decided = _reads_statistics(use, program)
                if not decided:
                    text += "; nothing here normalises by the moving statistics either"
                yield Hit(use.call, use.module, text, decided)


def _may_train(use: Use) -> bool:
    training = use.argument("is_training") or use.argument("training")
    if use.name.startswith("tf.layers"):
        # Not training unless it is said.
        return training is not None and not (isinstance(training, ast.Constant) and not training.value)
    return not (isinstance(training, ast.Constant) and training.value is False)


def _reads_statistics(use: Use, program: Program) -> bool:
    """Whether a batch norm is also built for evaluation: its training flag is no True of the source's own."""
    training = use.argument("is_training") or use.argument("training")
    if training is not None:
        return not (isinstance(training, ast.Constant) and training.value is True)
    # Of slim's, True unless a scope says otherwise.
    return any(
        module.resolved(call.func).endswith("arg_scope")
        and "batch_norm" in source_of(call.args[0] if call.args else None, 300)
        and any(
            (keyword.arg == "is_training" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value))
            or (keyword.arg is None and "is_training" in _parts(keyword.value, module, program))
            for keyword in call.keywords
        )
        for module in imported_modules(program.loop.module, program.repository)
        for function in module.functions
        for call in function.calls
    ) or any(keyword.arg is None for keyword in use.call.keywords)


def _parts(node: ast.expr, module: Module, program: Program) -> str:
    return " ".join(
        str(part.value) for part in program.repository.sources(node, module, 3) if isinstance(part, ast.Constant)
    )


def _in_place(use: Use) -> bool:
    collections = use.argument("updates_collections")
    return isinstance(collections, ast.Constant) and collections.value is None


def _in_every_tower(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in program.uses:
            if program.is_in_towers(use.call) and _in_place(use):
                text = "each tower updates the moving statistics while it computes, in no order"
                lacks = _lacking_key(use, program)
                text += f"; it does not run: no dictionary that is given has {lacks}" if lacks else ""
                yield Hit(use.call, use.module, text, not lacks)
        for node, module in program.loop.region:
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=False):
                    if (
                        isinstance(key, ast.Constant)
                        and key.value == "updates_collections"
                        and isinstance(value, ast.Constant)
                        and value.value is None
                    ):
                        text = "each tower updates the moving statistics while it computes, in no order"
                        yield Hit(value, module, text)


def _lacking_key(use: Use, program: Program) -> str:
    """Returns `options["key"]` of a parameter for which callers give dictionaries that all lack the key, else ""."""
    function = use.module.within.get(use.call)
    for node in use.module.inside(use.call):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or function is None:
            continue
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, str) and node.value.id in function.parameters and node.value.id not in function.assigned:
            given = list(_dictionaries(node.value.id, function, program, CALLERS))
            known = all(each is not None for each in given)
            if given and known and not any(key in each for each in given if each is not None):
                return source_of(node)
    return ""


def _dictionaries(name: str, function: Function, program: Program, depth: int) -> Iterator[set[str] | None]:
    """Yields the keys of each dictionary that a parameter may be, None where it may be anything."""
    repository = program.repository
    for call, module in repository.calls_of(function.name):
        if function not in repository.callees(call, module):
            continue
        value = Use(call, module, "").argument(name, function.parameters.index(name))
        home = repository.homes[call]
        if value is None or home is function:
            continue
        if isinstance(value, ast.Name) and value.id in home.parameters and value.id not in home.assigned:
            yield from _dictionaries(value.id, home, program, depth - 1) if depth else [None]
        else:
            yield from _literals(value, home, program)


def _literals(value: ast.expr, home: Function, program: Program, depth: int = 3) -> Iterator[set[str] | None]:
    if isinstance(value, ast.IfExp):
        yield from _literals(value.body, home, program, depth)
        yield from _literals(value.orelse, home, program, depth)
    elif isinstance(value, ast.Dict):
        keys = [key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        yield set(keys) if len(keys) == len(value.keys) else None
    elif isinstance(value, ast.Name | ast.Attribute) and depth:
        given = program.repository.assigned(chain(value), home)
        yield from (
            keys
            for each in given
            for keys in (_literals(each.value, home, program, depth - 1) if each.how == "=" else [None])
        )
        yield from [] if given else [None]
    elif not isinstance(value, ast.Constant):
        yield None


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
                    read = _are_read(function.module, program, code)
                    yield Hit(call, function.module, text if read else f"{text}; nothing here reads the averages", read)


def _are_read(module: Module, program: Program, code: Code) -> bool:
    """Whether something that runs reads averages of weights: beside the program, or where none is updated."""
    known = set(imported_modules(program.loop.module, code.repository)) | imported_modules(module, code.repository)
    for each in code.repository.modules:
        related = each in known or module in imported_modules(each, code.repository)
        if not related and any(_ops(function)[0] for function in each.functions):
            continue
        for function in each.functions:
            for call in function.calls:
                if _reads_averages(call, function) and not code.reach.why_not(call, each):
                    return True
            if any(
                isinstance(node, ast.Constant) and isinstance(node.value, str) and _names_averages(node, each)
                for node in function.nodes
            ):
                return True
    return False


def _reads_averages(call: ast.Call, function: Function) -> bool:
    if not isinstance(call.func, ast.Attribute) or function.module.resolved(call.func).startswith(NO_AVERAGES):
        return False
    if call.func.attr in ("variables_to_restore", "average_name"):
        return True
    return call.func.attr == "average" and not _of_losses(call)


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
                if not any(
                    isinstance(each.value, ast.Call)
                    and function.module.resolved(each.value.func) in ("tf.Variable", "tf.get_variable")
                    and not _of_each_variable(each.by, function)
                    for each in given
                ):
                    continue
                writes = [call for call in function.calls if _counts(call, name)]
                if writes and _read_in_an_update(function, name, writes):
                    yield Hit(
                        writes[0], function.module, f"{name} is counted beside the updates that read it, in no order"
                    )


def _of_each_variable(node: ast.AST, function: Function) -> bool:
    """Whether something is made in a loop: a slot of each variable is read by its own update alone."""
    return any(isinstance(each, ast.For | ast.While) for each in function.module.ancestors(node))


def _counts(call: ast.Call, name: str) -> bool:
    """Whether a call makes of a variable's value its next one."""
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("assign", "assign_add")
        and chain(call.func.value) == name
    ):
        return call.func.attr == "assign_add" or (bool(call.args) and _mentions(call.args[0], name))
    if chain(call.func) not in ("tf.assign", "tf.assign_add") or not call.args or chain(call.args[0]) != name:
        return False
    return chain(call.func) == "tf.assign_add" or (len(call.args) > 1 and _mentions(call.args[1], name))


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name | ast.Attribute) and chain(each) == name for each in ast.walk(node))


def _read_in_an_update(function: Function, name: str, writes: list[ast.Call]) -> bool:
    """Whether a counter is read in the function, and the function assigns to other variables too."""
    own = {id(each) for write in writes for each in function.module.inside(write)}
    reads = [
        node
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id == name and id(node) not in own and not _is_target(node, function)
    ]
    assigns = [
        call
        for call in function.calls
        if call not in writes
        and (
            function.module.resolved(call.func) in ("tf.assign", "tf.assign_add", "tf.assign_sub")
            or (isinstance(call.func, ast.Attribute) and call.func.attr in ("assign", "assign_add", "assign_sub"))
        )
    ]
    return bool(reads) and bool(assigns) and not _has_order(function)


def _is_target(node: ast.Name, function: Function) -> bool:
    holder = function.module.parents.get(node)
    return isinstance(holder, ast.Assign) and node in holder.targets


def _has_order(function: Function) -> bool:
    return any(chain(call.func).endswith("control_dependencies") for call in function.calls)


STATE_RULES = (
    Rule(
        "TP301",
        "statistics-of-all-towers",
        Severity.WARNING,
        "the moving statistics are updated by all towers, in no order",
        "`UPDATE_OPS` is taken without a scope: it has an update for each tower, of the same variables, in no "
        "order. A note where the source does not show that the towers' net puts any there. The decay is "
        "applied up to N times in a step, and which results stay is chance (five results in six runs, measured on "
        "four towers).",
        "Each rank has its own buffers, and DDP sends rank 0's to the others before each forward pass: those of the "
        "first shard count.",
        "`DistributedDataParallel(model, broadcast_buffers=True)`, and compare statistics with a recording's "
        "tolerance: no port "
        "repeats a race. `SyncBatchNorm` is another computation.",
        _all_towers,
        hazards=("unordered_statistics", "statistics_of_all_towers"),
        differs="Updates by a plain `assign` of a batch norm of the script's own are named by the "
        "recording whichever collection they are in; here only through `UPDATE_OPS`.",
    ),
    Rule(
        "TP302",
        "statistics-of-the-last-tower",
        Severity.WARNING,
        "the moving statistics are those of the last tower",
        "`UPDATE_OPS` of a tower's scope is bound to one name in each iteration: behind the loop it is the last "
        "tower's. A note where the source does not show that the towers' net puts any there.",
        "DDP's buffers are rank 0's: statistics of the first shard, not of the last.",
        "Give rank 0 the last shard, or send the buffers of the last rank: `dist.broadcast(buffer, src=world_size - "
        "1)`.",
        _last_tower,
        hazards=("statistics_of_another_tower",),
    ),
    Rule(
        "TP303",
        "statistics-never-updated",
        Severity.WARNING,
        "the moving statistics are never updated",
        "A batch norm leaves its updates in `UPDATE_OPS`, and nothing in this code runs them: evaluation normalises "
        "by the first values, mean 0 and variance 1. Where training is on wherever the norm is built, what evaluates "
        "normalises by its own batch: a note.",
        "`nn.BatchNorm2d` updates its statistics in each forward pass in training: evaluation is another.",
        "`nn.BatchNorm2d(channels, momentum=0.0)` keeps them as they are; most want them updated, and evaluate "
        "otherwise then.",
        _never,
        hazards=("statistics_not_updated",),
        differs="A library that the code calls may run them: a recording sees whether.",
    ),
    Rule(
        "TP304",
        "statistics-in-place",
        Severity.WARNING,
        "each tower updates the moving statistics in its forward pass",
        "`updates_collections=None` updates the statistics where the layer is computed, in each tower, of the same "
        "variables, in no "
        "order. A note where what it is given cannot be: a key that no caller's dictionary has.",
        "DDP's ranks update buffers of their own; rank 0's are sent to the others.",
        "`DistributedDataParallel(model, broadcast_buffers=True)`, and a recording's tolerance for the statistics.",
        _in_every_tower,
        hazards=("statistics_of_all_towers", "unordered_statistics"),
    ),
    Rule(
        "TP305",
        "average-without-order",
        Severity.WARNING,
        "the average of the weights is updated in no order with the weights",
        "`ExponentialMovingAverage.apply` and `apply_gradients` are in one `tf.group`: the average takes the "
        "weights before or after "
        "the update, by chance: before in most runs. A note where nothing reads the averages (`average()`, "
        "`variables_to_restore()`, `average_name()`, or their names).",
        "A port updates the average after `optimizer.step()`: one update later than most runs of the script.",
        "Update it after `optimizer.step()`, and expect its averages one step ahead of the script's.",
        _average,
        hazards=("unordered_average",),
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
    ),
    Rule(
        "TP307",
        "counter-races",
        Severity.NOTE,
        "a counter may be read before or after it is counted",
        "A hand-written update reads a variable that the same run assigns, without an order between them: powers of "
        "beta or a "
        "warm-up are those of this step or of the next, for each parameter by chance.",
        "A port counts in one place: it is the script's in one of the two orders.",
        "Count before or after all updates, as `parity replay` finds it nearer to the recording: it allows either.",
        _counters,
        decided=False,
        hazards=("ungated_state",),
        differs="Whether TensorFlow orders the two is decided by the graph, not by the source: the recording looks there.",
    ),
)
