"""What is known of a place where towers are built: a function for each thing, each with the line that says so."""

import ast
import re
from collections.abc import Callable, Collection, Iterator

from parity.scan.inventory.count import count_of, flags_in
from parity.scan.inventory.loops import LOSS_WORDS, SCOPE_WORDS
from parity.scan.inventory.losses import reported
from parity.scan.inventory.one_tower import only_of_one_tower
from parity.scan.inventory.program import Program, Use
from parity.scan.model.module import Module
from parity.scan.model.names import chain
from parity.scan.model.places import place_of
from parity.scan.model.repository import Repository, source_of
from parity.scan.result import Fact

OPTIMIZER_NAME = re.compile(r"(^|\.)(\w*Optimizer|Adam|SGD|RMSprop|Adagrad|Adadelta|AdamWeightDecay\w*)$")
NO_OPTIMIZERS = frozenset(["SyncReplicasOptimizer", "DistributedOptimizer", "TowerOptimizer", "CrossShardOptimizer"])
SCHEDULES = frozenset(
    [
        "exponential_decay",
        "piecewise_constant",
        "polynomial_decay",
        "natural_exp_decay",
        "inverse_time_decay",
        "cosine_decay",
        "noam_decay",
        "cosine_decay_restarts",
        "linear_cosine_decay",
        "piecewise_constant_decay",
    ]
)
CLIPS = frozenset(
    ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "clip_gradient_norms", "clip_by_average_norm"]
)
INPUTS = {
    "make_one_shot_iterator": "tf.data",
    "make_initializable_iterator": "tf.data",
    "get_next": "tf.data",
    "dequeue": "a queue",
    "dequeue_many": "a queue",
    "shuffle_batch": "queue runners",
    "batch_join": "queue runners",
    "shuffle_batch_join": "queue runners",
    "prefetch_queue": "a queue of slim",
    "placeholder": "placeholders",
    "py_func": "a Python function in the graph",
}
SAVERS = {
    "Saver": "tf.train.Saver",
    "MonitoredTrainingSession": "MonitoredTrainingSession",
    "Supervisor": "tf.train.Supervisor",
    "CheckpointSaverHook": "CheckpointSaverHook",
    "savez": "numpy",
}
Look = Callable[[Program], Iterator[Fact]]


def facts_of(program: Program) -> tuple[Fact, ...]:
    """Returns what is known of a loop that trains, in the order of a report."""
    return tuple(fact for look in LOOKS for fact in look(program))


def _number(program: Program) -> Iterator[Fact]:
    node, module = count_of(program), program.loop.module
    text = source_of(node)
    known = [
        each.value
        for each in program.repository.sources(node, module, 2)
        if isinstance(each, ast.Constant) and isinstance(each.value, int) and not isinstance(each.value, bool)
    ]
    value = f"{text} = {known[0]}" if known and not isinstance(node, ast.Constant) and len(known) == 1 else text
    yield Fact("towers", value, place_of(program.loop.loop.iter, module))
    for flag in flags_in(node, module, program.repository)[:2]:
        default = f", by default {flag.default}" if flag.default else ""
        yield Fact("flag", f"{'' if flag.positional else '--'}{flag.name}{default}", place_of(flag.call, flag.module))


