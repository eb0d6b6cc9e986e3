"""Rules about the losses of towers: what is in them, how often decay counts, what is reported."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.loops import LOSS_WORDS
from parity.scan.inventory.losses import reported, returned
from parity.scan.inventory.one_tower import only_of_one_tower
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.gradients import divides_by_its_size, grows_with_the_gradient, is_plain_sum
from parity.scan.rules.rule import Hit, Rule, linked

WEIGHT_WORDS = re.compile(r"weight|kernel|filter|bias|param|embed|var|theta|(^|_)[wvb]\d*($|_|\b)", re.IGNORECASE)
MAKES_VARIABLES = re.compile(r"(^|\.)(get_variable|Variable|(trainable|model|global)_variables|\w*variable_\w*)$")
DECAY_WORDS = re.compile(r"REGULARIZATION_LOSSES|regularization_losses")


def _last(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use, name, which in reported(program):
            if which == "last":
                yield Hit(use.call, use.module, f"{name} is that of the tower that was built last")
        for node, module, name in returned(program):
            yield Hit(node, module, f"{name}, which is returned, is that of the tower that was built last")


def _summed_decay(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        if not is_plain_sum(program):
            continue
        for use in program.uses:
            unscoped = (
                use.last == "get_collection" and DECAY_WORDS.search(source_of(use.call)) and len(use.call.args) == 1
            )
            every = use.last in ("l2_loss", "get_regularization_losses") or unscoped
            of_weights = _is_of_weights(use, program) if use.last == "l2_loss" else True
            if not every or of_weights is False or not program.is_in_towers(use.call):
                continue
            if only_of_one_tower(use.call, program, use.module) is None:
                text = "each tower's loss has the weight decay, and their gradients are added up"
                text += "" if of_weights else ", if it is of weights"
                text += _why_it_may_not_matter(program)
                yield Hit(use.call, use.module, text, bool(of_weights) and grows_with_the_gradient(program) is True)
                if of_weights:
                    break


def _why_it_may_not_matter(program: Program) -> str:
    """Returns what to add where loss and decay, added up equally often, are not seen to make a larger step."""
    if divides_by_its_size(program):
        return "; the step does not grow with the gradient, and the loss is added up as often"
    grows = grows_with_the_gradient(program)
    return (
        ""
        if grows
        else "; the loss is added up as often, and whether the step grows with the gradient is not seen here"
    )


def _is_of_weights(use: Use, program: Program) -> bool | None:
    """Whether the norm that l2_loss takes is one of variables: False of a difference, as of data and an output."""
    given = use.argument("t", 0)
    if given is None:
        return None
    parts = list(program.repository.sources(given, use.module, 2))
    names = {use.module.resolved(part) for part in parts if isinstance(part, ast.Name | ast.Attribute)}
    if any(MAKES_VARIABLES.search(name) for name in names):
        return True
    if any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in parts):
        return False
    return True if WEIGHT_WORDS.search(source_of(given)) else None


def _scoped_decay(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        if _adds_itself(program) or not _regularises(program):
            continue
        for use in program.uses:
            if not program.is_in_towers(use.call):
                continue
            by_collection = use.last == "get_collection" and DECAY_WORDS.search(source_of(use.call))
            by_function = use.last == "get_regularization_losses"
            scope = use.argument("scope", 1 if by_collection else 0)
            if scope is not None and _matches_all_towers(scope, program, use.module):
                continue
            if (by_collection or by_function) and scope is not None and source_of(scope) != "None":
                text = f"{source_of(use.call)} holds what was made in the scope: nothing, or the first tower's alone"
                if _have_their_own(program):
                    text += ", where towers share variables; here they are made below a scope of each tower's own"
                    yield Hit(use.call, use.module, text, False)
                else:
                    yield Hit(use.call, use.module, text)


def _matches_all_towers(scope: ast.expr, program: Program, module: Module) -> bool:
    """Whether a scope is an expression that begins with any text: names of all towers match it."""
    texts = [each.value for each in program.repository.sources(scope, module, 2) if isinstance(each, ast.Constant)]
    return len(texts) == 1 and isinstance(texts[0], str) and texts[0].lstrip("^(").startswith((".*", ".+"))


def _have_their_own(program: Program) -> bool:
    """Whether each tower makes its variables in a `variable_scope` that is named after it, which nothing reuses."""
    loop = program.loop
    scopes = [
        use
        for part in loop.body
        for node in loop.module.inside(part)
        if isinstance(node, ast.Call)
        for use in [Use(node, loop.module, loop.module.resolved(node.func))]
        if use.last == "variable_scope"
    ]
    return any(
        use.argument("reuse") is None
        and (given := use.argument("name_or_scope", 0)) is not None
        and isinstance(given, ast.BinOp | ast.Call | ast.JoinedStr)
        and loop.depends(given)
        for use in scopes
    )


def _regularises(program: Program) -> bool:
    """Whether anything that a program imports is given a regulariser: without, the collection is empty in any scope."""
    imported = imported_modules(program.loop.module, program.repository)
    return any("regularizer" in line for module in imported for line in module.lines)


def _adds_itself(program: Program) -> bool:
    """Whether the script puts losses into the collection by its own code, in each tower."""
    modules = dict.fromkeys(function.module for function in [*program.linked, *program.functions])
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("add_to_collection", "add_to_collections", "add_loss")
        and DECAY_WORDS.search(source_of(call, 200))
        for module in modules
        for function in module.functions
        for call in function.calls
    )


def _decay_of_one(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        combiner = program.combiner
        if combiner is None or combiner.kind not in ("mean", "mean of the losses"):
            continue
        for use in program.uses:
            decay = use.last in ("l2_loss", "get_regularization_losses") or (
                use.last == "get_collection" and DECAY_WORDS.search(source_of(use.call))
            )
            if use.last == "l2_loss" and _is_of_weights(use, program) is False:
                continue
            if decay and program.is_in_towers(use.call) and not _is_divided_before(use, program):
                chosen = only_of_one_tower(use.call, program, use.module)
                if chosen is not None:
                    yield Hit(*chosen, "one tower's loss has the weight decay, and the mean over all towers is taken")


def _is_divided_before(use: Use, program: Program) -> bool:
    """Whether what is divided is each tower's loss before the decay is added, and gradients are added up: it counts once."""
    divides = program.combiner.divides if program.combiner is not None else None
    if divides is None or not program.is_in_towers(divides):
        return False
    function = use.module.within.get(use.call)
    return program.repository.homes.get(divides) is function and divides.lineno < use.call.lineno  # type: ignore[attr-defined]


