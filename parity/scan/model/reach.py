"""Whether something runs, as far as source says: who calls its function, and which branches constants rule out."""

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from parity.scan.model.calls import Calls
from parity.scan.model.constants import NO_CONSTANT, Constants
from parity.scan.model.module import Function, Module
from parity.scan.model.names import chain
from parity.scan.model.options import NO_LITERAL, OF_TOWERS_OR_TRAINING, name_of, words_for
from parity.scan.model.repository import source_of

CALLERS_DEPTH = 8  # callers of callers, beyond which a function is taken to run
LEAVES = (ast.Return, ast.Continue, ast.Raise, ast.Break)


@dataclass(eq=False)
class Reach:
    """What runs in a repository.

    Attributes:
      constants: which tests are decided, by what all calls give among others.
      begins: functions that run whoever calls them.
      taken: statements whose branches are looked at whatever the outcome of their test is.
      by_use: whether methods run only of a class that something makes, and a page counts that calls a function.
      by_choice: whether a branch that a name chooses, `name == "adam"`, runs only where something is seen to choose it.
    """

    constants: Constants
    begins: Set[Function] = frozenset()
    taken: Set[ast.AST] = frozenset()
    by_choice: bool = False
    by_use: bool = False
    _reasons: dict[Function, str] = field(default_factory=dict)

    @property
    def calls(self) -> Calls:
        """Who calls the functions of the repository."""
        return self.constants.calls

    def of_program(self, modules: Set[Module]) -> "Reach":
        """Returns what runs of modules alone: what others of the repository call and give is of other programs."""
        return Reach(
            self.constants.by_calls(self.calls.of_modules(modules)),
            self.begins,
            self.taken,
            self.by_choice,
            self.by_use,
        )

    def why_not(self, node: ast.AST, module: Module, depth: int = CALLERS_DEPTH) -> str:
        """Returns why something does not run, "" where it may: for all that source says it does."""
        ruled_out = self._ruled_out(node, module)
        if ruled_out:
            return ruled_out
        function = module.within.get(node)
        return self._why_not_called(function, depth) if function is not None else ""

    def _why_not_called(self, function: Function, depth: int) -> str:
        if function not in self._reasons:
            self._reasons[function] = "a function that calls itself only"  # while it is looked at
            self._reasons[function] = self._reason(function, depth)
        return self._reasons[function]

    def _reason(self, function: Function, depth: int) -> str:
        if not function.name or function in self.begins or not depth:
            return ""
        outer = function.outer
        if outer is not None and outer.name:
            why = self.why_not(function.node, function.module, depth)
            if why:
                return why
        if self.by_use and function.owner:
            if self.calls.is_made_by_name(function.owner, function.module):
                return ""
            if not self.calls.is_made(function.owner, function.module):
                return f"nothing here makes a {function.owner}: who uses it may, and the source does not say how"
        if self.calls.is_called_from_elsewhere(function):
            return ""
        why = ""
        for mention, module in self.calls.mentions_of(function):
            why = self.why_not(mention, module, depth - 1)
            if not why:
                return ""
        if self.by_use and self.calls.is_called_by_a_text(function.name):
            return ""
        return why or f"nothing here calls {function.name}()"

    def _ruled_out(self, node: ast.AST, module: Module) -> str:
        """Returns the test that keeps something from being run, in its own function."""
        below = node
        for each in module.ancestors(node):
            if isinstance(each, ast.If | ast.IfExp) and below is not each.test and each not in self.taken:
                first = below in each.body if isinstance(each, ast.If) else below is each.body
                outcome = self.constants.outcome(each.test, module)
                if outcome is not None and outcome != first:
                    return self._needs(each.test, module, first) or f"{source_of(each.test)} is always {outcome} here"
                if self.by_choice and first and self._is_open_choice(each.test, module):
                    return f"only where {source_of(each.test)}, which nothing here gives"
            if isinstance(each, ast.Dict):
                why = self._keyed_out(below, each, module)
                if why:
                    return why
            leaving = next(
                (guard for guard in _guards(below, each) if self.constants.outcome(guard.test, module)), None
            )
            if leaving is not None:
                return self._needs(leaving.test, module, False) or f"{source_of(leaving.test)} is always True here"
            if isinstance(each, ast.FunctionDef):
                return ""
            below = each
        return ""

    def _keyed_out(self, value: ast.AST, table: ast.Dict, module: Module) -> str:
        """Returns why nothing takes an entry of a dictionary: where each key that is looked up is known, and another one."""
        key = next((key for key, each in zip(table.keys, table.values, strict=True) if each is value), None)
        looked_up = self.calls.repository.looked_up(table, module)
        if not isinstance(key, ast.Constant) or not looked_up:
            return ""
        why = ""
        for wanted, of in looked_up:
            test = ast.Compare(wanted, [ast.Eq()], [key])
            if self.constants.outcome(test, of) is not False:
                return ""
            why = self._needs(test, of, True) or f"what is looked up here is never {source_of(key)}"
        return why

    def _is_open_choice(self, test: ast.expr, module: Module) -> bool:
        """Whether a test compares a name with a text that nothing is seen to give it."""
        for each in test.values if isinstance(test, ast.BoolOp) else [test]:
            if not isinstance(each, ast.Compare) or not isinstance(each.ops[0], ast.Eq):
                continue
            sides = [each.left, each.comparators[0]]
            texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
            names = [
                chain(side).rpartition(".")[2] or name_of(side) for side in sides if not isinstance(side, ast.Constant)
            ]
            if len(texts) != 1 or not names or OF_TOWERS_OR_TRAINING.search(names[0]):
                continue
            is_open = self.constants.outcome(each, module) is None and not self.constants.options_of(each, module)
            if is_open and not self.constants.is_given(names[0], texts[0]):
                return True
        return False

    def _needs(self, test: ast.expr, module: Module, wanted: bool) -> str:
        """Returns which option a branch needs, "" where none decides its test."""
        read, options = self.constants.options_of(test, module), self.constants.options
        if not read or options is None:
            return ""
        name, (default, *_) = next(iter(read.items()))
        value: object = NO_LITERAL
        if wanted and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            sides = [self.constants.value(each, module) for each in (test.left, test.comparators[0])]
            value = next((each for each in sides if each is not NO_CONSTANT and each != default), NO_LITERAL)
        dashes = "--" if options.is_flag(name) else ""
        given = options.is_always_given(name, module)
        why = "and all commands here give another" if given else "which nothing here gives"
        return f"only with {words_for(name, value, default, dashes)}, {why}"


def _guards(below: ast.AST, holder: ast.AST) -> Iterator[ast.If]:
    """Yields the `if ...: return` and their like that stand before a statement in its block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and below in block:
            for each in block[: block.index(below)]:
                if isinstance(each, ast.If) and each.body and isinstance(each.body[-1], LEAVES) and not each.orelse:
                    yield each