def shard_of(program: Program) -> tuple[str, ast.AST] | None:
    """Returns how the batch is cut, and where; None where nothing in the loop shows it."""
    loop, repository = program.loop, program.repository
    own = [each for part in loop.body for each in loop.module.inside(part)]
    waiting: list[ast.AST] = [loop.loop.iter, *own]
    for each in waiting:
        if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Slice) and loop.depends(each.slice):
            return f"slices, {source_of(each)}", each
    for each in waiting:
        if isinstance(each, ast.Call):
            name = loop.module.resolved(each.func).rpartition(".")[2]
            if name in ("get_next", "dequeue", "dequeue_many", "next_batch", "make_one_shot_iterator"):
                return f"each tower takes a batch of its own: {source_of(each)}", each
            if name == "slice" and any(loop.depends(arg) for arg in each.args):
                return f"slices, {source_of(each)}", each
            if name in ("placeholder", "placeholder_with_default"):
                return f"placeholders of each tower: {source_of(each)}", each
    for each in [
        loop.loop.iter,
        *(node for node in own if isinstance(node, ast.Subscript) and loop.depends(node.slice)),
    ]:
        for part in repository.sources(each, loop.module, 4):
            if isinstance(part, ast.Call) and _cuts(part):
                return f"tf.split, {source_of(part)}", part
    for each in own:
        if isinstance(each, ast.Subscript) and loop.depends(each.slice):
            return f"a list with an entry for each tower: {source_of(each)}", each
    for node, module in loop.region:
        if isinstance(node, ast.Call):
            name = module.resolved(node.func).rpartition(".")[2]
            if name in ("get_next", "dequeue", "dequeue_many", "batch", "shuffle_batch", "batch_join"):
                return f"each tower takes a batch of its own: {source_of(node)}", node
            if name == "placeholder":
                return f"placeholders of each tower: {source_of(node)}", node
    names = names_of_target(loop.loop.target)
    if len(names) > 1:
        return f"what the loop goes over: {source_of(loop.loop.iter)}", loop.loop.iter
    return None


def _cuts(call: ast.Call) -> bool:
    """Whether a call cuts a tensor or an array into parts: `"0,1".split(",")` cuts a text."""
    if chain(call.func).rpartition(".")[2] not in ("split", "split_v", "unstack"):
        return False
    given = [*call.args, *(key.value for key in call.keywords)]
    return not all(isinstance(each, ast.Constant) and isinstance(each.value, str | None) for each in given)


def names_of_target(target: ast.expr) -> list[str]:
    """Returns the names that a loop binds."""
    return [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]


def _shards(program: Program) -> Iterator[Fact]:
    cut = shard_of(program)
    if cut is not None:
        yield _fact("batch", cut[0], cut[1], program)
    else:
        yield Fact("batch", "not decided from the source: record it")


def _fact(what: str, value: str, node: ast.AST, program: Program) -> Fact:
    function = program.repository.homes.get(node)
    return Fact(what, value, place_of(node, function.module if function else program.loop.module))


def _sharing(program: Program) -> Iterator[Fact]:
    for use in program.uses:
        if not program.is_in_towers(use.call):
            continue
        reuse = use.argument("reuse")
        if use.last == "reuse_variables":
            yield Fact("variables", "shared by reuse_variables()", place_of(use.call, use.module))
            return
        if use.last == "variable_scope" and reuse is not None:
            yield Fact(
                "variables", f"shared by variable_scope(reuse={source_of(reuse)})", place_of(use.call, use.module)
            )
            return
        if use.last == "make_template":
            yield Fact("variables", "shared by make_template", place_of(use.call, use.module))
            return
    for use in program.used(".reuse_variables", ".make_template", "tf.variable_scope"):
        if use.last != "variable_scope" or use.argument("reuse") is not None:
            yield Fact("variables", f"shared by {source_of(use.call)}", place_of(use.call, use.module))
            return


def _placement(program: Program) -> Iterator[Fact]:
    for use in program.uses:
        if use.last == "device" and use.call.args:
            text = source_of(use.call.args[0])
            if "cpu" in text.lower() and program.is_in_towers(use.call):
                yield Fact("placement", f"variables on the CPU: {source_of(use.call)}", place_of(use.call, use.module))
                return
        if use.last == "arg_scope" and use.argument("device") is not None:
            yield Fact("placement", f"by slim: {source_of(use.call)}", place_of(use.call, use.module))
            return
        if use.last in ("replica_device_setter", "GreedyLoadBalancingStrategy", "local_device_setter"):
            yield Fact("placement", f"by {use.last}", place_of(use.call, use.module))
            return
    device = program.loop.device
    if device is not None and program.loop.device_module is not None:
        text = source_of(device.args[0])
        yield Fact(
            "placement", f"where the first tower makes them: {text}", place_of(device, program.loop.device_module)
        )


