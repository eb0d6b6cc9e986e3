"""Rules about the gradients of towers: how they are combined, and where they are changed."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.combination import SUMMARY, Combiner, divides_by_count, is_of_a_vector, vectors_of
from parity.scan.inventory.facts import OPTIMIZER_NAME, clips, optimizers
from parity.scan.inventory.loops import LOSS_WORDS
from parity.scan.inventory.losses import divides_by_towers, scales_losses
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.custom_gradients import replaced_gradients
from parity.scan.rules.rule import Hit, Rule, linked

# Their step is proportional to the gradient.
STEP_GROWS = frozenset(
    [
        "GradientDescentOptimizer",
        "MomentumOptimizer",
        "ProximalGradientDescentOptimizer",
        "MomentumWOptimizer",
        "SGD",
    ]
)
# They divide by the size of what they are given: a larger gradient is the same step, but for epsilon or first values.
STEP_DOES_NOT_GROW = re.compile(r"ada|rms|powersign|addsign|lars|lamb", re.IGNORECASE)
# They hand gradients on to the one that they are given.
AROUND_OPTIMIZERS = frozenset(["MovingAverageOptimizer", "LossScaleOptimizer", "MultitaskOptimizerWrapper"])
SOME_GROW = (
    ": the step is larger with those of its optimizers that grow with the gradient, which one is taken is not said"
)


def applied_optimizers(program: Program) -> list[Use]:
    """Returns what makes the optimizers that a program's gradients go to, else all that it makes, else its own updates."""
    uses = [use for use in [*_of_what_applies(program)] or optimizers(program) if use.last not in AROUND_OPTIMIZERS]
    own = [use for use in program.linked_uses if use.last.endswith("_updates") and STEP_DOES_NOT_GROW.search(use.last)]
    return uses or own


def _of_what_applies(program: Program) -> Iterator[Use]:
    """Yields what makes the objects whose apply_gradients() is called, also in functions that give one back."""
    repository = program.repository
    for use in program.linked_uses:
        if use.last not in ("apply_gradients", "minimize") or not isinstance(use.call.func, ast.Attribute):
            continue
        for part in repository.sources(use.call.func.value, use.module, 3):
            if not isinstance(part, ast.Call):
                continue
            makers = [(part, use.module)]
            for callee in repository.callees(part, use.module):
                makers += [(call, callee.module) for call in callee.calls]
            for call, module in makers:
                name = module.resolved(call.func)
                if OPTIMIZER_NAME.search(name):
                    yield Use(call, module, name)


def grows_with_the_gradient(program: Program) -> bool | None:
    """Whether the step is larger as the gradient is: None where that of some optimizers is and that of others not."""
    grow = {use.last in STEP_GROWS for use in applied_optimizers(program)}
    return None if len(grow) > 1 else grow == {True}


def divides_by_its_size(program: Program) -> bool:
    """Whether all optimizers that the gradients go to divide by the gradient's size: Adam and its like."""
    names = [use.last for use in applied_optimizers(program)]
    return bool(names) and all(STEP_DOES_NOT_GROW.search(name) for name in names)


def is_plain_sum(program: Program) -> bool:
    """Whether gradients are added up, and nothing on the way is divided by the number of towers."""
    combiner = program.combiner
    if combiner is None or combiner.kind not in ("sum", "sum of the losses") or scales_losses(program) is not None:
        return False
    if any(
        (divides_by_towers(node, program) or _is_reciprocal(node)) and not _is_reported(node, program)
        for function in dict.fromkeys([combiner.function, program.loop.function, *linked(program)])
        for node in function.nodes
    ):
        return False
    if _is_divided_by_a_caller(combiner, program):
        return False
    rates = [use.argument("learning_rate", 0) for use in optimizers(program)]
    sources = [
        part for rate in rates if rate is not None for part in program.repository.sources(rate, program.loop.module, 2)
    ]
    return not any(divides_by_count(part, program.repository) for part in sources)


