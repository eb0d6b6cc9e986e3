"""Batch norms: whether they leave updates in the collection `UPDATE_OPS`, and whether towers are seen to build them."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from parity.scan.inventory.program import Program, Use
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.reach import Reach
from parity.scan.model.repository import DEFINING, Repository, source_of

NORM_DEPTH = 8  # calls in calls, from a tower, in which a batch norm is looked for
NORM_NAMES = re.compile(r"^(batch_?norm(alization)?\w*|bn|bn_\w*|\w*_bn)$", re.IGNORECASE)
NORMS_OF_SLIM = frozenset(
    ["slim.batch_norm", "tf.contrib.layers.batch_norm", "tf.contrib.layers.python.layers.batch_norm"]
)
NORMS_OF_LAYERS = frozenset(["tf.layers.batch_normalization", "tf.layers.BatchNormalization"])
# They compute, and update nothing.
NO_UPDATES = re.compile(r"^tf\.nn\.|^keras\.")
FLAG_WORDS = re.compile(r"norm|(^|_)bn($|_)", re.IGNORECASE)
LAYER_CALLS = re.compile(
    r"^(tf\.nn\.(conv|bias_add)|tf\.layers\.(conv|dense)|slim\.(conv|fully_connected|separable|repeat)|keras\.layers\.)"
)
NEVER_A_NET = re.compile(r"^(tf|slim|keras|np|numpy|os|sys|six|hvd)(\.|$)")
WORDS_OF_NETS = re.compile(r"(^|[._])(nets?|models?|\w*net(_?v?\d+)?|factory)([._]|$)", re.IGNORECASE)
NETS_OF_SLIM = re.compile(r"^slim\.nets\.(\w+\.)?(resnet|inception|mobilenet|nasnet)")


class Norm(NamedTuple):
    """A batch norm in the source.

    Fields:
      node: the call, or what names it for a layer that makes it.
      module: in which.
      puts: whether it leaves updates in the collection; None where that is not seen.
    """

    node: ast.AST
    module: Module
    puts: bool | None


def norms_in(node: ast.AST, module: Module, repository: Repository) -> Iterator[Norm]:
    """Yields the batch norm that a node makes: by a call, by `normalizer_fn=`, or by hand into the collection."""
    if isinstance(node, ast.Call):
        name = module.resolved(node.func)
        last = name.rpartition(".")[2]
        if last in ("add_to_collection", "add_to_collections") and "UPDATE_OPS" in source_of(node, 200):
            yield Norm(node, module, None if _is_metric(node, module) else True)
        elif name in NORMS_OF_SLIM:
            yield Norm(node, module, not _in_place(node, module, repository))
        elif NETS_OF_SLIM.search(name) and "arg_scope" not in last:
            yield Norm(node, module, True)
        elif name in NORMS_OF_LAYERS:
            use = Use(node, module, name)
            training = use.argument("training")
            # Not training unless it is said; a layer that is called gets it then.
            absent = training is None and last != "BatchNormalization"
            yield Norm(node, module, not absent and not _is(training, False))
        elif NORM_NAMES.search(last) and not NO_UPDATES.search(name) and not repository.callees(node, module):
            yield Norm(node, module, None)
    if isinstance(node, ast.keyword) and node.arg in ("normalizer_fn", "norm_fn", "normalizer"):
        named = module.resolved(node.value)
        if named in NORMS_OF_SLIM:
            above = module.parents.get(node)
            yield Norm(node.value, module, not (isinstance(above, ast.Call) and _in_place(above, module, repository)))


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_metric(node: ast.Call, module: Module) -> bool:
    function = module.within.get(node)
    text = f"{function.name if function else ''} {source_of(node, 300)}"
    return bool(re.search(r"metric|confusion|accuracy|\bmAP\b|iou", text, re.IGNORECASE))


def _in_place(call: ast.Call, module: Module, repository: Repository) -> bool:
    """Whether the updates are made where the layer is computed: by `updates_collections=None`, also in a dictionary."""
    for each in call.keywords:
        if each.arg == "updates_collections":
            return _is(each.value, None)
        if (each.arg is None or each.arg in ("normalizer_params", "norm_params")) and _says_in_place(
            each.value, module, repository
        ):
            return True
    return False


def _says_in_place(node: ast.expr, module: Module, repository: Repository) -> bool:
    for part in repository.sources(node, module):
        if isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "updates_collections":
                    return _is(value, None)
    return False


def scoped_in_place(modules: set[Module], repository: Repository) -> bool:
    """Whether an `arg_scope` of batch norms, in what is imported, has them update in place."""
    return any(
        module.resolved(call.func).endswith("arg_scope")
        and "batch_norm" in source_of(call.args[0] if call.args else None, 300)
        and _in_place(call, module, repository)
        for module in modules
        for function in module.functions
        for call in function.calls
    )


def updates_of_towers(program: Program, reach: Reach) -> bool | None:
    """Whether a tower's own net puts updates of moving statistics into the collection.

    True where a batch norm that does is among what an iteration calls, and no flag that the source leaves open is around
    it; or where the net is not seen, since it is chosen when the script runs, and every batch norm of what is imported
    puts updates there. False where none of what is imported does, but for what is put there beside the towers; else None,
    also where the net is not in the repository, and where constants of this program choose another net than those with a
    batch norm.
    """
    repository = program.repository
    imported = imported_modules(program.loop.module, repository)
    region = list(reached_by_towers(program, imported))
    built = [norm for node, module in region for norm in norms_in(node, module, repository)]
    all_norms = [
        norm
        for module in imported
        for function in module.functions
        for node in function.nodes
        for norm in norms_in(node, module, repository)
        if not _is_put_outside(norm, program)
    ]
    putting = [norm for norm in all_norms + built if norm.puts is not False and _switch(norm, imported) is not False]
    if not putting:
        return None if any(_is_elsewhere(node, module, imported) for node, module in region) else False
    if scoped_in_place(imported, repository):
        return None
    own = reach.of_program(imported | {function.module for function in program.linked})
    chosen = [norm for norm in built if not own.why_not(norm.node, norm.module)]
    if any(norm.puts and _switch(norm, imported) for norm in chosen):
        return True
    if built and not chosen:
        return None
    has_layers = any(
        isinstance(node, ast.Call) and LAYER_CALLS.search(module.resolved(node.func)) for node, module in region
    )
    if built or has_layers or any(_is_elsewhere(node, module, imported) for node, module in region):
        return None
    return True if all(norm.puts and _switch(norm, imported) for norm in all_norms) else None


def _is_put_outside(norm: Norm, program: Program) -> bool:
    """Whether an update is put into the collection once, beside the towers: where the loop stands, or what leads to it."""
    named = norm.module.resolved(norm.node.func) if isinstance(norm.node, ast.Call) else ""
    return (
        named.rpartition(".")[2] in ("add_to_collection", "add_to_collections")
        and not program.is_in_towers(norm.node)
        and norm.module.within.get(norm.node) in program.leading
    )


def norms_of_towers(program: Program) -> list[Norm]:
    """Returns the batch norms among what an iteration calls."""
    imported = imported_modules(program.loop.module, program.repository)
    region = reached_by_towers(program, imported)
    return [norm for node, module in region for norm in norms_in(node, module, program.repository)]


def reached_by_towers(program: Program, imported: set[Module]) -> Iterator[tuple[ast.AST, Module]]:
    """Yields what a tower calls, with the methods of the classes whose objects it makes."""
    repository = program.repository
    classes = {name: module for module in imported for name in module.classes}
    seen: set[str] = set()
    waiting = [(statement, program.loop.module) for statement in program.loop.body]
    while waiting:
        parts, waiting = waiting, []
        for module in dict.fromkeys(of for _, of in parts):
            for node, of in repository.reached([each for each, its in parts if its is module], module, NORM_DEPTH):
                yield node, of
                name = chain(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
                while name in classes and name not in seen:
                    seen.add(name)
                    home = classes[name]
                    for function in home.functions:
                        if function.owner == name:
                            waiting += [(statement, home) for statement in function.body]
                    bases = [base.rpartition(".")[2] for base in home.classes[name]]
                    name = next((base for base in bases if base in classes), "")


def _is_elsewhere(node: ast.AST, module: Module, imported: set[Module]) -> bool:
    """Whether a call is of a net that is not in the repository: of a name that its module lacks, or of another package."""
    if not isinstance(node, ast.Call) or chain(node.func).partition(".")[0] not in module.imports:
        return False
    name = module.resolved(node.func)
    source, _, last = name.rpartition(".")
    if NEVER_A_NET.search(name):
        return False
    homes = [each for each in imported if each.name == source or each.name.endswith(f".{source}")]
    if homes:
        return not any(_has(each, last) for each in homes)
    known = {part for each in imported for part in each.name.split(".")}
    return not known & set(name.split(".")) and bool(WORDS_OF_NETS.search(name))


def _has(module: Module, name: str) -> bool:
    names = {function.name for function in module.functions} | module.classes.keys() | module.imports.keys()
    return name in names or name in module.functions[0].assigned or any(each[0] == "*" for each in module.imports)


def _conditions(norm: Norm) -> Iterator[ast.expr]:
    """Yields the tests in the norm's own function that it stands below."""
    function = norm.module.within.get(norm.node)
    for each in norm.module.ancestors(norm.node):
        if function is not None and each is function.node:
            return
        if isinstance(each, ast.If | ast.IfExp):
            yield each.test