def _combination(program: Program) -> Iterator[Fact]:
    combiner = program.combiner
    if combiner is None or not combiner.kind:
        yield Fact("combination", "not decided from the source: record it")
        return
    place = place_of(combiner.node, combiner.module)
    where = f" in {combiner.function.name}()" if combiner.function.name else ""
    yield Fact("combination", f"{combiner.kind}{where}", place)
    if combiner.sparse is not None:
        value = "concatenated and divided" if combiner.sparse_divides else "concatenated, not divided"
        yield _fact("sparse gradients", value, combiner.sparse, program)
    words = {
        "crash": "not looked for: a variable without a gradient ends the program",
        "any": "left out of the mean",
        "before": "left out of the mean, with those of the towers behind",
        "ends": "the loop over towers ends at the first: record what follows",
        "first": "as the first tower has it",
        "zeros": "become zeros",
    }
    if combiner.none in words and combiner.none_node is not None:
        yield _fact("missing gradients", words[combiner.none], combiner.none_node, program)


def clips(program: Program) -> Iterator[tuple[Use, bool]]:
    """Yields the calls that clip gradients, and whether each tower does so before its gradients are combined."""
    for use in program.uses:
        if use.last in CLIPS and is_of_gradients(use, program.repository):
            yield use, program.is_in_towers(use.call)


def is_of_gradients(use: Use, repository: Repository) -> bool:
    """Whether a call that clips is given gradients, by the names around it, or around what calls its function."""
    function = use.module.within.get(use.call)
    clipped = source_of(use.call.args[0] if use.call.args else None, 300)
    if LOSS_WORDS.search(clipped) and not re.search(r"grad|(^|\W)gv?(\W|$)", clipped, re.IGNORECASE):
        return False
    if _says_gradients(use.call, use.module) or (function and "grad" in function.name.lower()):
        return True
    # A function that clips says not yet what: images too are clipped by one.
    calls = repository.calls_of(function.name) if function and re.search("clip", function.name, re.IGNORECASE) else ()
    return any(_says_gradients(call, module) for call, module in calls)


def _says_gradients(call: ast.Call, module: Module) -> bool:
    # Of a block its statements say nothing of each other.
    nearby = [each for each in [call, *list(module.ancestors(call))[:3]] if not _is_block(each)]
    given = {part.id for each in call.args for part in module.inside(each) if isinstance(part, ast.Name)}
    text = " ".join(source_of(_iterated(each, given) if isinstance(each, ast.For) else each, 300) for each in nearby)
    return bool(re.search(r"grad|(^|\W)g(v|_|\W)|capped", text.replace("stop_gradient", ""), re.IGNORECASE))


def _iterated(loop: ast.For, names: Collection[str]) -> ast.AST | None:
    """What a loop takes some names from: of a zip the one list, None where it gives none of them."""
    parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    zipped = isinstance(loop.iter, ast.Call) and chain(loop.iter.func) == "zip" and len(loop.iter.args) == len(parts)
    given = loop.iter.args if zipped and isinstance(loop.iter, ast.Call) else [loop.iter] * len(parts)
    for part, each in zip(parts, given, strict=True):
        if any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(part)):
            return each
    return None


def _is_block(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module | ast.With | ast.If | ast.While | ast.Try)


def _clipping(program: Program) -> Iterator[Fact]:
    for use, before in clips(program):
        when = "in every tower, before combining" if before else "after combining"
        yield Fact("clipping", f"{use.last} {when}: {source_of(use.call)}", place_of(use.call, use.module))


def optimizers(program: Program) -> list[Use]:
    """Returns the calls that make optimizers."""
    uses = [use for use in program.uses if OPTIMIZER_NAME.search(use.name) and use.last not in NO_OPTIMIZERS]
    # By a class of the program's own too; a method that is called so is none.
    return [use for use in uses if not use.name.startswith(("self.", "cls.")) or use.last[:1].isupper()]


