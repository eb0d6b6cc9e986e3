"""Towers that are written out: a block for each device, one behind the other, that all do the same."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.scan.inventory.devices import is_device
from parity.scan.model.module import Function, Module
from parity.scan.model.places import place_of
from parity.scan.model.repository import Repository
from parity.scan.result import WRITTEN_OUT, Fact, Towers

CALLS_OF_GRADIENTS = frozenset(["compute_gradients", "gradients"])
NAMES_OF_BLOCKS = ("body", "orelse", "finalbody")


class Block(NamedTuple):
    """A `with` for a device.

    Fields:
      node: the statement.
      device: as it is written.
      calls: how often it calls what, by canonical name.
    """

    node: ast.With
    device: str
    calls: Counter[str]


def written_out_towers(repository: Repository) -> Iterator[Towers]:
    """Yields places where two blocks or more compute gradients by the same calls, each on a GPU of its own."""
    for module in repository.modules:
        for function in module.functions:
            for blocks in _groups(function):
                words = f"{len(blocks)} towers, a block for each: rules and plans look at loops only"
                facts = (Fact("what it is", words), Fact("devices", ", ".join(each.device for each in blocks)))
                yield Towers(WRITTEN_OUT, place_of(blocks[0].node, module), function.name, facts)


def _groups(function: Function) -> Iterator[list[Block]]:
    module = function.module
    blocks_of_devices = [node for node in function.nodes if isinstance(node, ast.With) and _gpu(node, module)]
    holders = dict.fromkeys(module.parents[each] for each in blocks_of_devices)
    for holder in holders:
        for name in NAMES_OF_BLOCKS:
            statements = getattr(holder, name, None)
            blocks = [*_blocks(statements, module)] if isinstance(statements, list) else []
            same = [each for each in blocks if each.calls == blocks[0].calls]
            if len({each.device for each in same}) == len(same) > 1:
                yield same


def _blocks(statements: Sequence[ast.stmt], module: Module) -> Iterator[Block]:
    for each in statements:
        device = _gpu(each, module) if isinstance(each, ast.With) else ""
        if isinstance(each, ast.With) and device:
            calls = [node for node in module.inside(each) if isinstance(node, ast.Call)]
            names = [module.resolved(call.func) for call in calls]
            if any(name.rpartition(".")[2] in CALLS_OF_GRADIENTS for name in names):
                yield Block(each, device, Counter(names))


def _gpu(node: ast.With, module: Module) -> str:
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and is_device(call, module) and isinstance(call.args[0], ast.Constant):
            device = call.args[0].value
            return device if isinstance(device, str) and "gpu" in device.lower() else ""
    return ""
