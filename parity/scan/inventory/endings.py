"""Why a program ends before it trains: imports that find nothing, names that are bound nowhere, in scripts or in towers."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.scan.model.bound import lacking_attributes, lacking_imports, runs_always, unbound_names
from parity.scan.model.imports import imported_modules, module_named
from parity.scan.model.module import Function, Module
from parity.scan.model.repository import Repository, source_of

if TYPE_CHECKING:
    from parity.scan.inventory.program import Program

CALLS_DEPTH = 3  # calls in calls, of what each tower runs
# A module that is started: what imports it alone does not train.
STARTED_BY = re.compile(r"""__name__\s*==\s*["']__main__|app\.run\(|^main\(|^train\w*\(""", re.MULTILINE)


@dataclass(eq=False)
class Endings:
    """What keeps programs of a repository from training.

    Attributes:
      repository: all modules.
      programs: one for each loop that trains.
    """

    repository: Repository
    programs: "Sequence[Program]"
    _lacking: dict[Module, list[tuple[ast.expr, str]]] = field(default_factory=dict)
    _imports: dict[Module, str] = field(default_factory=dict)
    _training: "dict[Program, str]" = field(default_factory=dict)

    def before(self, node: ast.AST, module: Module) -> str:
        """Returns why nothing that leads to a place can be run as far as it trains, "" where something may."""
        own = self.of_imports(module) or self._of_names(node, module)
        if own:
            return own
        leading = self.leading_to(module)
        ends = [_in_file(self._of_program(each), each.loop.module, module) for each in leading]
        return ends[0] if ends and all(ends) else ""

    def _of_names(self, node: ast.AST, module: Module) -> str:
        top, own = module.functions[0], module.within.get(node)
        return self._that_runs(top) or (self._that_runs(own, node) if own is not None else "")

    def leading_to(self, module: Module) -> "list[Program]":
        """Returns the programs of a module: whose loops are in it, else that import it, or that it imports."""
        here = [program for program in self.programs if program.loop.module is module]
        return here or [
            program
            for program in self.programs
            if module in imported_modules(program.loop.module, self.repository)
            or program.loop.module in imported_modules(module, self.repository)
        ]

    def _of_program(self, program: "Program") -> str:
        if program not in self._training:
            self._training[program] = (
                self.of_imports(program.loop.module)
                or self._of_towers(program)
                or self._of_scripts(program.loop.module)
            )
        return self._training[program]

    def _of_scripts(self, module: Module) -> str:
        """Why none of the scripts that lead to a module that is none itself gets beyond its imports."""
        if _is_started(module):
            return ""
        leading = [each for each in self.repository.modules if module in imported_modules(each, self.repository)]
        ends = [_in_file(self.of_imports(each), each, module) for each in leading if _is_started(each)]
        return ends[0] if ends and all(ends) else ""

    def _of_towers(self, program: "Program") -> str:
        """Why the function of a loop, or what its first iteration calls, ends."""
        loop = program.loop
        why = self._that_runs(loop.function, loop.node) or self._that_runs(loop.module.functions[0])
        if why:
            return why
        seen: set[Function] = set()
        waiting = [(call, loop.module, CALLS_DEPTH) for call in loop.nodes if isinstance(call, ast.Call)]
        waiting = [each for each in waiting if runs_always(each[0], loop.function, loop.node)]
        while waiting:
            call, module, left = waiting.pop(0)
            callees = self.repository.callees(call, module)
            if len(callees) != 1 or callees[0] in seen or not left:
                continue
            (callee,) = callees
            seen.add(callee)
            why = self._that_runs(callee, first=True)
            if why:
                return _in_file(why, callee.module, loop.module)
            inner = [each for each in callee.calls if runs_always(each, callee)]
            waiting += [(each, callee.module, left - 1) for each in inner]
        return ""

    def _that_runs(self, function: Function, node: ast.AST | None = None, first: bool = False) -> str:
        """Returns the name that is not there and that a function reads whenever it runs (what a node is), or first."""
        module = function.module
        if module not in self._lacking:
            names = unbound_names(module, self.repository.modules)
            self._lacking[module] = [(name, "is bound nowhere in its module") for name in names]
            attributes = lacking_attributes(module, self.repository)
            self._lacking[module] += [(each, f"is nowhere: {why}") for each, why in attributes]
        for name, why in self._lacking[module]:
            if module.within.get(name) is function and (
                runs_always(name, function, node) or (first and _is_of_first_tower(name, function))
            ):
                return f"{source_of(name)} in line {name.lineno} {why}"
        return ""

    def of_imports(self, module: Module) -> str:
        """Why a module cannot be imported: what is no Python, a name that is nowhere, or another such module."""
        if module not in self._imports:
            self._imports[module] = ""  # while it is looked at: of modules that import each other
            self._imports[module] = self._reason(module)
        return self._imports[module]

    def _reason(self, module: Module) -> str:
        if module.broken:
            return f"line {module.broken} is no Python"
        top = module.functions[0]
        for imported, lacking in lacking_imports(module, self.repository):
            if runs_always(imported, top):
                source = getattr(imported, "module", None) or ""
                where = f"which {source} does not have" if source and source != lacking else "which is nowhere"
                return f"line {imported.lineno} imports {lacking}, {where}"
        for node in top.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and runs_always(node, top):
                for each in module_named(node, module, self.repository):
                    # Python 2 read some of what the parser here does not.
                    why = "" if each.broken else _in_file(self.of_imports(each), each, module)
                    if why:
                        return why
        return ""


def _is_started(module: Module) -> bool:
    return bool(STARTED_BY.search("\n".join(module.lines)))


def _is_of_first_tower(node: ast.AST, function: Function) -> bool:
    """Whether something runs where the first tower is built: what a test of whether variables are used again leads to."""
    below = node
    for each in function.module.ancestors(node):
        if each is function.node:
            return False
        if isinstance(each, ast.If) and below in each.body and _tells_the_first(each.test):
            return runs_always(each, function)
        below = each
    return False


def _tells_the_first(test: ast.expr) -> bool:
    """Whether a test is true of the first tower, which makes the variables: `reuse is None`, `not reuse`, `i == 0`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return "reuse" in source_of(test.operand)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Is | ast.Eq):
        return False
    side = test.comparators[0]
    if not isinstance(side, ast.Constant) or side.value:
        return False
    is_number = isinstance(side.value, int) and not isinstance(side.value, bool)
    words = r"^(i|tower|gpu)(_?(id|idx|index|num))?$" if is_number else "reuse"
    return bool(re.search(words, source_of(test.left)))


def _in_file(why: str, module: Module, seen_from: Module) -> str:
    """Returns a reason with the file that it is about, where that is another than what is spoken of."""
    return why if not why or module is seen_from or why.startswith("in ") else f"in {module.path.name}, {why}"
