"""Rules about batch norms: who updates their moving statistics, how often, and whether anybody does."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.facts import scoped, update_ops
from parity.scan.inventory.norms import default_of, is_read_early, norms_of_towers, updates_of_towers
from parity.scan.inventory.one_tower import of_first_tower
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.inventory.sharing import shares_what_is_made
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import CALLERS, Hit, Rule, linked, statement_of

NORMS = frozenset(["batch_norm", "batch_normalization", "BatchNormalization", "fused_batch_norm"])
NORM_LAYERS = frozenset(
    ["slim.batch_norm", "tf.contrib.layers.batch_norm", "tf.layers.batch_normalization", "tf.layers.BatchNormalization"]
)
FLAG_DEPTH = 8  # names for names, and calls of calls, that a training flag is followed through
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
        puts = updates_of_towers(program, code.reach) if uses else False
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
            idle = unread(use, code) or _of_each_tower(program)
            yield Hit(use.call, use.module, f"{text}; {idle}" if idle else text, puts is True and not idle)


def _of_each_tower(program: Program) -> str:
    """Returns that each tower has statistics of its own, where no batch norm in the towers shares its variables; else ""."""
    norms = [norm for norm in norms_of_towers(program) if norm.puts is not False]
    calls = [isinstance(norm.node, ast.Call) and norm.puts is True for norm in norms]
    if not norms or not all(calls) or any(shares_what_is_made(norm.node, norm.module, program) for norm in norms):
        return ""
    return "no scope that is used again is around the batch norms: each tower has statistics of its own"


def unread(use: Use, code: Code) -> str:
    """Returns why nothing that runs reads the name that a call's value is given, "" where something may."""
    statement = statement_of(use.call, use.module)
    if not isinstance(statement, ast.Assign) or statement.value is not use.call or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        function = use.module.within.get(use.call)
        modules, name = [use.module] if function and function.name else code.repository.modules, target.id
    elif isinstance(target, ast.Attribute) and chain(target.value) == "self":
        modules, name = code.repository.modules, target.attr
    else:
        return ""
    reads = [
        (node, module)
        for module in modules
        for function in module.functions
        for node in function.nodes
        if node is not target and name == (getattr(node, "attr", "") or getattr(node, "id", ""))
    ]
    reasons = [code.reach.why_not(node, module) for node, module in reads]
    if not all(reasons):
        return ""
    return (
        f"what reads {source_of(target)} does not run: {reasons[0]}"
        if reasons
        else f"nothing reads {source_of(target)}"
    )


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
        puts = updates_of_towers(program, code.reach) if uses else False
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
        for use in program.uses:
            if use.name == "tf.layers.batch_normalization" and program.is_in_towers(use.call) and _not_given(use):
                text = "a batch norm that is not told whether it trains does not: it normalises by what nothing moves"
                yield Hit(use.call, use.module, text, False)
        modules = dict.fromkeys(function.module for function in [*program.linked, *program.functions])
        text = "\n".join(line for module in modules for line in module.lines)
        if any(word in text for word in RUN_UPDATES):
            continue
        for use in program.uses:
            if use.name in NORM_LAYERS and program.is_in_towers(use.call) and not _in_place(use) and _may_train(use):
                text = "a batch norm whose updates are in UPDATE_OPS, which nothing here runs"
                decided = _reads_statistics(use, program) and not _always_trains(use, program)
                if not decided:
                    text += "; nothing here normalises by the moving statistics either"
                yield Hit(use.call, use.module, text, decided)


def _not_given(use: Use) -> bool:
    return use.argument("training", 14) is None and not any(key.arg is None for key in use.call.keywords)


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


def _always_trains(use: Use, program: Program) -> bool:
    """Whether a batch norm is given True as its training flag by all that the source has of it."""
    training = use.argument("is_training") or use.argument("training")
    return training is not None and _is_always_true(training, use.module, program, FLAG_DEPTH)


