"""Which loops of a repository build towers: an iteration for each device, with a model in it."""

import ast

from parity.scan.inventory.devices import chosen_device
from parity.scan.inventory.kinds import kind_of
from parity.scan.inventory.loops import GRADIENT_CALLS, LOOP_WORDS, Loop, TowerLoop, dependent_names, names_in
from parity.scan.model.module import Function
from parity.scan.model.repository import Repository
from parity.scan.result import TOWERS

REGION_DEPTH = 4  # calls in calls that are looked through for a model and a gradient


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


def _look(loop: Loop, node: ast.AST, function: Function, repository: Repository) -> TowerLoop | None:
    module = function.module
    towers = TowerLoop(TOWERS, loop, node, module, function, names_in(loop.target))
    if not any(isinstance(each, ast.Call) for each in towers.nodes):
        return None
    towers.names = dependent_names(towers.names, towers.nodes, module)
    chosen = chosen_device(towers.nodes, towers.names, module, repository)
    if chosen is not None:
        towers.device, towers.device_module = chosen
    elif not _is_over_towers(towers, repository):
        return None
    towers.region = list(repository.reached(towers.body, module, REGION_DEPTH))
    kind = kind_of(towers, repository)
    if kind is None:
        return None
    towers.kind = kind
    return towers


def _is_over_towers(loop: TowerLoop, repository: Repository) -> bool:
    """Whether a loop that chooses no device is one over towers all the same."""
    if loop.names_scope():
        return True
    if LOOP_WORDS.search(loop.over) and loop.reuses_variables():
        return True
    module = loop.module
    last = {module.resolved(each.func).rpartition(".")[2] for each in loop.nodes if isinstance(each, ast.Call)}
    return bool(last & GRADIENT_CALLS) and any(
        isinstance(each, ast.Call) and module.resolved(each.func) == "tf.split"
        for each in repository.sources(loop.loop.iter, module, 2)
    )


def _outermost(loops: list[TowerLoop]) -> list[TowerLoop]:
    """Leaves out loops in loops: one that goes over the devices inside of one that does."""
    nodes = {loop.node for loop in loops}
    return [loop for loop in loops if not any(each in nodes for each in loop.module.ancestors(loop.node))]
