"""Loops that build towers: an iteration for each device, with a model in it."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import Repository, source_of
from parity.scan.result import EVALUATION, SERIAL, TOWERS

LOOP_WORDS = re.compile(r"gpu|device|tower|clone|replica|shard|parallel|worker|core", re.IGNORECASE)
SCOPE_WORDS = re.compile(r"gpu|tower|clone|replica|device|parallel|model_?[%{]", re.IGNORECASE)
LOSS_WORDS = re.compile(r"loss|cost|nll|xent|cross_entropy|objective|perplexity", re.IGNORECASE)
MODEL_WORDS = re.compile(
    r"model|infer|net|loss|forward|build|tower|logits|predict|graph|generator|discriminator|fn", re.I
)
EVALUATION_WORDS = re.compile(r"(^|_)(eval|evaluat\w*|test|testing|valid\w*)($|_)", re.IGNORECASE)
IDLE_WORDS = re.compile(
    r"(^|_)(eval|evaluat\w*|test|testing|valid\w*|sampl\w*|decode\w*|predict\w*)($|_)", re.IGNORECASE
)
TRAINING_FLAGS = frozenset(["is_train", "is_training", "train", "training", "train_mode", "is_train_mode"])
COMBINING_WORDS = re.compile(r"(average|mean|sum|combine|merge|reduce|aggregate|collect)_\w*grad", re.IGNORECASE)
LAYER_WORDS = re.compile(r"layer|block|cell|stage|depth", re.IGNORECASE)
GRADIENT_CALLS = frozenset(
    ["compute_gradients", "minimize", "gradients", "gradient", "get_gradients", "optimize_clones"]
)
# By which Keras trains.
FITTING_CALLS = frozenset(["fit", "fit_generator", "train_on_batch", "compile"])
DEVICE_DEPTH = 2  # calls in calls in which the device may be chosen
REGION_DEPTH = 4  # calls in calls that are looked through for a model and a gradient
Loop = ast.For | ast.comprehension


@dataclass(eq=False)
class TowerLoop:
    """A loop that builds towers.

    Attributes:
      kind: `TOWERS`, `EVALUATION` or `SERIAL`.
      loop: the statement or the clause of a comprehension.
      node: the statement or the comprehension.
      module: in which.
      function: in which.
      names: that depend on the tower: the loop's own and what is made of them.
      region: everything that an iteration runs, with the module that it is in.
      device: the call that chooses the device, or None.
      device_module: in which.
    """

    kind: str
    loop: Loop
    node: ast.AST
    module: Module
    function: Function
    names: set[str]
    region: list[tuple[ast.AST, Module]] = field(default_factory=list)
    device: ast.Call | None = None
    device_module: Module | None = None

    @property
    def body(self) -> Sequence[ast.AST]:
        """What stands in the loop itself."""
        if isinstance(self.loop, ast.For):
            return self.loop.body
        element: ast.AST | None = getattr(self.node, "elt", None) or getattr(self.node, "value", None)
        return [self.node if element is None else element]

    def depends(self, node: ast.AST) -> bool:
        """Whether an expression in the loop itself depends on the tower."""
        return _mentions(node, self.names, self.module)


def tower_loops(repository: Repository) -> list[TowerLoop]:
    """Returns the loops that build towers, by module and line."""
    loops: list[TowerLoop] = []
    for module in repository.modules:
        for function in module.functions:
            for node in function.nodes:
                loop = _loop_of(node)
                if loop is not None:
                    looked = _look(loop, node, function, repository)
                    if looked is not None:
                        loops.append(looked)
    return _outermost(loops)


def _loop_of(node: ast.AST) -> Loop | None:
    if isinstance(node, ast.For):
        return node
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and node.generators:
        return node.generators[0]
    return None


def names_in(target: ast.AST) -> set[str]:
    """Returns the names that a target binds."""
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _look(loop: Loop, node: ast.AST, function: Function, repository: Repository) -> TowerLoop | None:
    module = function.module
    found = TowerLoop(TOWERS, loop, node, module, function, names_in(loop.target))
    own = [each for part in found.body for each in module.inside(part)]
    if not any(isinstance(each, ast.Call) for each in own):
        return None
    found.names = _dependent(found.names, own, module)
    over = source_of(loop.iter)
    chosen = _device(own, found.names, module, repository, DEVICE_DEPTH)
    if chosen is not None:
        found.device, found.device_module = chosen
    elif not _over_towers(found, own, over, repository):
        return None
    found.region = list(repository.reached(found.body, module, REGION_DEPTH))
    kind = _kind(found, own, over, repository)
    if kind is None:
        return None
    found.kind = kind
    return found


def _dependent(names: set[str], nodes: Sequence[ast.AST], module: Module) -> set[str]:
    names = set(names)
    for _ in range(2):  # what is made of what is made
        for each in nodes:
            if isinstance(each, ast.AugAssign) and isinstance(each.value, ast.Constant):
                names |= names_in(each.target)  # a counter: `i += 1`
            elif isinstance(each, ast.Assign) and _mentions(each.value, names, module):
                for target in each.targets:
                    names |= names_in(target)
    return names


def _mentions(node: ast.AST, names: set[str], module: Module) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in module.inside(node))


def is_device(call: ast.AST, module: Module) -> bool:
    """Whether a call is `tf.device(...)`, of whatever graph."""
    return isinstance(call, ast.Call) and bool(call.args) and module.resolved(call.func).rpartition(".")[2] == "device"


def _device(
    nodes: Sequence[ast.AST], names: set[str], module: Module, repository: Repository, depth: int
) -> tuple[ast.Call, Module] | None:
    for each in nodes:
        if isinstance(each, ast.With):
            for item in each.items:
                call = item.context_expr
                if (
                    isinstance(call, ast.Call)
                    and is_device(call, module)
                    and _mentions(call.args[0], names, module)
                    and not _of_a_job(call.args[0], module, repository)
                ):
                    return call, module
    if not depth:
        return None
    for each in nodes:
        if isinstance(each, ast.Call):
            for callee in repository.callees(each, module):
                passed = _passed(each, callee, names, module)
                if passed:
                    inner = [part for statement in callee.body for part in callee.module.inside(statement)]
                    passed = _dependent(passed, inner, callee.module)
                    chosen = _device(inner, passed, callee.module, repository, depth - 1)
                    if chosen is not None:
                        return chosen
    return None


def _passed(call: ast.Call, callee: Function, names: set[str], module: Module) -> set[str]:
    """The parameters of a function that are given what depends on some names."""
    parameters = callee.parameters
    if parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    given = {name for name, value in zip(parameters, call.args, strict=False) if _mentions(value, names, module)}
    return given | {each.arg for each in call.keywords if each.arg and _mentions(each.value, names, module)}


def _of_a_job(device: ast.expr, module: Module, repository: Repository) -> bool:
    """Whether a device is another machine: that is a parameter server's work, or a place for a variable."""
    words = [
        each.value
        for each in repository.sources(device, module, 1)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    text = "".join(words).lower()
    return ("job:" in text or "task:" in text) and "gpu" not in text and "device" not in text


def _over_towers(found: TowerLoop, own: Sequence[ast.AST], over: str, repository: Repository) -> bool:
    """Whether a loop that chooses no device is one over towers all the same."""
    module = found.module
    if _named_scope(own, found.names, module):
        return True
    if LOOP_WORDS.search(over) and _shared(own, found.names, module):
        return True
    last = {module.resolved(each.func).rpartition(".")[2] for each in own if isinstance(each, ast.Call)}
    return bool(last & GRADIENT_CALLS) and any(
        isinstance(each, ast.Call) and module.resolved(each.func) == "tf.split"
        for each in repository.sources(found.loop.iter, module, 2)
    )


def _named_scope(nodes: Sequence[ast.AST], names: set[str], module: Module) -> bool:
    """Whether a scope is named after the tower."""
    for each in nodes:
        if (
            isinstance(each, ast.Call)
            and each.args
            and (
                module.resolved(each.func).rpartition(".")[2] in ("name_scope", "variable_scope", "op_scope")
                and _mentions(each.args[0], names, module)
                and SCOPE_WORDS.search(source_of(each.args[0]))
            )
        ):
            return True
    return False


def _shared(nodes: Sequence[ast.AST], names: set[str], module: Module) -> bool:
    """Whether variables are shared from the second iteration on."""
    for each in nodes:
        if not isinstance(each, ast.Call):
            continue
        name = module.resolved(each.func).rpartition(".")[2]
        if any(key.arg == "reuse" and _mentions(key.value, names, module) for key in each.keywords):
            return True
        if name in ("reuse_variables", "make_template"):
            return True
    return False


def _kind(found: TowerLoop, own: Sequence[ast.AST], over: str, repository: Repository) -> str | None:
    calls = [(each, of) for each, of in found.region if isinstance(each, ast.Call)]
    names = {of.resolved(each.func) for each, of in calls}
    last = {name.rpartition(".")[2] for name in names}
    here = {found.module.resolved(each.func).rpartition(".")[2] for each in own if isinstance(each, ast.Call)}
    gradient = bool(last & GRADIENT_CALLS)
    loss = _has_loss(found)
    if _collects_for_evaluation(own) and _has_a_training_loop_too(found):
        return EVALUATION
    if "run" in here and _session_runs(own, found.module) and not gradient:
        if found.device_module not in (None, found.module) and not runs_below(found):
            # A block in what the loop calls, as for a summary: towers have none.
            return None
        # A session that runs in there runs where its graph says, whatever device the block names.
        return (
            SERIAL
            if any(LOSS_WORDS.search(source_of(each)) or _trains(each) for each in own if _is_run(each))
            else None
        )
    model = any(_is_model(name) for name in names) or any(MODEL_WORDS.search(name) for name in here)
    if not gradient and LAYER_WORDS.search(over) and not LOOP_WORDS.search(over):
        return None
    if gradient and (model or loss or _collects(own)):
        return TOWERS
    by_a_method = found.device is not None and _trains_anywhere(repository)
    if by_a_method and (
        _collects_gradients(own) or (_calls_a_model_of_many(own, found, repository) and _collects(own))
    ):
        # By a method of an object that may be of many classes.
        return TOWERS
    if model and not _names_loss(own) and _evaluates(found, own, repository):
        return EVALUATION
    trained = _gradients_elsewhere(found, repository)
    if (loss or any(name.startswith("keras.") for name in names)) and trained:
        return TOWERS
    towers_like = (
        bool(LOOP_WORDS.search(over))
        or _named_scope(own, found.names, found.module)
        or _shared(own, found.names, found.module)
    )
    if towers_like and _calls_parameter(own, found.function) and _collects(own):
        # What is spread over devices is a function that somebody gives: a model, in a program that trains.
        return TOWERS if trained or _trains_anywhere(repository) else EVALUATION
    if towers_like and model and _collects(own) and any(_is_model(name) for name in names):
        return EVALUATION
    return None


def _collected(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yields the lists that a loop fills, with what each is given."""
    for each in nodes:
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr == "append"
            and each.args
        ):
            yield chain(each.func.value).rpartition(".")[2], each.args[0]


def _collects_gradients(nodes: Sequence[ast.AST]) -> bool:
    return any("grad" in name.lower() for name, _ in _collected(nodes))


def _collects_for_evaluation(nodes: Sequence[ast.AST]) -> bool:
    """Whether all that a loop collects is for evaluation or samples, by its name or by what it is made by."""
    collected = list(_collected(nodes))
    return bool(collected) and all(
        IDLE_WORDS.search(name)
        or (isinstance(value, ast.Call) and IDLE_WORDS.search(chain(value.func).rpartition(".")[2]))
        for name, value in collected
    )


def _has_a_training_loop_too(found: TowerLoop) -> bool:
    """Whether another loop of the function collects something for training."""
    inside = set(found.module.inside(found.node))
    around = set(found.module.ancestors(found.node))
    return any(
        isinstance(each, ast.For)
        and each not in inside | around
        and any(not IDLE_WORDS.search(name) for name, _ in _collected(found.module.inside(each)))
        for each in found.function.nodes
    )


def _names_loss(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(each, ast.Name | ast.Attribute) and LOSS_WORDS.search(chain(each)) for each in nodes)


def _evaluates(found: TowerLoop, own: Sequence[ast.AST], repository: Repository) -> bool:
    """Whether a loop without gradients says that it does not train: by a flag that is False, or by a name."""
    calls = [each for each in own if isinstance(each, ast.Call)]
    said = (
        any(
            key.arg in TRAINING_FLAGS and isinstance(key.value, ast.Constant) and key.value.value is False
            for call in calls
            for key in call.keywords
        )
        or any(EVALUATION_WORDS.search(chain(call.func).rpartition(".")[2]) for call in calls)
        or EVALUATION_WORDS.search(found.function.name)
    )
    if not said:
        return False
    reached = repository.reached(found.function.body, found.module, 3)
    return not any(
        isinstance(each, ast.Call) and of.resolved(each.func).rpartition(".")[2] in GRADIENT_CALLS | FITTING_CALLS
        for each, of in reached
    )


def _calls_parameter(nodes: Sequence[ast.AST], function: Function) -> bool:
    """Whether a function that was given as an argument, or is in a list of them, is called."""
    given = {*function.parameters} - {"self", "cls"}
    for name, values in function.assigned.items():
        if any(
            isinstance(part, ast.Name) and part.id in given
            for each in values
            for part in function.module.inside(each.value)
        ):
            given = given | {name}
    for each in nodes:
        if isinstance(each, ast.Call):
            called = each.func.value if isinstance(each.func, ast.Subscript) else each.func
            if isinstance(called, ast.Name) and called.id in given:
                return True
    return False


def _calls_a_model_of_many(nodes: Sequence[ast.AST], found: TowerLoop, repository: Repository) -> bool:
    """Whether a loop calls a model's method that classes of the repository have, in a file that combines gradients."""
    combines = any(COMBINING_WORDS.search(each.name) for each in found.module.functions)
    methods = (each.func.attr for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute))
    return combines and any(
        MODEL_WORDS.search(name) and sum(bool(each.owner) for each in repository.named.get(name, ())) > 1
        for name in methods
    )


def _trains_anywhere(repository: Repository) -> bool:
    return any(repository.calls_of(name) for name in GRADIENT_CALLS)


def _has_loss(found: TowerLoop) -> bool:
    for each, of in found.region:
        if isinstance(each, ast.Name | ast.Attribute) and LOSS_WORDS.search(chain(each)):
            return True
        if isinstance(each, ast.Call) and of.resolved(each.func).startswith("tf.losses."):
            return True
        if isinstance(each, ast.FunctionDef) and LOSS_WORDS.search(each.name):
            return True
    return False


def _is_model(name: str) -> bool:
    return name.startswith(
        ("tf.nn.", "tf.layers.", "slim.", "keras.layers.", "tf.contrib.layers.", "tf.contrib.rnn.")
    ) or (name in ("tf.get_variable", "tf.matmul", "tf.Variable", "tf.losses.softmax_cross_entropy", "tf.gradients"))


def _is_run(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run"


def _trains(node: ast.AST) -> bool:
    return _is_run(node) and bool(re.search(r"train|optim|apply|step|minimi", source_of(node), re.IGNORECASE))


def _session_runs(nodes: Sequence[ast.AST], module: Module) -> bool:
    runs = (each.func for each in nodes if isinstance(each, ast.Call) and _is_run(each))
    return any(re.search(r"sess", source_of(each, 60), re.IGNORECASE) for each in runs)


def runs_below(found: TowerLoop) -> bool:
    """Whether a session runs in the block of the device that a loop chooses, or in what that block calls."""
    device, module = found.device, found.device_module
    if device is None or module is None:
        return False
    block = next((each for each in module.ancestors(device) if isinstance(each, ast.With)), None)
    return block is not None and _session_runs([each for part in block.body for each in module.inside(part)], module)


def _collects(nodes: Sequence[ast.AST]) -> bool:
    for each in nodes:
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in ("append", "extend", "add_to_collection", "add")
        ):
            return True
        if isinstance(each, ast.Assign) and any(isinstance(target, ast.Subscript) for target in each.targets):
            return True
    return bool(nodes) and isinstance(nodes[0], ast.expr)  # of a comprehension


def _gradients_elsewhere(found: TowerLoop, repository: Repository) -> bool:
    """Whether gradients are computed in the file of a loop, or in what its function calls or is called by."""
    for function in found.module.functions:
        for call in function.calls:
            if found.module.resolved(call.func).rpartition(".")[2] in GRADIENT_CALLS | FITTING_CALLS - {"compile"}:
                return True
    for each, of in repository.reached(found.function.body, found.module, 3):
        if isinstance(each, ast.Call) and of.resolved(each.func).rpartition(".")[2] in GRADIENT_CALLS:
            return True
    return any(
        isinstance(node, ast.Call) and of.resolved(node.func).rpartition(".")[2] in GRADIENT_CALLS | FITTING_CALLS
        for caller in repository.callers(found.function)
        for node, of in repository.reached(caller.body, caller.module, 3)
    )


def _outermost(loops: list[TowerLoop]) -> list[TowerLoop]:
    """Leaves out loops in loops: one that goes over the devices inside of one that does."""
    nodes = {loop.node for loop in loops}
    return [loop for loop in loops if not any(each in nodes for each in loop.module.ancestors(loop.node))]