def _is_always_true(node: ast.expr, module: Module, program: Program, depth: int) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is True
    if isinstance(node, ast.Call):
        made = module.resolved(node.func) in ("tf.constant", "tf.convert_to_tensor", "tf.cast", "bool") and bool(
            node.args
        )
        return made and _is_always_true(node.args[0], module, program, depth)
    if not isinstance(node, ast.Name | ast.Attribute) or not depth:
        return False
    function = module.within.get(node)
    given = program.repository.assigned(chain(node), function)
    if given:
        return all(
            each.how == "=" and each.place is None and _is_always_true(each.value, module, program, depth - 1)
            for each in given
        )
    while function is not None and chain(node) not in function.parameters:
        function = function.outer
    return function is not None and _is_given_true(chain(node), function, program, depth - 1)


def _is_given_true(name: str, function: Function, program: Program, depth: int) -> bool:
    """Whether all calls give a parameter True, by its default where they give none."""
    repository = program.repository
    called = function.owner if function.name == "__init__" else function.name
    places = function.parameters[1:] if function.owner else function.parameters
    default = default_of(name, function)
    values = []
    for call, module in repository.calls_of(called):
        if function in repository.callees(call, module) and repository.homes[call] is not function:
            place = places.index(name) if name in places else None
            values.append((Use(call, module, "").argument(name, place) or default, module))
    return bool(values) and all(
        value is not None
        and _is_always_true(value, module if value is not default else function.module, program, depth)
        for value, module in values
    )


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


NORM_RULES = (
    Rule(
        "TP301",
        "statistics-of-all-towers",
        Severity.WARNING,
        "the moving statistics are updated by all towers, in no order",
        "`UPDATE_OPS` is taken without a scope: it has an update for each tower, of the same variables, in no "
        "order. A note where the source does not show that the towers' net puts any there, where nothing that runs "
        "reads them, or where no scope that is used again is around the batch norms: each tower then has statistics of its "
        "own. The decay is "
        "applied up to N times in a step, and which results stay is chance (five results in six runs, measured on "
        "four towers). Nothing is said where all that is put there is put beside the towers, once.",
        "Each rank has its own buffers, and DDP sends rank 0's to the others before each forward pass: those of the "
        "first shard count.",
        "`DistributedDataParallel(model, broadcast_buffers=True)`, and compare statistics with a recording's "
        "tolerance: no port "
        "repeats a race. `SyncBatchNorm` is another computation.",
        _all_towers,
        hazards=("unordered_statistics", "statistics_of_all_towers"),
        only_found="Where an option chooses one of several nets, this speaks of those that have batch norms, and a "
        "recording of the one that was run.",
        only_recorded="Updates by a plain `assign` of a batch norm of the script's own are named by the recording whichever "
        "collection they are in; here only through `UPDATE_OPS`.",
    ),
    Rule(
        "TP302",
        "statistics-of-the-last-tower",
        Severity.WARNING,
        "the moving statistics are those of the last tower",
        "`UPDATE_OPS` of a tower's scope is bound to one name in each iteration: behind the loop it is the last "
        "tower's. A note where the source does not show that the towers' net puts any there, or constants choose a "
        "net without.",
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
        "by the first values, mean 0 and variance 1. Where training is on wherever the norm is built, by a constant or by a "
        "parameter that all calls give True, what evaluates normalises by its own batch: a note. A note too where "
        "`tf.layers.batch_normalization` is not given `training`, which is False: towers normalise by the first values as "
        "well, or by those of a checkpoint.",
        "`nn.BatchNorm2d` updates its statistics in each forward pass in training: evaluation is another.",
        "`nn.BatchNorm2d(channels, momentum=0.0)` keeps them as they are; most want them updated, and evaluate "
        "otherwise then.",
        _never,
        hazards=("statistics_not_updated",),
        only_found="A library that the code calls may run them: a recording sees whether.",
        only_recorded="It names all that has an axis, is not trainable and not written by training: also the "
        "statistics of a batch norm that is frozen on purpose, and a scale that is switched off.",
        for_one_tower=True,
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
)