def _is_divided_by_a_caller(combiner: Combiner, program: Program) -> bool:
    """Whether what calls the combiner divides losses by the number of towers, in what it calls: clones of a helper."""
    repository = program.repository
    return any(
        divides_by_towers(node, program) and LOSS_WORDS.search(source_of(node, 200))
        for caller in repository.callers(combiner.function)
        if combiner.kind == "sum"
        for node, module in repository.reached(caller.body, caller.module, 3)
        if not SUMMARY.search(
            module.resolved(next((e.func for e in module.ancestors(node) if isinstance(e, ast.Call)), None))
        )
        and not _is_reported(node, program)
    )


def _is_reported(node: ast.AST, program: Program) -> bool:
    """Whether what is divided, behind the towers, is a loss or a metric that is looked at, where gradients are added up."""
    combiner = program.combiner
    # A vector that is minimised is not divided by what is computed of the losses for a report.
    if combiner is None or not (combiner.kind == "sum" or is_of_a_vector(combiner)) or program.is_in_towers(node):
        return False
    return isinstance(node, ast.BinOp) and bool(re.search("loss|cost|acc|error|metric", source_of(node.left), re.I))


def _is_reciprocal(node: ast.AST) -> bool:
    """Whether something is one over a number that is computed: it may be that of the towers by any name."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and isinstance(node.left, ast.Constant)
        and node.left.value == 1
        and not isinstance(node.right, ast.Constant)
    )


def _sum(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        if is_plain_sum(program) and program.combiner is not None:
            what = "losses" if program.combiner.kind == "sum of the losses" else "gradients"
            text = f"the {what} of the towers are added up, and neither they nor the losses are divided by their number"
            grows = grows_with_the_gradient(program)
            level = None if grows else Severity.WARNING
            text += "" if grows else f": {_differs(program)}" if grows is False else SOME_GROW
            places = [(program.combiner.node, program.combiner.module)]
            if is_of_a_vector(program.combiner):
                # One function with the loop, and a script for each of its callers.
                places += [(each.node, each.module) for each in vectors_of(program.loop, program.repository)]
            yield from (Hit(node, module, text, grows is not None, level) for node, module in places)


def _differs(program: Program) -> str:
    names = dict.fromkeys(use.last for use in applied_optimizers(program))
    if any(STEP_DOES_NOT_GROW.search(name) for name in names):
        by = " and ".join(names)
        return f"by {by} the step is no larger for it, but epsilon weighs less, and so does a decay of one tower"
    return "the step is larger if that of the optimizer, which is not seen here, grows with the gradient"


def _scaled_sum(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        combiner = program.combiner
        if combiner is None or combiner.kind not in ("sum", "sum of the losses") or is_plain_sum(program):
            continue
        scaled = scales_losses(program)
        if scaled is not None:
            function = program.repository.homes[scaled]
            yield Hit(
                scaled, function.module, f"losses are divided in each tower ({source_of(scaled)}), gradients added up"
            )


def _sparse_sum(code: Code) -> Iterator[Hit]:
    for combiner in code.combiners:
        if combiner.sparse is not None and not combiner.sparse_divides and combiner.kind == "mean":
            module = code.repository.homes[combiner.sparse].module
            text = "sparse gradients of the towers are put one after the other and not divided, dense ones are averaged"
            sparse = _looks_rows_up(combiner, code)
            yield Hit(combiner.sparse, module, text if sparse else f"{text}; no lookup is seen here", sparse)


def _looks_rows_up(combiner: Combiner, code: Code) -> bool:
    """Whether a program whose gradients are combined so looks up rows of a variable: their gradients are sparse."""
    programs = [each for each in code.programs if each.combiner is combiner] or code.programs
    modules = {module for each in programs for module in imported_modules(each.loop.module, code.repository)}
    modules |= {function.module for each in programs for function in each.functions}
    return any(
        _is_lookup(Use(call, module, module.resolved(call.func)), code) and not code.reach.why_not(call, module)
        for module in modules
        for function in module.functions
        for call in function.calls
    )


def _is_lookup(use: Use, code: Code) -> bool:
    if re.search(r"embed(ding)?_(lookup|sequence)|embedding_column|(^|\.)Embed(ding)?$", use.name):
        return True
    if use.last not in ("gather", "sparse_read") or not use.call.args:
        return False
    return any(
        isinstance(part, ast.Call) and use.module.resolved(part.func).rpartition(".")[2] in ("get_variable", "Variable")
        for part in code.repository.sources(use.call.args[0], use.module, 3)
    )


def _clipped(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        combiner = program.combiner
        if combiner is None or "losses" in combiner.kind:
            continue
        for use, before in clips(program):
            if before and _applied_behind(program) and not _is_dropped(use):
                yield Hit(use.call, use.module, f"{use.last} clips in each tower, before the gradients are combined")


def _is_dropped(use: Use) -> bool:
    """Whether the list that a clipped gradient goes into is given anew before anything reads it."""
    function = use.module.within.get(use.call)
    if function is None:
        return False
    clipped = {name for name, given in function.assigned.items() for each in given if each.value is use.call}
    for name, given in function.assigned.items():
        fills = [each for each in given if each.how == "append" and _has(each.value, clipped, use)]
        for fill in fills:
            around = list(use.module.ancestors(fill.by))
            for anew in given:
                holder = use.module.parents.get(anew.by)
                if anew.how != "=" or anew.place is not None or holder not in around:
                    continue
                first, last = fill.by.lineno, anew.by.lineno  # type: ignore[attr-defined]
                between = [node for node in function.nodes if first < getattr(node, "lineno", 0) <= last]
                targets = getattr(anew.by, "targets", ())
                if first < last and not any(chain(node) == name and node not in targets for node in between):
                    return True
    return False


def _has(value: ast.expr, names: set[str], use: Use) -> bool:
    parts = use.module.inside(value)
    return use.call in parts or any(isinstance(part, ast.Name) and part.id in names for part in parts)


def _applied_behind(program: Program) -> bool:
    """Whether gradients are combined before they are applied: one that applies its own clips where DDP does."""
    own = [node for node, _ in program.loop.region if isinstance(node, ast.Call)]
    return not any(chain(each.func).rpartition(".")[2] in ("apply_gradients", "minimize") for each in own)


def _rows(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        combiner = program.combiner
        if combiner is None or combiner.sparse is None:
            continue
        for use, before in clips(program):
            if use.last == "clip_by_global_norm" and not before:
                yield Hit(
                    use.call, use.module, "the norm counts each row of a sparse gradient, also one that is there twice"
                )


# What has a derivative of 0 everywhere, or none.
def _optimizer_each(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in optimizers(program):
            if program.loop.node in use.module.ancestors(use.call):
                yield Hit(
                    use.call, use.module, "each tower makes an optimizer of its own; the one that applies is the last"
                )


GRADIENT_RULES = (
    Rule(
        "TP101",
        "gradients-summed",
        Severity.ERROR,
        "gradients of the towers are added up, not averaged",
        "The towers' gradients are added up, and nothing is divided by the number of towers: neither they, nor the "
        "losses, nor "
        "the learning rate. With SGD, momentum and their like the step grows with the number of towers. A warning with "
        "Adam and others that divide by the gradient's size, and where the optimizer is not seen: the step is then the "
        "same, but for epsilon, which weighs less beside a sum, and for a decay that one tower alone adds, which has a "
        "smaller share in it. A note where the source has optimizers of both kinds.",
        "DistributedDataParallel averages: with SGD and momentum the same learning rate makes a step that is smaller by "
        "the number of ranks; with Adam and its like only what epsilon and such a decay weigh is another.",
        "Multiply each rank's loss by the world size before `backward()`, or, with SGD and momentum only, the "
        "learning rate.",
        _sum,
        hazards=("sum_not_mean",),
    ),
    Rule(
        "TP102",
        "scaled-losses-summed",
        Severity.NOTE,
        "losses are divided in each tower, and gradients added up",
        "Each tower's loss, or its gradient, is divided by the number of towers; what is added up is a mean in the "
        "end.",
        "DDP divides by itself: a loss that is divided as well is divided twice.",
        "Leave the division out of the loss. A loss that was logged is the mean already.",
        _scaled_sum,
        hazards=("sum_of_scaled_losses",),
    ),
    Rule(
        "TP103",
        "sparse-gradients-summed",
        Severity.WARNING,
        "sparse gradients are added up where dense ones are averaged",
        "The branch for `IndexedSlices` concatenates values and indices and does not divide: the gradients of "
        "embeddings are as "
        "many times larger as there are towers. Rows that are in several towers are added up when they are applied. A note "
        "where no lookup of rows of a variable is seen: no gradient is sparse then.",
        "DDP averages the gradient of `nn.Embedding` like any other: embeddings learn more slowly by that factor.",
        "Multiply the embedding's gradient by the world size in a hook, `weight.register_hook(lambda g: g * "
        "world_size)`, "
        "or scale its group's rate with SGD only.",
        _sparse_sum,
        hazards=("sparse_sum",),
        only_found="Where every sparse gradient is made dense before it is combined, the branch is there and never taken: "
        "`parity record` then does not name it.",
    ),
    Rule(
        "TP108",
        "clipped-in-each-tower",
        Severity.WARNING,
        "gradients are clipped in each tower, before they are combined",
        "Every tower clips its own gradients, and the clipped ones are combined. A mean of clipped gradients is not "
        "the clipped "
        "mean: for two vectors and a limit of 1 it was (0.45, 0.20) and (0.68, 0.74). Clipped gradients that nothing reads "
        "before their list is given anew are none; a loss or an image that is clipped is none either: each rank does the "
        "same.",
        "`clip_grad_norm_` after `backward()` comes after DDP's all-reduce: it clips the mean.",
        "Clip in a communication hook, `model.register_comm_hook(state, clip_then_average)`, or under `no_sync()` "
        "with an "
        "all-reduce by hand.",
        _clipped,
        hazards=("changed_before_combining",),
    ),
    Rule(
        "TP109",
        "norm-of-sparse-rows",
        Severity.NOTE,
        "a norm is taken of sparse gradients as they are",
        "`clip_by_global_norm` of `IndexedSlices` takes the norm of their rows: a row that was looked up four times "
        "counts as four "
        "small ones and not as their sum (2.0 and not 4.0).",
        "A dense gradient has repeated rows added up: its norm is larger, and more is clipped.",
        "`nn.Embedding(sparse=True)` with `torch_ddp.like_tf.clip_grads_by_global_norm_`, which counts rows as "
        "TensorFlow does.",
        _rows,
        decided=False,
        hazards=("norm_of_repeated_rows",),
        only_found="Only where a gradient is sparse when it is clipped: the source shows the branch, a recording the "
        "gradient.",
    ),
    Rule(
        "TP110",
        "gradient-replaced",
        Severity.WARNING,
        "the gradient of an op is written by hand",
        "`gradient_override_map`, `RegisterGradient` or `custom_gradient` gives an op a gradient of its own: another one "
        "than its derivative, or that of an op which has none. A note where it may be the derivative itself, written for "
        "speed or for second derivatives, and where a Python function in the graph, or an op of the repository's own "
        "(`tf.load_op_library`), is given the one that it lacks: then the port needs that op and its gradient.",
        "autograd differentiates what `forward` computes: without more, the port has the true derivative.",
        "A `torch.autograd.Function` whose `backward` is the script's; of an op of the repository's own none where "
        "`forward` is written in torch. `parity port` writes derivatives only.",
        replaced_gradients,
        for_one_tower=True,
    ),
    Rule(
        "TP111",
        "optimizer-in-each-tower",
        Severity.NOTE,
        "each tower makes an optimizer",
        "The optimizer is made inside the loop. What applies the combined gradients is the last one; the others "
        "hold no state.",
        "Each rank has one optimizer with its slots.",
        "One optimizer, made after the model is wrapped or before, of `model.parameters()`.",
        _optimizer_each,
    ),
)
