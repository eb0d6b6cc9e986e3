"""Rules about the program around the towers: where variables go, what is run, what is patched."""

import ast
import re
from collections.abc import Iterator

from parity.scan.inventory.libraries import is_test
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.repository import source_of
from parity.scan.result import Severity
from parity.scan.rules.rule import Hit, Rule, assigns, block_of, is_session_run, linked

TRAIN_WORDS = re.compile(r"train|optim|apply_grad|minimi[sz]e|update|solver", re.IGNORECASE)
NO_TRAINING = re.compile(
    r"train_?(writer|summar|loss|acc|feed|iter|init|phase|data|images|labels|x|y|handle|dict)|training|is_train", re.I
)


# What makes resource variables, whose op is VarHandleOp.
RESOURCE_VARIABLES = re.compile(
    r"use_resource\s*=\s*True|set_use_resource\(|enable_resource_variables|ResourceVariable|enable_v2_behavior|"
    # Keras without TensorFlow before its name makes tf.Variable, which is none of them in TensorFlow 1.
    r"(tf|tensorflow(\.python)?)\.keras(\.\w+)*(\.(layers|Sequential|Model|models|applications)| import)|"
    r"from tensorflow import .*\bkeras\b|tfe\.Variable"
)


def _makes_resource_variables(module: Module, code: Code) -> bool:
    """Whether a program that a module belongs to makes resource variables, by the source that it imports."""
    around = {
        each
        for program in code.programs
        for start in (program.loop.module, *(function.module for function in program.linked))
        if module in imported_modules(start, code.repository)
        for each in imported_modules(start, code.repository)
    }
    return any(RESOURCE_VARIABLES.search(line) for each in around | {module} for line in each.lines)


def _device_function(code: Code) -> Iterator[Hit]:
    for module in _modules(code):
        for function in module.functions:
            for node in function.nodes:
                if isinstance(node, ast.Compare) and len(node.comparators) == 1 and _reads_op_type(node.left, function):
                    types = _strings(node.comparators[0], module, code)
                    if types and "Variable" in types and "VarHandleOp" not in types:
                        text = f"{source_of(node)} knows {', '.join(sorted(types))}, and not VarHandleOp"
                        if _places_the_step_alone(function, code):
                            yield Hit(node, module, f"{text}; only the global step is made under it", False)
                        elif "VariableV2" not in types:
                            yield Hit(node, module, f"{text}: none of these is what TensorFlow 1 makes")
                        elif _makes_resource_variables(module, code):
                            yield Hit(node, module, f"{text}: resource variables go to the towers' devices")
                        else:
                            text += ": resource variables would go to the towers' devices, and none is seen here"
                            yield Hit(node, module, text, False)


def _places_the_step_alone(function: Function, code: Code) -> bool:
    """Whether the blocks under a device function, or under what gives it back, make the global step and nothing else."""
    while function.outer is not None and function.outer.name:
        function = function.outer
    calls = [
        (call, module)
        for call, module in code.repository.calls_of(function.name)
        if not is_test(module) and _is_used(code.repository.homes[call], function.module, code)
    ]
    return bool(calls) and all(_makes_the_step(call, module) for call, module in calls)


def _makes_the_step(call: ast.Call, module: Module) -> bool:
    device, item = (module.parents.get(each) for each in (call, module.parents.get(call, call)))
    block = module.parents.get(item) if item is not None else None
    if not isinstance(device, ast.Call) or not isinstance(block, ast.With):
        return False
    values = [getattr(each, "value", None) for each in block.body]
    return all(isinstance(each, ast.Call) and "global_step" in source_of(each.func) for each in values)


def _is_used(home: Function, library: Module, code: Code, depth: int = 3) -> bool:
    """Whether something outside of tests leads to a function of a module: what is not of the module runs."""
    if home.module is not library or home.name in ("", "main") or not depth:
        return True
    return any(
        not is_test(module)
        and code.repository.homes[call] is not home
        and _is_used(code.repository.homes[call], library, code, depth - 1)
        for call, module in code.repository.calls_of(home.name)
    )


