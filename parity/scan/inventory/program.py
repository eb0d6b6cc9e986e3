"""The program around a loop over towers: what it calls, how its towers are combined."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from parity.scan.inventory.combination import Combiner, combiner_of, combiners
from parity.scan.inventory.endings import Endings
from parity.scan.inventory.loops import TowerLoop
from parity.scan.inventory.towers import tower_loops
from parity.scan.model.calls import Calls
from parity.scan.model.constants import Constants
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.options import Options
from parity.scan.model.reach import Reach
from parity.scan.model.repository import Repository
from parity.scan.result import TOWERS

PROGRAM_DEPTH = 4  # calls in calls, from the function with the loop and from those that call it


class Use(NamedTuple):
    """A call.

    Fields:
      call: the node.
      module: in which.
      name: canonical, of what is called.
    """

    call: ast.Call
    module: Module
    name: str

    @property
    def last(self) -> str:
        """The name behind the last dot."""
        return self.name.rpartition(".")[2]

    def argument(self, name: str, place: int | None = None) -> ast.expr | None:
        """Returns what is given by a name or at a place, None where nothing is."""
        for each in self.call.keywords:
            if each.arg == name:
                return each.value
        if place is not None and place < len(self.call.args) and not isinstance(self.call.args[place], ast.Starred):
            return self.call.args[place]
        return None


@dataclass(eq=False)
class Program:
    """A loop over towers and all that it is part of.

    Attributes:
      loop: the loop.
      combiner: what combines its towers, or None.
      repository: that it is in.
    """

    loop: TowerLoop
    combiner: Combiner | None
    repository: Repository
    in_towers: set[ast.AST] = field(default_factory=set)
    _related: dict[Module, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keeps what an iteration runs."""
        self.in_towers = {node for node, _ in self.loop.region}

    @cached_property
    def uses(self) -> list[Use]:
        """The calls of the program: in its file, and in what its function and those that call it lead to."""
        seen: set[ast.AST] = set()
        uses: list[Use] = []
        for node, module in self._nodes():
            if isinstance(node, ast.Call) and node not in seen and not self._is_instead(node, module):
                seen.add(node)
                uses.append(Use(node, module, module.resolved(node.func)))
        return uses

    @cached_property
    def linked_uses(self) -> list[Use]:
        """The calls in the linked functions, but for those that are made in the place of the loop."""
        return [
            Use(call, function.module, function.module.resolved(call.func))
            for function in self.linked
            for call in function.calls
            if not self._is_instead(call, function.module)
        ]

    def _is_instead(self, node: ast.AST, module: Module) -> bool:
        """Whether something is in another branch of an `if` that the loop is in: it runs where there are no towers."""
        if module is not self.loop.module or not self._branches:
            return False
        below = node
        for each in module.ancestors(node):
            if each in self._branches and below is not each.test and (below in each.body) != self._branches[each]:  # type: ignore[attr-defined]
                return True
            below = each
        return False

    @cached_property
    def _branches(self) -> dict[ast.AST, bool]:
        """Of each `if` around the loop whether that is in its first branch."""
        branches: dict[ast.AST, bool] = {}
        below: ast.AST = self.loop.node
        for each in self.loop.module.ancestors(self.loop.node):
            if isinstance(each, ast.If):
                branches[each] = below in each.body
            below = each
        return branches

    def _nodes(self) -> Iterator[tuple[ast.AST, Module]]:
        yield from self.loop.region
        for function in self.loop.module.functions:
            yield from ((node, self.loop.module) for node in function.nodes)
        for function in (self.loop.function, *self.repository.callers(self.loop.function)):
            yield from self.repository.reached(function.body, function.module, PROGRAM_DEPTH)

    def used(self, *names: str) -> list[Use]:
        """Returns the calls of some canonical names, or names behind the last dot where they begin with one."""
        whole, last = set(names), {name[1:] for name in names if name.startswith(".")}
        return [use for use in self.uses if use.name in whole or use.last in last]

    def is_in_towers(self, node: ast.AST) -> bool:
        """Whether something runs for each tower."""
        return node in self.in_towers

    @cached_property
    def functions(self) -> list[Function]:
        """The functions of the program, each once."""
        functions = [self.repository.homes[use.call] for use in self.uses if use.call in self.repository.homes]
        return list(dict.fromkeys([*self.loop.module.functions, *functions]))

    @cached_property
    def linked(self) -> list[Function]:
        """The functions that the loop's own one leads to, its callers, and what these lead to."""
        loop, repository = self.loop, self.repository
        start = [loop.function, *repository.callers(loop.function)]
        functions = dict.fromkeys(start)
        for each in start:
            for node, _ in repository.reached(each.body, each.module, 3):
                if isinstance(node, ast.Call) and node in repository.homes:
                    functions[repository.homes[node]] = None
        for node, _ in loop.region:
            if isinstance(node, ast.Call) and node in repository.homes:
                functions[repository.homes[node]] = None
        if loop.function.owner:
            functions |= dict.fromkeys(each for each in loop.module.functions if each.owner == loop.function.owner)
        return [each for each in functions if self._is_related(each.module) and each not in self._instead]

    @cached_property
    def leading(self) -> list[Function]:
        """The functions that call those that call the loop's own one, and their callers: a training loop may be there."""
        callers = list(self.repository.callers(self.loop.function))
        leading, waiting = dict.fromkeys([self.loop.function, *callers]), callers
        for _ in range(PROGRAM_DEPTH):
            waiting = [
                each for function in waiting for each in self.repository.callers(function) if each not in leading
            ]
            leading |= dict.fromkeys(waiting)
        return [each for each in leading if self._is_related(each.module) and each not in self._instead]

    @cached_property
    def _instead(self) -> set[Function]:
        """Functions that a caller calls in the other branch of the `if` that leads to the loop: one GPU, or many."""
        loop, repository = self.loop, self.repository
        instead: set[Function] = set()
        for caller in repository.callers(loop.function):
            for call in caller.calls:
                if loop.function not in repository.callees(call, caller.module):
                    continue
                below: ast.AST = call
                for each in caller.module.ancestors(call):
                    if isinstance(each, ast.If) and below is not each.test:
                        other = each.orelse if below in each.body else each.body
                        instead |= set(self._called(other, caller.module))
                    below = each
        if not instead:
            return instead
        return instead - set(self._called(loop.function.body, loop.module)) - {loop.function}

    def _called(self, nodes: Sequence[ast.stmt], module: Module) -> Iterator[Function]:
        for node, of in self.repository.reached(nodes, module, 3):
            if isinstance(node, ast.Call):
                yield from self.repository.callees(node, of)

    def _is_related(self, module: Module) -> bool:
        """Whether a module imports the loop's or is imported by it: methods of one name may be of another program."""
        loop = self.loop.module
        if module not in self._related:
            self._related[module] = (
                module in imported_modules(loop, self.repository)
                or loop in imported_modules(module, self.repository)
                # What is imported by a name that is made up when the script runs may be anything.
                or any("import_module" in line or "__import__" in line for line in loop.lines)
            )
        return self._related[module]


