"""A loop over towers: what is in it, which names depend on the tower, and what in it is named or shared by towers."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from parity.scan.model.module import Function, Module
from parity.scan.model.repository import source_of

LOOP_WORDS = re.compile(r"gpu|device|tower|clone|replica|shard|parallel|worker|core", re.IGNORECASE)
SCOPE_WORDS = re.compile(r"gpu|tower|clone|replica|device|parallel|model_?[%{]", re.IGNORECASE)
LOSS_WORDS = re.compile(r"loss|cost|nll|xent|cross_entropy|objective|perplexity", re.IGNORECASE)
GRADIENT_CALLS = frozenset(
    ["compute_gradients", "minimize", "gradients", "gradient", "get_gradients", "optimize_clones"]
)
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

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All that is in the loop itself, without what is in what it calls."""
        return [each for part in self.body for each in self.module.inside(part)]

    @property
    def over(self) -> str:
        """What the loop goes over, as source."""
        return source_of(self.loop.iter)

    def depends(self, node: ast.AST) -> bool:
        """Whether an expression in the loop itself depends on the tower."""
        return mentions(node, self.names, self.module)

    def names_scope(self) -> bool:
        """Whether a scope is named after the tower."""
        for each in self.nodes:
            if (
                isinstance(each, ast.Call)
                and each.args
                and self.module.resolved(each.func).rpartition(".")[2] in ("name_scope", "variable_scope", "op_scope")
                and self.depends(each.args[0])
                and SCOPE_WORDS.search(source_of(each.args[0]))
            ):
                return True
        return False

    def reuses_variables(self) -> bool:
        """Whether variables are shared from the second iteration on."""
        for each in self.nodes:
            if not isinstance(each, ast.Call):
                continue
            name = self.module.resolved(each.func).rpartition(".")[2]
            if any(key.arg == "reuse" and self.depends(key.value) for key in each.keywords):
                return True
            if name in ("reuse_variables", "make_template"):
                return True
        return False


def names_in(target: ast.AST) -> set[str]:
    """Returns the names that a target binds."""
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def dependent_names(names: set[str], nodes: Sequence[ast.AST], module: Module) -> set[str]:
    """Returns some names, and those that are given what is made of them."""
    names = set(names)
    for _ in range(2):  # what is made of what is made
        for each in nodes:
            if isinstance(each, ast.AugAssign) and isinstance(each.value, ast.Constant):
                names |= names_in(each.target)  # a counter: `i += 1`
            elif isinstance(each, ast.Assign) and mentions(each.value, names, module):
                for target in each.targets:
                    names |= names_in(target)
            elif isinstance(each, ast.FunctionDef) and _reads(each, names, module):
                names.add(each.name)  # defined anew in each iteration: `def device_of(op): return "/gpu:%d" % i`
    return names


def _reads(function: ast.FunctionDef, names: set[str], module: Module) -> bool:
    """Whether a function reads a name of what it is defined in."""
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    return any(mentions(each, names - own, module) for each in function.body)


def mentions(node: ast.AST, names: set[str], module: Module) -> bool:
    """Whether an expression has one of some names in it."""
    return any(isinstance(each, ast.Name) and each.id in names for each in module.inside(node))