def _switch(norm: Norm, imported: set[Module]) -> bool | None:
    """Whether flags for batch norms let one be made: False where one is off wherever it is given, None where it is open."""
    own = _switch_here(norm, imported)
    function = norm.module.within.get(norm.node)
    if own is not True or function is None or not NORM_NAMES.search(function.name):
        return own
    # A batch norm of the script's own: the flags stand around what calls it.
    calls = [
        _switch_here(Norm(call, module, None), imported)
        for module in imported
        for each in module.functions
        for call in each.calls
        if chain(call.func).rpartition(".")[2] == function.name
    ]
    return True if True in calls or not calls else None if None in calls else False


def _switch_here(norm: Norm, imported: set[Module]) -> bool | None:
    answers: list[bool | None] = []
    for test in _conditions(norm):
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name) and FLAG_WORDS.search(each.id)}
        answers += [_flag(name, norm, imported) for name in sorted(names)]
    return False if False in answers else None if None in answers else True


def _flag(name: str, norm: Norm, imported: set[Module]) -> bool | None:
    given = []
    scoped = calls = 0
    function = norm.module.within.get(norm.node)
    for module in imported:
        for each in module.functions:
            for call in each.calls:
                values = [keyword.value for keyword in call.keywords if keyword.arg == name]
                given += values
                scoped += bool(values) and module.resolved(call.func).endswith("arg_scope")
                calls += (
                    function is not None and not values and chain(call.func).rpartition(".")[2] == function.name != ""
                )
    if any(_is(value, True) for value in given):
        return True
    default = default_of(name, function)
    if _is_on_by_a_flag(name, norm):
        return True
    if _is(default, True) and calls and not scoped:
        return True
    if (given or default is not None) and all(_is(value, False) for value in given):
        return False if given or _is(default, False) else None
    return None


