"""Whether something runs, as far as source says: who calls its function, and which branches constants rule out."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Set
from copy import copy
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from parity.scan.model.bound import GLOBALS
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Assigned, Function, Module
from parity.scan.model.names import NAMES_OF_LIBRARIES, chain
from parity.scan.model.options import NO_LITERAL, Options, name_of, words_for
from parity.scan.model.repository import MOST_CANDIDATES, Repository, source_of

CALLERS_DEPTH = 8  # callers of callers, beyond which a function is taken to run
VALUE_DEPTH = 4  # names for names that a constant is looked for through
MOST_COMBINATIONS = 64  # of values of the options in a test
NO_CONSTANT = object()
OPERATORS_OF_TESTS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
# Where names get values that no assignment shows: files, command lines, code that is made up.
SET_ELSEWHERE = re.compile(
    r"yaml|json|literal_eval|parse_args|\bhparams\b|hparams\(|\bedict|attrdict|setattr|\bexec\(|execfile", re.IGNORECASE
)
CALLS_BY_NAME = re.compile(r"globals\(\)|locals\(\)|fire\.Fire|getattr\(sys\.modules")
DECORATORS_THAT_CALL_NOTHING = ("add_arg_scope", "staticmethod", "classmethod")
LEAVES = (ast.Return, ast.Continue, ast.Raise, ast.Break)


@dataclass(eq=False)
class Reach:
    """What runs in a repository.

    Attributes:
      repository: all modules.
      begins: functions that run whoever calls them.
      taken: statements whose branches are looked at whatever the outcome of their test is.
      options: where not None, an option has its default, or a value that something in the repository gives it.
    """

    repository: Repository
    begins: Set[Function] = frozenset()
    taken: Set[ast.AST] = frozenset()
    options: Options | None = None
    _read: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _chosen: dict[str, object] = field(default_factory=dict)
    _mentions: dict[str, list[tuple[ast.AST, Module]]] = field(default_factory=dict)
    _values: dict[str, list[tuple[ast.expr, Module]]] = field(default_factory=dict)
    _set_from_outside: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)
    _texts_of_names: set[str] = field(default_factory=set)
    _globals: set[str] = field(default_factory=set)
    _functions: dict[Function, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _classes: set[str] = field(default_factory=set)
    _known_calls: dict[Function, list[tuple[ast.Call, Module]]] = field(default_factory=dict)
    _inside: Set[Module] | None = None

    def __post_init__(self) -> None:
        """Notes each mention of a function, and each value that an attribute or an option is given."""
        self._classes = {name for module in self.repository.modules for name in module.classes}
        for module in self.repository.modules:
            # Syntax trees here have no such statements: nothing else asks for them.
            for line in module.lines:
                said = GLOBALS.match(line)
                self._globals.update(re.split(r"\s*,\s*", said[1].strip()) if said else ())
            for function in module.functions:
                for node in function.nodes:
                    self._note(node, module)

    def _note(self, node: ast.AST, module: Module) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            holder = module.parents.get(node)
            given = isinstance(holder, ast.Assign) and node in holder.targets
            # What is noted at a function, `f.size = 224`, calls it no more.
            above = module.parents.get(holder) if isinstance(holder, ast.Attribute) else None
            given = given or (isinstance(above, ast.Assign) and holder in above.targets and isinstance(node, ast.Name))
            if (name in self.repository.named or name in self._classes) and not given:
                self._mentions.setdefault(name, []).append((node, module))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._texts.add(node.value)
            if not _is_of_a_scope(node, module):
                self._texts_of_names.add(node.value)
            listed = module.parents.get(module.parents.get(node, node))
            if not (isinstance(listed, ast.Assign) and source_of(listed.targets[0]) == "__all__"):
                self._said.add(node.value)
        elif isinstance(node, ast.keyword) and node.arg:
            self._values.setdefault(node.arg, []).append((node.value, module))
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                    if isinstance(each, ast.Attribute):
                        single = isinstance(node, ast.Assign) and each is target
                        self._values.setdefault(each.attr, []).append((node.value if single else each, module))
                        self._set_from_outside.add(each.attr)
                    elif isinstance(each, ast.Name) and isinstance(module.parents.get(node), ast.ClassDef):
                        self._values.setdefault(each.id, []).append((node.value, module))

    def of_program(self, modules: Set[Module]) -> "Reach":
        """Returns what runs of modules alone: what others of the repository call and give is of other programs."""
        own = copy(self)
        own._inside, own._functions, own._known_calls = modules, {}, {}
        return own

    def _mentions_of(self, name: str) -> list[tuple[ast.AST, Module]]:
        """Returns each mention of a function, in the modules that are looked at."""
        mentions = self._mentions.get(name, [])
        return [each for each in mentions if self._inside is None or each[1] in self._inside]

    def why_not(self, node: ast.AST, module: Module, depth: int = CALLERS_DEPTH) -> str:
        """Returns why something does not run, "" where it may: for all that source says it does."""
        ruled_out = self._ruled_out(node, module)
        if ruled_out:
            return ruled_out
        function = module.within.get(node)
        return self._why_not_called(function, depth) if function is not None else ""

    def _why_not_called(self, function: Function, depth: int) -> str:
        if function not in self._functions:
            self._functions[function] = "a function that calls itself only"  # while it is looked at
            self._functions[function] = self._looked(function, depth)
        return self._functions[function]

    def _looked(self, function: Function, depth: int) -> str:
        if not function.name or function in self.begins or not depth:
            return ""
        outer = function.outer
        if outer is not None and outer.name:
            why = self.why_not(function.node, function.module, depth)
            if why:
                return why
        if self._is_called_from_elsewhere(function):
            return ""
        why = ""
        for mention, module in self._mentions_of(function.name):
            if module.within.get(mention) is function or not self._may_mean(mention, module, function):
                continue
            why = self.why_not(mention, module, depth - 1)
            if not why:
                return ""
        return why or f"nothing here calls {function.name}()"

    def _is_called_from_elsewhere(self, function: Function) -> bool:
        """Whether something calls a function that no mention of it shows: a framework, a decorator, a command line."""
        if function.name == "main" or function.name.startswith(("__", "test")) or function.name in self._texts_of_names:
            return True
        decorators = function.node.decorator_list if isinstance(function.node, ast.FunctionDef) else []
        if any(not chain(each).endswith(DECORATORS_THAT_CALL_NOTHING) for each in decorators):
            return True
        if function.owner and not self._is_of_the_repository(function.owner, function.module):
            return True
        return any(CALLS_BY_NAME.search(line) for line in function.module.lines)

    def _is_of_the_repository(self, owner: str, module: Module, depth: int = CALLERS_DEPTH) -> bool:
        """Whether a class, and all that it is made of, is of the repository: no framework calls its methods."""
        bases = module.classes.get(owner, ["?"])
        homes = {name: each for each in self.repository.modules for name in each.classes}
        return bool(depth) and all(
            base == "object"
            or (
                base.rpartition(".")[2] in homes
                and self._is_of_the_repository(base.rpartition(".")[2], homes[base.rpartition(".")[2]], depth - 1)
            )
            for base in bases
        )

    def _may_mean(self, mention: ast.AST, module: Module, function: Function) -> bool:
        if not isinstance(mention, ast.Name | ast.Attribute):
            return False
        if function.owner:
            return isinstance(mention, ast.Attribute)
        meant = self.repository.meant(mention, module)
        if not meant:
            return not module.resolved(mention).startswith(NAMES_OF_LIBRARIES)
        return function in meant or len(meant) >= MOST_CANDIDATES

    def _ruled_out(self, node: ast.AST, module: Module) -> str:
        """Returns the test that keeps something from being run, in its own function."""
        below = node
        for each in module.ancestors(node):
            if isinstance(each, ast.If | ast.IfExp) and below is not each.test and each not in self.taken:
                first = below in each.body if isinstance(each, ast.If) else below is each.body
                outcome = self.outcome(each.test, module)
                if outcome is not None and outcome != first:
                    return self._needs(each.test, module, first) or f"{source_of(each.test)} is always {outcome} here"
            leaving = next((guard for guard in _guards(below, each) if self.outcome(guard.test, module)), None)
            if leaving is not None:
                return self._needs(leaving.test, module, False) or f"{source_of(leaving.test)} is always True here"
            if isinstance(each, ast.FunctionDef):
                return ""
            below = each
        return ""

    def outcome(self, test: ast.expr, module: Module) -> bool | None:
        """Returns what a test gives by constants alone, and by all values of options; None where they do not decide."""
        self._read.clear()
        outcome = self._outcome(test, module)
        read = dict(self._read)
        if outcome is None or prod(map(len, read.values())) > MOST_COMBINATIONS:
            return None
        for values in product(*read.values()):
            self._chosen = dict(zip(read, values, strict=True))
            if self._outcome(test, module) is not outcome:
                outcome = None
                break
        self._chosen = {}
        self._read = read
        return outcome

    def _needs(self, test: ast.expr, module: Module, wanted: bool) -> str:
        """Returns which option a branch needs, "" where none decides its test."""
        self.outcome(test, module)
        if not self._read or self.options is None:
            return ""
        name, (default, *_) = next(iter(self._read.items()))
        value: object = NO_LITERAL
        if wanted and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            sides = [self.value(each, module) for each in (test.left, test.comparators[0])]
            value = next((each for each in sides if each is not NO_CONSTANT and each != default), NO_LITERAL)
        dashes = "--" if self.options.is_flag(name) else ""
        given = self.options.is_always_given(name, module)
        why = "and all commands here give another" if given else "which nothing here gives"
        return f"only with {words_for(name, value, default, dashes)}, {why}"

    def _outcome(self, test: ast.expr, module: Module) -> bool | None:
        if isinstance(test, ast.BoolOp):
            parts = [self._outcome(each, module) for each in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in parts else None if None in parts else not decides
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._outcome(test.operand, module)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare):
            return self._compared(test, module)
        value = self.value(test, module)
        return None if value is NO_CONSTANT else bool(value)

    def _compared(self, test: ast.Compare, module: Module) -> bool | None:
        if len(test.ops) != 1:
            return None
        left, right = self.value(test.left, module), self.value(test.comparators[0], module)
        if left is NO_CONSTANT or right is NO_CONSTANT:
            return None
        try:
            return bool(OPERATORS_OF_TESTS[type(test.ops[0])](left, right))
        except TypeError:
            return None

    def value(self, node: ast.expr, module: Module, depth: int = VALUE_DEPTH) -> object:
        """Returns the constant that an expression is whatever runs, else `NO_CONSTANT`."""
        if isinstance(node, ast.Constant):
            return node.value
        if not depth:
            return NO_CONSTANT
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, module, depth)
            return -value if isinstance(value, int | float) else NO_CONSTANT
        if isinstance(node, ast.Tuple | ast.List):
            values = [self.value(each, module, depth) for each in node.elts]
            return NO_CONSTANT if NO_CONSTANT in values else tuple(values)
        name = name_of(node)
        possible = self.options.values(name, module) if self.options is not None and name else ()
        if possible:
            self._read[name] = possible
            return self._chosen.get(name, possible[0])
        if isinstance(node, ast.Name):
            return self._of_name(node, module, depth)
        return self._of_attribute(node, module, depth) if isinstance(node, ast.Attribute) else NO_CONSTANT

    def _of_name(self, node: ast.Name, module: Module, depth: int) -> object:
        function = module.within.get(node)
        while function is not None:
            if _takes(function, node.id):
                return self._of_parameter(node.id, function, depth)
            if node.id in function.assigned:
                return self._of_assigned(node.id, function.assigned[node.id], function, depth)
            function = function.outer
        return self._of_import(node, module, depth)

    def _of_parameter(self, name: str, function: Function, depth: int) -> object:
        """The constant that a parameter is given by all that calls its function, by its default where a call gives none."""
        node, calls = function.node, self._calls_of(function)
        if not isinstance(node, ast.FunctionDef) or _is_set_anew(name, function) or not calls or depth < 1:
            return NO_CONSTANT
        names = [each.arg for each in [*node.args.posonlyargs, *node.args.args]]
        places = names[1:] if function.owner else names
        defaults = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
        extra = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        defaults |= {each.arg: value for each, value in extra if value is not None}
        values = []
        for call, module in calls:
            if any(isinstance(each, ast.Starred) for each in call.args) or any(not each.arg for each in call.keywords):
                return NO_CONSTANT
            given = next((each.value for each in call.keywords if each.arg == name), None)
            if given is None and name in places and places.index(name) < len(call.args):
                given = call.args[places.index(name)]
            value = given if given is not None else defaults.get(name)
            home = module if given is not None else function.module
            values.append(self.value(value, home, depth - 1) if value is not None else NO_CONSTANT)
        return values[0] if all(each is not NO_CONSTANT and each == values[0] for each in values) else NO_CONSTANT

    def _calls_of(self, function: Function) -> list[tuple[ast.Call, Module]]:
        """Returns all calls of a function, none where something else than a call may lead to it."""
        if function not in self._known_calls:
            self._known_calls[function] = []  # while it is looked at
            self._known_calls[function] = self._looked_for_calls(function)
        return self._known_calls[function]

    def _looked_for_calls(self, function: Function) -> list[tuple[ast.Call, Module]]:
        name = function.owner if function.name == "__init__" else function.name
        if function.name == "__init__":
            if name in self._said or self._heirs(name) != {name}:
                return []
        elif not name or self._is_called_from_elsewhere(function):
            return []
        calls = []
        for mention, module in self._mentions_of(name):
            call = module.parents.get(mention)
            if any(base.rpartition(".")[2] == "TestCase" for bases in module.classes.values() for base in bases):
                continue
            is_method = function.name != "__init__"
            if is_method and (
                not self._may_mean(mention, module, function) or self._is_of_another(mention, module, function)
            ):
                continue
            if not isinstance(call, ast.Call) or call.func is not mention:
                return []
            calls.append((call, module))
        return calls

    def _is_of_another(self, mention: ast.AST, module: Module, function: Function) -> bool:
        """Whether a method is one of an object that is of another class than the function, wherever it is made."""
        if not isinstance(mention, ast.Attribute) or not function.owner:
            return False
        if module.resolved(mention).startswith(NAMES_OF_LIBRARIES):
            return True
        if not self._know_each_other(module, function.module):
            return True
        home = module.within.get(mention)
        given = self.repository.assigned(chain(mention.value), home) if chain(mention.value) else []
        made = [chain(each.value.func).rpartition(".")[2] for each in given if isinstance(each.value, ast.Call)]
        heirs = self._heirs(function.owner)
        return bool(given) and len(made) == len(given) and all(each in self._classes - heirs for each in made)

    def _know_each_other(self, module: Module, other: Module) -> bool:
        """Whether one of two modules imports the other one, by whatever, or may do so when it runs."""
        if any("import_module" in line or "__import__" in line for line in module.lines):
            return True
        return other in imported_modules(module, self.repository) or module in imported_modules(other, self.repository)

    def _heirs(self, owner: str) -> set[str]:
        """Returns a class and those that are made of it, by their names."""
        heirs = {owner}
        while True:
            more = {
                name
                for module in self.repository.modules
                for name, bases in module.classes.items()
                if any(base.rpartition(".")[2] in heirs for base in bases)
            }
            if more <= heirs:
                return heirs
            heirs |= more

    def _of_assigned(self, name: str, given: list[Assigned], function: Function, depth: int) -> object:
        module = function.module
        if len(given) != 1 or given[0].how != "=" or given[0].place is not None or name in self._globals:
            return NO_CONSTANT
        # In a branch it is given only sometimes; a module's own name may be set from outside.
        if module.parents.get(given[0].by) is not function.node:
            return NO_CONSTANT
        if not function.name and (name in self._set_from_outside or any("exec" in line for line in module.lines)):
            return NO_CONSTANT
        return self.value(given[0].value, module, depth - 1)

    def _of_import(self, node: ast.expr, module: Module, depth: int) -> object:
        source, _, name = module.resolved(node).rpartition(".")
        homes = [each for each in self.repository.modules if each.name == source or each.name.endswith(f".{source}")]
        if not source or chain(node).partition(".")[0] not in module.imports or len(homes) != 1:
            return NO_CONSTANT
        top = homes[0].functions[0]
        return self._of_assigned(name, top.assigned[name], top, depth) if name in top.assigned else NO_CONSTANT

    def _of_attribute(self, node: ast.Attribute, module: Module, depth: int) -> object:
        """The value of an option: the one that it is given wherever it is given any."""
        if chain(node).partition(".")[0] in module.imports:
            return self._of_import(node, module, depth)
        if self.options is not None and chain(node.value) == "self":
            own = self.repository.assigned(f"self.{node.attr}", module.within.get(node))
            if len(own) == 1 and own[0].how == "=" and own[0].place is None:
                return self.value(own[0].value, module, depth - 1)
        given = self._values.get(node.attr, [])
        if not given or node.attr in self._texts or node.attr in self.repository.flags:
            return NO_CONSTANT
        known = []
        for each, of in given:
            if any(SET_ELSEWHERE.search(line) for line in of.lines):
                return NO_CONSTANT
            known.append(self.value(each, of, depth - 1))
        return known[0] if all(each is not NO_CONSTANT and each == known[0] for each in known) else NO_CONSTANT


def _takes(function: Function, name: str) -> bool:
    if not isinstance(function.node, ast.FunctionDef):
        return False
    given = function.node.args
    extra = [each for each in (given.vararg, given.kwarg) if each is not None]
    return any(each.arg == name for each in [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra])


def _is_of_a_scope(node: ast.Constant, module: Module) -> bool:
    """Whether a text names a scope: it is given as `scope`, is the default of such a parameter, or opens one."""
    holder = module.parents.get(node)
    if isinstance(holder, ast.keyword):
        return holder.arg == "scope"
    if isinstance(holder, ast.Call):
        return node in holder.args and chain(holder.func).endswith("_scope")
    if not isinstance(holder, ast.arguments) or node not in holder.defaults:
        return False
    names = [*holder.posonlyargs, *holder.args]
    return names[len(names) - len(holder.defaults) + holder.defaults.index(node)].arg == "scope"


def _is_set_anew(name: str, function: Function) -> bool:
    """Whether a parameter may be another constant: the object that its own test chooses, `if x == "a": x = A()`, is none."""
    return any(
        given.how != "="
        or given.place is not None
        or not isinstance(given.value, ast.Call)
        or not function.module.resolved(given.value.func).startswith(NAMES_OF_LIBRARIES)
        or not isinstance(function.module.parents.get(given.by), ast.If)
        for given in function.assigned.get(name, ())
    )


def _guards(below: ast.AST, holder: ast.AST) -> Iterator[ast.If]:
    """Yields the `if ...: return` and their like that stand before a statement in its block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and below in block:
            for each in block[: block.index(below)]:
                if isinstance(each, ast.If) and each.body and isinstance(each.body[-1], LEAVES) and not each.orelse:
                    yield each