def _modules(code: Code) -> list[Module]:
    return list(
        dict.fromkeys(
            function.module for program in code.programs for function in [*linked(program), *program.functions]
        )
    )


def _reads_op_type(node: ast.expr, function: Function) -> bool:
    if isinstance(node, ast.Attribute):
        return (node.attr == "op" and "node_def" in chain(node)) or (
            node.attr == "type" and "op" in chain(node).lower()
        )
    if isinstance(node, ast.Name):
        return any("node_def" in source_of(each.value) for each in function.assigned.get(node.id, ()))
    return False


def _strings(node: ast.expr, module: Module, code: Code) -> set[str]:
    return {
        each.value
        for each in code.repository.sources(node, module, 1)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def _again(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in linked(program):
            runs = [call for call in function.calls if is_session_run(call)]
            for later in runs:
                trained = _trained(later)
                for earlier in runs:
                    if earlier is later or not trained & _trained(earlier):
                        continue
                    if _follows(later, earlier, function.module) and _same_feed(later, earlier, function):
                        name = sorted(trained & _trained(earlier))[0]
                        text = f"{name} is run once more, after the run in line {earlier.lineno}, with the same feed"
                        yield Hit(later, function.module, text)
                        break


def _trained(call: ast.Call) -> set[str]:
    """Names of the training ops that a run fetches."""
    if not call.args:
        return set()
    fetched = list(ast.walk(call.args[0]))
    # Of a dictionary it is the key that says what is fetched.
    keyed = [each for each in fetched if isinstance(each, ast.Subscript) and _key(each)]
    holders = {part for each in keyed for part in ast.walk(each.value)}
    names = {chain(each) for each in fetched if isinstance(each, ast.Name | ast.Attribute) and each not in holders}
    found = {name for name in names if _says_training(name) and "." not in _own(name)}
    return found | {source_of(each) for each in keyed if _says_training(_key(each))}


def _key(node: ast.Subscript) -> str:
    value = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return value if isinstance(value, str) else ""


def _says_training(name: str) -> bool:
    return bool(TRAIN_WORDS.search(name)) and not NO_TRAINING.search(name)


def _own(name: str) -> str:
    return name.replace("self.", "").replace("model.", "")


def _follows(later: ast.Call, earlier: ast.Call, module: Module) -> bool:
    """Whether a run is in a condition behind another one, in the same iteration of a loop."""
    holder, name = block_of(earlier, module)
    if not isinstance(holder, ast.For | ast.While | ast.With | ast.Try) or not name:
        return False
    if not any(isinstance(each, ast.For | ast.While) for each in [holder, *module.ancestors(earlier)]):
        return False
    statements = getattr(holder, name)
    place = next(number for number, each in enumerate(statements) if each is earlier or earlier in set(ast.walk(each)))
    return any(
        isinstance(each, ast.If) and later in set(ast.walk(each)) and not _in_loop_between(later, each, module)
        for each in statements[place + 1 :]
    )


def _in_loop_between(node: ast.AST, holder: ast.AST, module: Module) -> bool:
    for each in module.ancestors(node):
        if each is holder:
            return False
        if isinstance(each, ast.For | ast.While):
            return True
    return False


def _same_feed(later: ast.Call, earlier: ast.Call, function: Function) -> bool:
    feeds = []
    for call in (later, earlier):
        given = next((each.value for each in call.keywords if each.arg == "feed_dict"), None)
        feeds.append(given if given is not None else call.args[1] if len(call.args) > 1 else None)
    text = source_of(feeds[0], 400)
    if not text or text != source_of(feeds[1], 400) or feeds[0] is None:
        return False
    # What is fed may have been taken anew in between.
    read = {each.id for each in ast.walk(feeds[0]) if isinstance(each, ast.Name)}
    lines = [
        getattr(given.by, "lineno", 0) for name in read for given in function.assigned.get(name, ()) if given.how == "="
    ]
    return not any(earlier.lineno < line < later.lineno for line in lines)


def _of_a_set(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in program.linked_uses:
            place = {"compute_gradients": 1, "minimize": 2, "gradients": 1}.get(use.last)
            if place is None:
                continue
            given = use.argument("var_list", place) if use.last != "gradients" else use.argument("xs", 1)
            if given is not None and _is_set(given, use.module, program):
                yield Hit(
                    given, use.module, f"{source_of(given)} is made of a set, whose order changes from run to run"
                )


def _is_set(node: ast.expr, module: Module, program: Program, depth: int = 2) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        name = chain(node.func)
        return name == "set" or (
            name in ("list", "tuple") and bool(node.args) and _is_set(node.args[0], module, program, depth)
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.BitOr | ast.BitAnd):
        return _is_set(node.left, module, program, depth)
    if isinstance(node, ast.Name) and depth:
        given = program.repository.assigned(node.id, module.within.get(node))
        return any(each.how == "=" and _is_set(each.value, module, program, depth - 1) for each in given)
    return False


def _patched(code: Code) -> Iterator[Hit]:
    for module in _modules(code):
        for function in module.functions:
            for node in function.nodes:
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if isinstance(target, ast.Attribute) and module.resolved(target) in (
                            "tf.get_variable",
                            "tf.Variable",
                            "tf.gradients",
                        ):
                            yield Hit(node, module, f"{source_of(target)} is replaced by the script's own")
    for program in code.programs:
        for use in program.linked_uses:
            getter = use.argument("custom_getter")
            if use.last == "variable_scope" and getter is not None and source_of(getter) != "None":
                yield Hit(getter, use.module, f"variables are made by {source_of(getter)}")


def _threads(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in program.functions:
            for call in function.calls:
                if function.module.resolved(call.func) != "threading.Thread":
                    continue
                target = next((each.value for each in call.keywords if each.arg == "target"), None)
                if target is None:
                    continue
                for callee in code.repository._find(target, function.module):
                    if any(is_session_run(each) and _trained(each) for each in callee.calls):
                        yield Hit(call, function.module, f"{callee.name}() trains in a thread of its own")


def _written_between(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for function in dict.fromkeys([*linked(program), *program.leading]):
            for call in function.calls:
                if not is_session_run(call) or not call.args or not _in_a_training_loop(call, function, program):
                    continue
                for each in ast.walk(call.args[0]):
                    if isinstance(each, ast.Call) and assigns(each, function.module):
                        yield Hit(call, function.module, f"{source_of(each)} is made and run between training steps")
                        break


def _in_a_training_loop(node: ast.Call, function: Function, program: Program) -> bool:
    """Whether a loop around a call, or around what calls its function, trains: one over variables before it does not."""
    places: list[tuple[ast.AST, Module]] = [(node, function.module)]
    if function.name:
        calls = program.repository.calls_of(function.name)
        places += [(call, of) for call, of in calls if function in program.repository.callees(call, of)]
    return any(
        isinstance(each, ast.For | ast.While) and _has_training(each, node, of, program)
        for place, of in places
        for each in of.ancestors(place)
    )


def _has_training(loop: ast.For | ast.While, node: ast.Call, module: Module, program: Program) -> bool:
    return any(
        isinstance(each, ast.Call) and each is not node and _runs_training(each)
        for each, _ in program.repository.reached(loop.body, module, 2)
    )


def _runs_training(call: ast.Call) -> bool:
    """Whether a call runs a training op, by a session or by a method of a name that says so."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "run":
        # What a batch is fed to, by whatever name the op is fetched.
        return bool(_trained(call)) or len(call.args) > 1 or any(key.arg == "feed_dict" for key in call.keywords)
    return call.func.attr in ("train_step", "train_on_batch")


def _half(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        for use in program.uses:
            if (
                use.last == "cast"
                and program.is_in_towers(use.call)
                and re.search("float16|bfloat16|half", source_of(use.call))
            ):
                yield Hit(use.call, use.module, f"{source_of(use.call)}: towers compute in half precision")
                break


def uses_of(program: Program) -> list[Use]:
    """Returns the calls of what a loop over towers leads to."""
    return list(program.linked_uses)


PROGRAM_RULES = (
    Rule(
        "TP601",
        "device-function-without-handles",
        Severity.NOTE,
        "a device function does not know resource variables",
        "A function that places variables compares an op's type with names that lack `VarHandleOp`. With `Variable` and "
        "without `VariableV2` it matches nothing that TensorFlow 1 makes: variables that are made under it go to the "
        "towers' devices. With `VariableV2` it places what `tf.Variable` and `tf.get_variable` make, and only resource "
        "variables (`use_resource=True`, those of `tf.keras`) go to the towers' devices. A note, since no "
        "result depends on it.",
        "Nothing: results are the same wherever a variable is. Do not infer from such a function where a variable is that "
        "it does not match.",
        "`model.to(device)`.",
        _device_function,
        for_one_tower=True,
    ),
    Rule(
        "TP602",
        "trained-twice-on-a-batch",
        Severity.WARNING,
        "a batch is trained on twice in some steps",
        "A second run, for summaries or a checkpoint, fetches the training op again with the same feed: it makes "
        "another update.",
        "A port that logs without training makes fewer updates.",
        "Train twice on that batch, or count the steps otherwise: `parity record` lists the runs.",
        _again,
        hazards=("batch_trained_twice",),
        for_one_tower=True,
    ),
    Rule(
        "TP603",
        "variables-from-a-set",
        Severity.NOTE,
        "the list of variables comes from a set",
        "The order of a set of variables changes from run to run: what is paired or saved by position is another "
        "each time. A note, since within a run all towers have the same order, and optimizers and checkpoints go by the "
        "variable: whether anything goes by position from one run to the next, the source does not say.",
        "Parameters have a fixed order, and names.",
        "Match by name: `parity map`.",
        _of_a_set,
        for_one_tower=True,
    ),
    Rule(
        "TP604",
        "variables-made-otherwise",
        Severity.NOTE,
        "variables are made by code of the script's own",
        "`tf.get_variable` is replaced, or a custom getter is given: what a variable's name holds is what that code "
        "says (weight "
        "normalisation, averages, other types).",
        "A parameter is what the module holds.",
        "Look at what the getter does: `torch.nn.utils.parametrizations`, or averages of the weights.",
        _patched,
        for_one_tower=True,
    ),
    Rule(
        "TP605",
        "trained-in-threads",
        Severity.NOTE,
        "training runs come from several threads",
        "Each thread runs the training op: updates come in no order, from weights that others change meanwhile.",
        "DDP is one update after the other.",
        "No port repeats the order. `parity record` makes the runs one after the other.",
        _threads,
        hazards=("trained_in_threads",),
        for_one_tower=True,
    ),
    Rule(
        "TP606",
        "written-between-steps",
        Severity.NOTE,
        "variables are written between training steps",
        "The training loop makes and runs an assignment. Made in each step, it also makes the graph larger each time.",
        "What is written outside of the update is not in the optimizer: a port has to write it too.",
        "Write it in the loop, on each rank: `parity record` names the variable and its values.",
        _written_between,
        hazards=("changed_between_steps",),
        only_found="The source does not show whether what is assigned belongs to the model.",
        only_recorded="Assignments that are made before the loop and run in it are seen by the recording only.",
        for_one_tower=True,
    ),
    Rule(
        "TP607",
        "half-precision",
        Severity.NOTE,
        "towers compute in half precision",
        "Values are cast to half precision in the towers. Where losses are scaled, who unscales, and who skips a "
        "step, decides.",
        "`torch.autocast` and `GradScaler` choose other ops for half, and skip by rank after the all-reduce.",
        "[Mixed precision](../amp.md); levels 1 and 2 are judged with the towers in float32.",
        _half,
        decided=False,
        for_one_tower=True,
    ),
)