def _optimizers(program: Program) -> Iterator[Fact]:
    for use in optimizers(program):
        yield Fact("optimizer", source_of(use.call, 120), place_of(use.call, use.module))


def _schedules(program: Program) -> Iterator[Fact]:
    for use in program.uses:
        if use.last in SCHEDULES:
            yield Fact("schedule", source_of(use.call, 120), place_of(use.call, use.module))


def _decay(program: Program) -> Iterator[Fact]:
    for use in program.uses:
        if use.last == "l2_loss":
            yield Fact("weight decay", f"tf.nn.l2_loss{_whose(use, program)}", place_of(use.call, use.module))
            return
    for use in program.uses:
        if use.last in ("l2_regularizer", "l1_regularizer", "l1_l2_regularizer", "get_regularization_losses"):
            yield Fact("weight decay", f"{use.last}{_whose(use, program)}", place_of(use.call, use.module))
            return
        if use.last == "get_collection" and "REGULARIZATION_LOSSES" in source_of(use.call):
            value = f"{source_of(use.call)}{_whose(use, program)}"
            yield Fact("weight decay", value, place_of(use.call, use.module))
            return


def _whose(use: Use, program: Program) -> str:
    if not program.is_in_towers(use.call):
        return ""
    chosen = only_of_one_tower(use.call, program, use.module)
    if chosen is None:
        return " in every tower"
    return f" in one tower only, line {getattr(chosen[0], 'lineno', 0)} of {chosen[1].path.name}"


def update_ops(program: Program) -> list[Use]:
    """Returns the calls that take the ops that update moving statistics."""
    return [
        use
        for use in program.uses
        if use.last in ("get_collection", "get_collection_ref")
        and re.search(r"update_ops|_UPDATE_", source_of(use.call), re.IGNORECASE)
    ]


def _statistics(program: Program) -> Iterator[Fact]:
    for use in update_ops(program):
        where = "in the loop" if program.is_in_towers(use.call) else "outside of the loop"
        scope = ", of one scope" if scoped(use) else ", of all towers"
        value = f"{source_of(use.call)} {where}{scope}"
        yield Fact("moving statistics", value, place_of(use.call, use.module))


def scoped(use: Use) -> bool:
    """Whether a collection is taken of one scope only."""
    scope = use.argument("scope", 1)
    return scope is not None and not (isinstance(scope, ast.Constant) and scope.value is None)


def _averages(program: Program) -> Iterator[Fact]:
    for use in program.used(".ExponentialMovingAverage"):
        yield Fact("moving averages", source_of(use.call), place_of(use.call, use.module))


def _losses(program: Program) -> Iterator[Fact]:
    words = {"last": "of the last tower", "list": "of each tower"}
    for use, name, which in reported(program):
        yield Fact("loss reported", f"{name}, {words[which]}", place_of(use.call, use.module))
        return


def _first_of(program: Program, known: dict[str, str], what: str) -> Iterator[Fact]:
    seen = set()
    for use in program.uses:
        if use.last in known and known[use.last] not in seen:
            seen.add(known[use.last])
            yield Fact(what, known[use.last], place_of(use.call, use.module))


def _checkpoints(program: Program) -> Iterator[Fact]:
    yield from _first_of(program, SAVERS, "checkpoints")


def _inputs(program: Program) -> Iterator[Fact]:
    yield from _first_of(program, INPUTS, "input")


def scope_name(program: Program) -> str:
    """Returns the name of a tower's scope as the source has it, "" where it has none."""
    for use in program.uses:
        if use.last == "name_scope" and use.call.args and SCOPE_WORDS.search(source_of(use.call.args[0])):
            return source_of(use.call.args[0])
    return ""


LOOKS: tuple[Look, ...] = (
    _number,
    _shards,
    _sharing,
    _placement,
    _combination,
    _clipping,
    _optimizers,
    _schedules,
    _decay,
    _statistics,
    _averages,
    _losses,
    _checkpoints,
    _inputs,
)
