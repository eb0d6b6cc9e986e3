"""How the gradients of towers become one: by a mean, a sum, over pairs, sparse ones otherwise than dense ones."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parity.scan.inventory.loops import LOSS_WORDS, TowerLoop
from parity.scan.inventory.missing import what_none_does
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import Repository, source_of

GRADIENT_WORDS = re.compile(r"grad|(^|_)gv?s?($|_)|tower|clone", re.IGNORECASE)
COUNT_WORDS = re.compile(
    r"(n(um|r)?_?|no_of_|nr_of_|number_of_)(gpu|tower|clone|device|replica|worker|shard|card|core)|ngpu|gpu_?(num|count|n)|"
    r"\blen\(|size\(\)|_count\b|n_?towers|gpus?_cnt|gpu_nums?|world_size|\b(gpus|towers|clones|devices|replicas)\b",
    re.IGNORECASE,
)
CALLS_OF_MEANS = frozenset(["tf.reduce_mean", "tf.math.reduce_mean", "tf.metrics.mean"])
CALLS_OF_SUMS = frozenset(
    ["tf.add_n", "tf.reduce_sum", "tf.math.reduce_sum", "tf.accumulate_n", "tf.math.add_n", "tf.add", "sum"]
)
DIVISIONS = frozenset(
    ["tf.div", "tf.divide", "tf.truediv", "tf.realdiv", "tf.div_no_nan", "tf.scalar_mul", "tf.multiply"]
)
SUMMARY = re.compile(r"(^|\.)(summary\.\w+|print|Print)$")  # of what is written down, and of nothing else
NODES_OF_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp)


@dataclass(eq=False)
class Combiner:
    """What makes one gradient of those of the towers.

    Attributes:
      kind: "mean", "sum", "mean of the losses", "sum of the losses", or "" where it is not known.
      node: the loop over the pairs, or the call.
      module: in which.
      function: in which.
      divides: what the sum is divided by, or None.
      sparse: the branch for sparse gradients that only concatenates, or None.
      sparse_divides: whether that branch divides too.
      none: "crash", "any" (whoever has one), "before" (whoever stands before the first that has none), "first" (as the first
        tower has it), "ends" (the loop over towers does), "zeros", "filtered", or "".
      none_node: where that is decided.
    """

    kind: str
    node: ast.AST
    module: Module
    function: Function
    divides: ast.AST | None = None
    sparse: ast.AST | None = None
    sparse_divides: bool = False
    none: str = ""
    none_node: ast.AST | None = None


def combiners(repository: Repository) -> list[Combiner]:
    """Returns every loop over `zip(*gradients)` and its like, by module and line."""
    return [
        combiner
        for module in repository.modules
        for function in module.functions
        for node in function.nodes
        for combiner in _combiner(node, function, repository)
    ]


def _combiner(node: ast.AST, function: Function, repository: Repository) -> Iterator[Combiner]:
    if isinstance(node, ast.AugAssign) and _adds_towers(node):
        divided = [each for each in function.nodes if _divides_first(each, node)]
        kind = "mean" if divided else "sum"
        yield Combiner(kind, node, function.module, function, divided[0] if divided else None)
        return
    over = node.iter if isinstance(node, ast.For) else node.generators[0].iter if _has_generators(node) else None  # type: ignore[attr-defined]
    if over is None:
        return
    transposed = _transposed(over, function)
    if transposed is None or not _of_gradients(node, transposed, function):
        return
    yield _analysed(node, function, repository)


def _has_generators(node: ast.AST) -> bool:
    return isinstance(node, ast.ListComp | ast.GeneratorExp) and bool(node.generators)


def _transposed(over: ast.expr, function: Function, depth: int = 3) -> ast.expr | None:
    """Returns X of `zip(*X)`, also in `enumerate`, `list`, `six.moves.zip`, or by a name that is given so."""
    if isinstance(over, ast.Call):
        name = chain(over.func).rpartition(".")[2]
        if name in ("zip", "izip", "zip_longest") and len(over.args) == 1 and isinstance(over.args[0], ast.Starred):
            return over.args[0].value
        if name in ("enumerate", "list", "tqdm", "iter") and over.args:
            return _transposed(over.args[0], function, depth)
        if name in ("range", "xrange") and len(over.args) == 1 and _is_len_of_first(over.args[0]):
            return over.args[0].args[0]  # type: ignore[attr-defined,no-any-return]
    # A name may be given to itself: `pairs = enumerate(pairs)`.
    if isinstance(over, ast.Name) and depth:
        for given in function.assigned.get(over.id, ()):
            if isinstance(given.value, ast.Call) and given.how == "=":
                return _transposed(given.value, function, depth - 1)
    return None


def _is_len_of_first(node: ast.expr) -> bool:
    """Whether an expression is `len(X[0])`: a loop over the variables of the first tower."""
    return (
        isinstance(node, ast.Call)
        and chain(node.func) == "len"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Subscript)
        and source_of(node.args[0].slice) == "0"
    )


def _adds_towers(node: ast.AugAssign) -> bool:
    """Whether a statement is `grads[0][j] += grads[i][j]`, or the same of whole towers."""
    if not isinstance(node.op, ast.Add) or not GRADIENT_WORDS.search(source_of(node.target)):
        return False
    target: ast.expr = node.target
    value = node.value
    while isinstance(target, ast.Subscript) and isinstance(value, ast.Subscript):
        if isinstance(target.slice, ast.Constant) and not isinstance(value.slice, ast.Constant):
            return chain(target.value) == chain(value.value) != ""
        target, value = target.value, value.value
    return False


def _divides_first(node: ast.AST, added: ast.AugAssign) -> bool:
    """Whether a statement divides what another one has added up: `grads[0][j] /= n`, or `grads[0][j] = grads[0][j] / n`."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Div | ast.Mult) and _has_the_name(node.target, added)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and bool(COUNT_WORDS.search(source_of(node.right)))
        and _has_the_name(node.left, added)
    )


