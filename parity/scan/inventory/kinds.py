"""Which kind a loop over devices is: it builds towers that train, towers that evaluate, or has a session run in turn."""

import ast
import re
from collections.abc import Iterator, Sequence

from parity.scan.inventory.loops import GRADIENT_CALLS, LOOP_WORDS, LOSS_WORDS, TowerLoop
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import Repository, source_of
from parity.scan.result import EVALUATION, SERIAL, TOWERS

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
# By which Keras trains.
FITTING_CALLS = frozenset(["fit", "fit_generator", "train_on_batch", "compile"])


def kind_of(loop: TowerLoop, repository: Repository) -> str | None:
    """Returns `TOWERS`, `EVALUATION` or `SERIAL`, None of a loop that builds no towers."""
    own = loop.nodes
    calls = [(each, of) for each, of in loop.region if isinstance(each, ast.Call)]
    names = {of.resolved(each.func) for each, of in calls}
    last = {name.rpartition(".")[2] for name in names}
    here = {loop.module.resolved(each.func).rpartition(".")[2] for each in own if isinstance(each, ast.Call)}
    gradient = bool(last & GRADIENT_CALLS)
    loss = _has_loss(loop)
    if _collects_for_evaluation(own) and _has_a_training_loop_too(loop):
        return EVALUATION
    if "run" in here and _session_runs(own, loop.module) and not gradient:
        if loop.device_module not in (None, loop.module) and not runs_below(loop):
            # A block in what the loop calls, as for a summary: towers have none.
            return None
        # A session that runs in there runs where its graph says, whatever device the block names.
        return (
            SERIAL
            if any(LOSS_WORDS.search(source_of(each)) or _trains(each) for each in own if _is_run(each))
            else None
        )
    model = any(_is_model(name) for name in names) or any(MODEL_WORDS.search(name) for name in here)
    if not gradient and LAYER_WORDS.search(loop.over) and not LOOP_WORDS.search(loop.over):
        return None
    if gradient and (model or loss or _collects(own)):
        return TOWERS
    by_a_method = loop.device is not None and _trains_anywhere(repository)
    if by_a_method and (_collects_gradients(own) or (_calls_a_model_of_many(loop, repository) and _collects(own))):
        # By a method of an object that may be of many classes.
        return TOWERS
    if model and not _names_loss(own) and _evaluates(loop, repository):
        return EVALUATION
    trained = _gradients_elsewhere(loop, repository)
    if (loss or any(name.startswith("keras.") for name in names)) and trained:
        return TOWERS
    towers_like = bool(LOOP_WORDS.search(loop.over)) or loop.names_scope() or loop.reuses_variables()
    if towers_like and _calls_parameter(own, loop.function) and _collects(own):
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


def _has_a_training_loop_too(loop: TowerLoop) -> bool:
    """Whether another loop of the function collects something for training."""
    inside = set(loop.module.inside(loop.node))
    around = set(loop.module.ancestors(loop.node))
    return any(
        isinstance(each, ast.For)
        and each not in inside | around
        and any(not IDLE_WORDS.search(name) for name, _ in _collected(loop.module.inside(each)))
        for each in loop.function.nodes
    )


def _names_loss(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(each, ast.Name | ast.Attribute) and LOSS_WORDS.search(chain(each)) for each in nodes)


def _evaluates(loop: TowerLoop, repository: Repository) -> bool:
    """Whether a loop without gradients says that it does not train: by a flag that is False, or by a name."""
    calls = [each for each in loop.nodes if isinstance(each, ast.Call)]
    said = (
        any(
            key.arg in TRAINING_FLAGS and isinstance(key.value, ast.Constant) and key.value.value is False
            for call in calls
            for key in call.keywords
        )
        or any(EVALUATION_WORDS.search(chain(call.func).rpartition(".")[2]) for call in calls)
        or EVALUATION_WORDS.search(loop.function.name)
    )
    if not said:
        return False
    reached = repository.reached(loop.function.body, loop.module, 3)
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


def _calls_a_model_of_many(loop: TowerLoop, repository: Repository) -> bool:
    """Whether a loop calls a model's method that classes of the repository have, in a file that combines gradients."""
    combines = any(COMBINING_WORDS.search(each.name) for each in loop.module.functions)
    methods = (
        each.func.attr for each in loop.nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    )
    return combines and any(
        MODEL_WORDS.search(name) and sum(bool(each.owner) for each in repository.named.get(name, ())) > 1
        for name in methods
    )


def _trains_anywhere(repository: Repository) -> bool:
    return any(repository.calls_of(name) for name in GRADIENT_CALLS)


def _has_loss(loop: TowerLoop) -> bool:
    for each, of in loop.region:
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


def runs_below(loop: TowerLoop) -> bool:
    """Whether a session runs in the block of the device that a loop chooses, or in what that block calls."""
    device, module = loop.device, loop.device_module
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


def _gradients_elsewhere(loop: TowerLoop, repository: Repository) -> bool:
    """Whether gradients are computed in the file of a loop, or in what its function calls or is called by."""
    for function in loop.module.functions:
        for call in function.calls:
            if loop.module.resolved(call.func).rpartition(".")[2] in GRADIENT_CALLS | FITTING_CALLS - {"compile"}:
                return True
    for each, of in repository.reached(loop.function.body, loop.module, 3):
        if isinstance(each, ast.Call) and of.resolved(each.func).rpartition(".")[2] in GRADIENT_CALLS:
            return True
    return any(
        isinstance(node, ast.Call) and of.resolved(node.func).rpartition(".")[2] in GRADIENT_CALLS | FITTING_CALLS
        for caller in repository.callers(loop.function)
        for node, of in repository.reached(caller.body, caller.module, 3)
    )