def _vector(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in linked(program):
            for node in function.nodes:
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                    for side, other in ((node.left, node.right), (node.right, node.left)):
                        if _is_collection(side, function) and _is_loss(node, other, function):
                            text = f"{source_of(node)} adds a list to a loss: it is a vector with a term for each entry"
                            yield Hit(node, function.module, text)


def _is_collection(node: ast.expr, function: Function) -> bool:
    if isinstance(node, ast.Call):
        return function.module.resolved(node.func).rpartition(".")[2] in ("get_collection", "get_regularization_losses")
    if isinstance(node, ast.Name):
        given = function.assigned.get(node.id, [])
        return bool(given) and all(
            each.how == "="
            and each.place is None
            and isinstance(each.value, ast.Call)
            and _is_collection(each.value, function)
            for each in given
        )
    return False


def _is_loss(node: ast.BinOp, other: ast.expr, function: Function) -> bool:
    """Whether a sum is one of a loss and a list: not one of two lists, nor one inside of what adds lists up."""
    if _is_list(other, function):
        return False
    for each in list(function.module.ancestors(node))[:4]:
        if isinstance(each, ast.Call):
            # add_n and reduce_sum take lists.
            return False
        if isinstance(each, ast.Assign):
            added = any(
                chain(call.func).rpartition(".")[2] in ("add_n", "accumulate_n", "reduce_sum")
                and source_of(each.targets[0]) == source_of(call.args[0] if call.args else None)
                for call in function.calls
            )
            return not added and bool(LOSS_WORDS.search(source_of(each, 300)))
    return bool(LOSS_WORDS.search(source_of(other)))


def _is_list(node: ast.expr, function: Function) -> bool:
    if isinstance(node, ast.List | ast.ListComp | ast.Tuple) or _is_collection(node, function):
        return True
    if isinstance(node, ast.Call):
        name = chain(node.func)
        return name in ("list", "tuple", "sorted") or bool(re.search(r"get_\w*loss(es)?$|get_collection", name))
    if isinstance(node, ast.BinOp):
        return _is_list(node.left, function) or _is_list(node.right, function)
    if isinstance(node, ast.Name):
        given = function.assigned.get(node.id, [])
        return any(
            _is_list(each.value, function)
            for each in given
            if each.value is not node and each.how == "=" and not isinstance(each.value, ast.BinOp | ast.Name)
        )
    return False


def _own_count(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        combiner = program.combiner
        if combiner is None or not combiner.kind.startswith("mean"):
            continue
        for node, module in program.loop.region:
            if _divides_by_sum(node, module, program) and LOSS_WORDS.search(_around(node, module)):
                text = f"{source_of(node)} divides by a count of the tower's own examples, and towers are averaged"
                yield Hit(node, module, text)


def _around(node: ast.AST, module: Module) -> str:
    text = source_of(node, 300)
    for each in list(module.ancestors(node))[:3]:
        if isinstance(each, ast.Assign | ast.Return):
            text += source_of(each, 300)
    function = module.within.get(node)
    return text + (function.name if function else "")


def _divides_by_sum(node: ast.AST, module: Module, program: Program) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        below = node.right
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        if module.resolved(node.func) not in ("tf.div", "tf.truediv", "tf.divide", "tf.div_no_nan", "tf.realdiv"):
            return False
        below = node.args[1]
    else:
        return False
    sources = [below]
    if isinstance(below, ast.Name):
        sources += [each.value for each in program.repository.assigned(below.id, module.within.get(node))]
    words = re.compile(r"mask|weight|valid|pos|length|pad|token|count|num_", re.IGNORECASE)
    return any(
        isinstance(part, ast.Call)
        and module.resolved(part.func) in ("tf.reduce_sum", "tf.count_nonzero")
        and words.search(source_of(part))
        for each in sources
        for part in module.inside(each)
    )


def _uses_regularizer(code: Code) -> Iterator[Hit]:
    """Regularisers whose losses are in a collection that nothing reads."""
    text = "\n".join(line for module in code.repository.modules for line in module.lines)
    if re.search(
        r"REGULARIZATION_LOSSES|get_regularization_loss|get_total_loss|create_clones|regularization_losses", text
    ):
        return
    for program in code.programs:
        for use in program.linked_uses:
            for key in ("regularizer", "weights_regularizer", "kernel_regularizer"):
                given = use.argument(key)
                if given is None or not use.name.startswith(("slim.", "tf.")):
                    continue
                if isinstance(given, ast.Call) and use.module.resolved(given.func).endswith("_regularizer"):
                    yield Hit(
                        given, use.module, f"{source_of(given)} leaves its loss in a collection that nothing here reads"
                    )


LOSS_RULES = (
    Rule(
        "TP401",
        "loss-of-one-tower",
        Severity.NOTE,
        "the loss that is reported is that of one tower",
        "A name that is bound in the loop is fetched behind it: it is the loss of the tower that was built last, on "
        "its shard.",
        "What rank 0 prints is the loss of its shard; neither is the loss of the batch.",
        "`dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)` to log the mean; compare logs with the recording, "
        "not the script's.",
        _last,
        hazards=("last_towers_loss",),
        only_recorded="A loss that is fetched for something else than a report, by a hook or in another function, is seen "
        "by the recording only.",
    ),
    Rule(
        "TP402",
        "decay-counted-per-tower",
        Severity.WARNING,
        "the weight decay counts once for each tower",
        "Each tower's loss has the decay, and gradients are added up: it is as many times what its coefficient says "
        "as there are "
        "towers. A note where what `l2_loss` is given is not seen to be weights; of a difference it is no decay. A note "
        "too where the optimizers that are seen are not all SGD, momentum and their like: loss and decay are added up as "
        "often, and the step of Adam is the same.",
        "DDP averages: a decay in each rank's loss counts once.",
        "Multiply the coefficient by the number of towers, or each rank's whole loss by the world size.",
        _summed_decay,
        hazards=("decay_counted",),
    ),
    Rule(
        "TP403",
        "decay-of-a-scope",
        Severity.WARNING,
        "the weight decay is looked for in the tower's scope",
        "Regularisation losses of a scope are those whose ops were made in it. With "
        "`tf.get_variable(regularizer=...)` they are made "
        "once and outside of any tower: every tower has none. With slim and `tf.layers` the first tower has them, "
        "the others none: "
        "under a mean the decay is divided by the number of towers (measured on 1.15). A note where each tower makes "
        "variables of its own, in a `variable_scope` named after it: each then has its whole decay. A scope such as `.*net` "
        "matches in all towers.",
        "A decay in each rank's loss counts once: more than the script's.",
        "Divide the coefficient by the number of towers, or leave the decay out: `parity record` says how often it "
        "counts.",
        _scoped_decay,
        hazards=("decay_counted", "regularisation_lost"),
        only_found="Losses that the script itself collects in each tower are in the scope: the recording counts them.",
    ),
    Rule(
        "TP404",
        "decay-of-one-tower",
        Severity.WARNING,
        "one tower has the weight decay, and the mean is taken",
        "The decay is added for one tower only (below a test of its number, or by a flag that one tower is given, as in "
        "`get_loss(include_wd=i == n - 1)`), and gradients or losses are averaged: it is divided by the number of towers.",
        "A decay in each rank's loss, or as `weight_decay`, counts once: as many times what the script has as there are "
        "towers.",
        "Divide the coefficient by the number of towers.",
        _decay_of_one,
        hazards=("decay_counted",),
    ),
    Rule(
        "TP405",
        "loss-is-a-vector",
        Severity.WARNING,
        "the loss is a vector",
        "A list is added to a scalar: TensorFlow makes a vector of the list and adds the scalar to each entry. The "
        "gradient is that "
        "of the sum: the scalar counts once for each entry (66 instead of 3, measured on 22 entries).",
        "`backward()` refuses a vector.",
        "`loss = len(terms) * cross_entropy + sum(terms)` is what the script differentiates; most meant "
        "`cross_entropy + sum(terms)`.",
        _vector,
        hazards=("loss_is_no_scalar",),
        for_one_tower=True,
    ),
    Rule(
        "TP406",
        "normalised-per-tower",
        Severity.NOTE,
        "each tower divides by its own count, and towers are averaged",
        "The loss is divided by what the tower counts itself (tokens, valid pixels, weights), and the mean over "
        "towers is taken: "
        "an example counts more in a tower that has fewer.",
        "DDP does the same with ranks, where shards are the same ones: with others the weights of examples differ.",
        "The same division on each rank, and the script's shards; for the mean over all examples, `all_reduce` the "
        "count.",
        _own_count,
    ),
    Rule(
        "TP407",
        "regularisation-not-in-the-loss",
        Severity.WARNING,
        "a regulariser's loss is in no loss",
        "Layers are given a regulariser; its loss goes to a collection that nothing in this code reads. There is no "
        "weight decay.",
        "A port with the coefficient as `weight_decay` decays where the script does not.",
        "No weight decay.",
        _uses_regularizer,
        hazards=("regularisation_lost",),
        only_found="A library that the code calls may read the collection: a recording sees whether.",
        for_one_tower=True,
    ),
)