def _has_the_name(node: ast.expr, added: ast.AugAssign) -> bool:
    return _without_places(node) == _without_places(added.target) != ""


def _without_places(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return chain(node)


def _of_gradients(node: ast.AST, transposed: ast.expr, function: Function) -> bool:
    if GRADIENT_WORDS.search(source_of(transposed)) or GRADIENT_WORDS.search(function.name):
        return True
    return any(
        GRADIENT_WORDS.search(chain(each)) for each in function.module.inside(node) if isinstance(each, ast.Name)
    )


def _analysed(node: ast.AST, function: Function, repository: Repository) -> Combiner:
    module = function.module
    nodes = list(module.inside(node))
    # What a helper does with one variable's gradients belongs to it.
    helpers = [callee for each in nodes if isinstance(each, ast.Call) for callee in repository.callees(each, module)]
    nodes += [each for callee in dict.fromkeys(helpers) for part in callee.body for each in callee.module.inside(part)]
    combiner = Combiner("", node, module, function)
    dense = [each for each in nodes if not _in_sparse_branch(each, repository) and not _in_summary(each, repository)]
    means = any(isinstance(each, ast.Call) and _name(each, repository) in CALLS_OF_MEANS for each in dense)
    sums = any(_is_sum(each, repository) for each in dense)
    combiner.divides = next((each for each in dense if divides_by_count(each, repository)), None)
    if combiner.divides is None and sums:
        # The division may come behind the loop, or be a factor that was computed before it.
        combiner.divides = next((each for each in function.nodes if _divides_behind(each, function, repository)), None)
    if means:
        combiner.kind = "mean"
    elif sums:
        combiner.kind = "mean" if combiner.divides is not None else "sum"
    _sparse(combiner, nodes, repository)
    combiner.none, combiner.none_node = what_none_does(nodes, combiner.module)
    return combiner


def _divides_behind(node: ast.AST, function: Function, repository: Repository) -> bool:
    """Whether something is divided by the number of towers that is not a loss, which in a script may be shown alone."""
    of_losses = isinstance(node, ast.BinOp | ast.AugAssign) and bool(
        LOSS_WORDS.search(source_of(getattr(node, "left", getattr(node, "target", None))))
    )
    return not (of_losses and not function.name) and divides_by_count(node, repository)


def _name(call: ast.Call, repository: Repository) -> str:
    module = _module_of(call, repository)
    return module.resolved(call.func) if module else ""


def _module_of(node: ast.AST, repository: Repository) -> Module | None:
    function = repository.homes.get(node)
    return function.module if function else None


def _is_sum(node: ast.AST, repository: Repository) -> bool:
    if isinstance(node, ast.Call):
        return _name(node, repository) in CALLS_OF_SUMS
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and not isinstance(node.value, ast.Constant | ast.List)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _are_tensors(node)


def _are_tensors(node: ast.BinOp) -> bool:
    return isinstance(node.left, ast.Name | ast.Subscript) and isinstance(node.right, ast.Name | ast.Subscript)


def divides_by_count(node: ast.AST, repository: Repository) -> bool:
    """Whether something is divided by the number of towers, or multiplied by one over it."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mult) and _is_count(node.value, node.op)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return not _of_a_batch(node.left) and _is_count(node.right, node.op)
    if isinstance(node, ast.Call) and node.args:
        name = _name(node, repository)
        if name in DIVISIONS or name.rpartition(".")[2] in ("scale", "scalar_mul"):
            return any(_is_count(each, ast.Div()) for each in node.args)
    return False


def _is_count(node: ast.AST, operator: ast.operator) -> bool:
    text = source_of(node)
    if isinstance(operator, ast.Mult):
        return "/" in text and bool(COUNT_WORDS.search(text))
    if COUNT_WORDS.search(text):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value in (2, 3, 4, 8)


def _of_a_batch(node: ast.AST) -> bool:
    return bool(re.search(r"batch|step|examples|epoch|iter|samples|memory|count|size", source_of(node), re.IGNORECASE))


def _in_sparse_branch(node: ast.AST, repository: Repository) -> bool:
    module = _module_of(node, repository)
    if module is None:
        return False
    below = node
    for each in module.ancestors(node):
        if isinstance(each, ast.If) and "IndexedSlices" in source_of(each.test, 400):
            return below in each.body
        if isinstance(each, ast.FunctionDef):
            return "sparse" in each.name.lower()
        below = each
    return False


def _in_summary(node: ast.AST, repository: Repository) -> bool:
    module = _module_of(node, repository)
    return module is not None and _is_for_a_summary(node, module)


def _is_for_a_summary(node: ast.AST, module: Module) -> bool:
    """Whether something is computed for a summary or a log alone: nobody differentiates it."""
    return any(
        isinstance(each, ast.Call) and SUMMARY.search(module.resolved(each.func)) for each in module.ancestors(node)
    )


def _sparse(combiner: Combiner, nodes: Sequence[ast.AST], repository: Repository) -> None:
    makes = [
        each
        for each in nodes
        if isinstance(each, ast.Call)
        and chain(each.func).endswith("IndexedSlices")
        and "isinstance" not in chain(each.func)
    ]
    if not makes:
        return
    combiner.sparse = makes[0]
    module = _module_of(makes[0], repository)
    function = module.within[makes[0]] if module else combiner.function
    within = [
        each for each in function.nodes if function is not combiner.function or _in_sparse_branch(each, repository)
    ]
    within = within or nodes  # type: ignore[assignment]
    combiner.sparse_divides = any(
        divides_by_count(each, repository)
        or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div))
        or (isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div))
        or (isinstance(each, ast.Call) and _name(each, repository) in (CALLS_OF_MEANS | DIVISIONS))
        for each in within
    )


def combiner_of(loop: TowerLoop, known: Sequence[Combiner], repository: Repository) -> Combiner | None:
    """Returns what combines the towers of a loop: the nearest that its function leads to, else a mean of its losses."""
    function = loop.function
    behind = [each for each in known if each.function is function and _line(each.node) >= _line(loop.node)]
    if behind:
        return behind[0]
    scope = [function, *repository.callers(function)]
    for each in scope:
        reached = {id(of_node) for of_node, _ in repository.reached(each.body, each.module, 3)}
        called = [combiner for combiner in known if id(combiner.node) in reached]
        if called:
            # One in the same file first: others belong to other ways of the same program.
            return next((combiner for combiner in called if combiner.module is loop.module), called[0])
    of_losses = _of_losses(loop, scope, repository)
    if of_losses is not None:
        return of_losses
    same_class = [each for each in known if each.module is loop.module]
    return same_class[0] if same_class else None


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _of_losses(loop: TowerLoop, scope: Sequence[Function], repository: Repository) -> Combiner | None:
    """A mean or a sum of the towers' losses that is differentiated at once."""
    reached = [each for function in scope for each, _ in repository.reached(function.body, function.module, 3)]
    # What is differentiated in an iteration is that tower's own loss.
    towers = {node for node, _ in loop.region}
    if not any(isinstance(each, ast.Call) and each not in towers and _differentiates(each) for each in reached):
        return None
    vector = next(_vectors(loop, scope, repository), None)
    if vector is not None:
        return vector
    for function in scope:
        for call in function.calls:
            if function is loop.function and _line(call) < _line(loop.node):
                continue
            if _is_for_a_summary(call, function.module):
                continue
            name = function.module.resolved(call.func)
            if name not in CALLS_OF_MEANS | {"tf.add_n", "tf.accumulate_n", "tf.reduce_sum"} or not call.args:
                continue
            if not LOSS_WORDS.search(source_of(call.args[0])) or loop.node in function.module.ancestors(call):
                continue
            if function is loop.function and not _made_in_loop(call.args[0], loop):
                continue
            if name in CALLS_OF_MEANS:
                return Combiner("mean of the losses", call, function.module, function)
            above = next(iter(function.module.ancestors(call)), call)
            if _is_divided(above):
                return Combiner("sum of the losses over a count", call, function.module, function, above)
            divided = next((each for each in (above, *function.nodes) if divides_by_count(each, repository)), None)
            kind = "mean of the losses" if divided is not None else "sum of the losses"
            return Combiner(kind, call, function.module, function, divided)
    return None


def vectors_of(loop: TowerLoop, repository: Repository) -> list[Combiner]:
    """Returns where a vector of the towers' losses is differentiated as it is: the gradient is that of their sum."""
    return list(_vectors(loop, [loop.function, *repository.callers(loop.function)], repository))


def _vectors(loop: TowerLoop, scope: Sequence[Function], repository: Repository) -> Iterator[Combiner]:
    for function in scope:
        for call in function.calls:
            loss = call.args[0] if _differentiates(call) and call.args else None
            if not isinstance(loss, ast.Name):
                continue
            given = [each.value for each in function.assigned.get(loss.id, ())]
            if given and all(_joins(each, loop, function, repository) for each in given):
                yield Combiner("sum of the losses", call, function.module, function)


def is_of_a_vector(combiner: Combiner) -> bool:
    """Whether a vector of losses is differentiated as it is."""
    return (
        combiner.kind == "sum of the losses" and isinstance(combiner.node, ast.Call) and _differentiates(combiner.node)
    )


def _joins(node: ast.expr, loop: TowerLoop, function: Function, repository: Repository) -> bool:
    """Whether an expression puts what the towers give one after the other, by itself or in the function with the loop."""
    if not isinstance(node, ast.Call):
        return False
    if function.module.resolved(node.func) in ("tf.concat", "tf.stack"):
        given = [*node.args, *(key.value for key in node.keywords)]
        return function is loop.function and any(_made_in_loop(each, loop) for each in given)
    if loop.function not in repository.callees(node, function.module):
        return False
    returned = [each.value for each in loop.function.nodes if isinstance(each, ast.Return) and each.value is not None]
    return bool(returned) and all(_joins(each, loop, loop.function, repository) for each in returned)


def _is_divided(node: ast.AST) -> bool:
    """Whether a sum is divided, by whatever: the count of all towers' examples makes a mean of it."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div)
    return isinstance(node, ast.Call) and chain(node.func).rpartition(".")[2] in (
        "truediv",
        "div",
        "divide",
        "div_no_nan",
    )


def _made_in_loop(node: ast.expr, loop: TowerLoop) -> bool:
    """Whether a value is of a list that the loop fills: a sum of one tower's terms is none over towers."""
    names = {chain(each) for each in loop.module.inside(node) if isinstance(each, ast.Name | ast.Attribute)}
    if isinstance(loop.node, ast.expr):
        return any(
            loop.node in loop.module.inside(each.value)
            for name in names
            for each in loop.function.assigned.get(name, ())
        )
    return any(
        loop.node in loop.module.ancestors(each.by) for name in names for each in loop.function.assigned.get(name, ())
    )


def _differentiates(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("minimize", "compute_gradients", "gradients")