def _is_on_by_a_flag(name: str, norm: Norm) -> bool:
    """Whether a name is computed of the script's flags, and those for batch norms are True by default."""
    function = norm.module.within.get(norm.node)
    given = function.assigned.get(name, ()) if function is not None else ()
    named = [
        part.attr
        for each in given
        for part in norm.module.inside(each.value)
        if isinstance(part, ast.Attribute) and FLAG_WORDS.search(part.attr)
    ]
    defaults = [
        source_of(call.args[1] if len(call.args) > 1 else None)
        for each in norm.module.functions
        for call in each.calls
        if chain(call.func).rpartition(".")[2] in DEFINING
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value in named
    ]
    return bool(defaults) and all(default == "True" for default in defaults)


def default_of(name: str, function: Function | None) -> ast.expr | None:
    """Returns the default of a parameter, None where it has none."""
    if function is None or not isinstance(function.node, ast.FunctionDef) or name not in function.parameters:
        return None
    defaults = function.node.args.defaults
    place = len(defaults) - len(function.parameters) + function.parameters.index(name)
    return defaults[place] if place >= 0 else None


def is_read_early(use: Use, program: Program) -> bool:
    """Whether a collection is read before the loop that builds the towers: it cannot hold what they put there."""
    loop = program.loop
    if use.module is not loop.module or use.module.within.get(use.call) is not loop.function:
        return False
    around = set(loop.module.ancestors(loop.node))
    again = any(isinstance(each, ast.For | ast.While) and each in around for each in use.module.ancestors(use.call))
    return not again and use.call.lineno < int(getattr(loop.node, "lineno", 0))