@dataclass(eq=False)
class Code:
    """What rules look at.

    Attributes:
      repository: all modules.
      loops: over towers, whatever their kind.
      combiners: of gradients, whether a loop is known to lead to them or not.
      programs: one for each loop that trains.
    """

    repository: Repository
    loops: Sequence[TowerLoop]
    combiners: Sequence[Combiner]
    programs: Sequence[Program]

    @cached_property
    def reach(self) -> Reach:
        """What runs, as far as source says: towers do, whoever calls them and whatever turns them off."""
        around = {each for loop in self.loops for each in loop.module.ancestors(loop.node)}
        begins = frozenset(loop.function for loop in self.loops)
        return Reach(Constants(self._calls), begins, around)

    @cached_property
    def reach_by_default(self) -> Reach:
        """What runs where no option has a value that nothing gives it; whatever leads to towers does."""
        repository = self.repository
        taken = set(self.reach.taken)
        for loop in self.loops:
            for function in (loop.function, *repository.callers(loop.function)):
                for call, module in repository.calls_of(
                    function.owner if function.name == "__init__" else function.name
                ):
                    taken |= set(module.ancestors(call))
        return Reach(Constants(self._calls, Options(repository)), self.reach.begins, taken)

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.repository)

    @cached_property
    def reach_by_choice(self) -> Reach:
        """The same, where a branch of a choice by name runs only if something is seen to choose it."""
        reach = self.reach_by_default
        return Reach(reach.constants, reach.begins, reach.taken, by_choice=True)

    @cached_property
    def reach_by_use(self) -> Reach:
        """What something in the repository leads to: towers too, where it makes their class or calls them."""
        return Reach(self.reach.constants, taken=self.reach_by_default.taken, by_use=True)

    @cached_property
    def endings(self) -> Endings:
        """What keeps programs from training."""
        return Endings(self.repository, self.programs)


def code_of(repository: Repository) -> Code:
    """Returns what rules look at, of all modules."""
    loops, known = tower_loops(repository), combiners(repository)
    programs = [
        Program(loop, combiner_of(loop, known, repository), repository) for loop in loops if loop.kind == TOWERS
    ]
    return Code(repository, loops, known, programs)
