"""Which constant an expression is, and what a test gives, whatever runs: by assignments, calls and options alone."""

import ast
import operator
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from parity.scan.model.bound import GLOBALS
from parity.scan.model.calls import Calls
from parity.scan.model.module import Assigned, Function, Module
from parity.scan.model.names import NAMES_OF_LIBRARIES, chain
from parity.scan.model.options import Options, name_of
from parity.scan.model.repository import Repository

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
UPDATE_OF_KEYS = re.compile(r"\.(update|setdefault)\(")  # by which a dictionary gets keys that are not seen


@dataclass(eq=False)
class Constants:
    """Which expressions of a repository are constants, and which tests they decide.

    Attributes:
      calls: who calls its functions, and gives their parameters what.
      options: where not None, an option has its default, or a value that something in the repository gives it.
    """

    calls: Calls
    options: Options | None = None
    _read: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _chosen: dict[str, object] = field(default_factory=dict)
    _values: dict[str, list[tuple[ast.expr, Module]]] = field(default_factory=dict)
    _set_from_outside: set[str] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)
    _keyed: dict[str, list[tuple[ast.expr, Module]]] = field(default_factory=dict)
    _texts_but_keys: set[str] = field(default_factory=set)
    _globals: set[str] = field(default_factory=set)
    _given: set[str] = field(default_factory=set)

    @property
    def repository(self) -> Repository:
        """All modules."""
        return self.calls.repository

    def __post_init__(self) -> None:
        """Notes each value that an attribute or an option is given, and what else may give it one."""
        for module in self.repository.modules:
            # Syntax trees here have no such statements: nothing else asks for them.
            for line in module.lines:
                said = GLOBALS.match(line)
                self._globals.update(re.split(r"\s*,\s*", said[1].strip()) if said else ())
            for function in module.functions:
                for node in function.nodes:
                    self._note(node, module)

    def _note(self, node: ast.AST, module: Module) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._texts.add(node.value)
            holder = module.parents.get(node)
            if not isinstance(holder, ast.Compare):
                self._given.add(node.value)
                if not (isinstance(holder, ast.Subscript) and holder.slice is node) and not (
                    isinstance(holder, ast.Dict) and node in holder.keys
                ):
                    self._texts_but_keys.add(node.value)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                self._note_key(key, value, module)
        elif isinstance(node, ast.keyword) and node.arg:
            self._values.setdefault(node.arg, []).append((node.value, module))
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                    if isinstance(each, ast.Subscript):
                        self._note_key(each.slice, node.value if each is target else each, module)
                    if isinstance(each, ast.Attribute):
                        single = isinstance(node, ast.Assign) and each is target
                        self._values.setdefault(each.attr, []).append((node.value if single else each, module))
                        self._set_from_outside.add(each.attr)
                    elif isinstance(each, ast.Name) and isinstance(module.parents.get(node), ast.ClassDef):
                        self._values.setdefault(each.id, []).append((node.value, module))

    def _note_key(self, key: ast.expr | None, value: ast.expr, module: Module) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._keyed.setdefault(key.value, []).append((value, module))

    def by_calls(self, calls: Calls) -> "Constants":
        """Returns what expressions are where a function has some calls only, as those of one program."""
        own = copy(self)
        own.calls, own._read, own._chosen = calls, {}, {}
        return own

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

    def is_given(self, name: str, text: str) -> bool:
        """Whether source has a text beside tests, or a file gives it to a name: `optimizer: adam`, `--optimizer $1`."""
        if text in self._given:
            return True
        setting = re.compile(rf"""{re.escape(name)}["']?\s*[=:\s]\s*["']?({re.escape(text)}(?!\w)|\$)""")
        return any(name in each and bool(setting.search(each)) for _, each in self.repository.texts)

    def options_of(self, test: ast.expr, module: Module) -> dict[str, tuple[object, ...]]:
        """Returns the options that a test reads as far as constants decide it, each with its values, the default first."""
        self.outcome(test, module)
        return dict(self._read)

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
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._of_key(node.slice.value, module, depth)
        return self._of_attribute(node, module, depth) if isinstance(node, ast.Attribute) else NO_CONSTANT

    def _of_key(self, key: object, module: Module, depth: int) -> object:
        """The value of a dictionary's key: the one that it has wherever source gives it any, if nothing else may."""
        given = self._keyed.get(key, []) if isinstance(key, str) else []
        if not isinstance(key, str) or not given or key in self._texts_but_keys or key in self.repository.definitions:
            return NO_CONSTANT
        around = {module, *(of for _, of in given)}
        set_elsewhere = (
            SET_ELSEWHERE.search(line) or UPDATE_OF_KEYS.search(line) for each in around for line in each.lines
        )
        if key in self._values or any(set_elsewhere):
            return NO_CONSTANT
        if any(key in text for path, text in self.repository.texts if path.suffix not in (".py", ".ipynb", ".md")):
            return NO_CONSTANT
        known = [self.value(each, of, depth - 1) for each, of in given]
        return known[0] if all(each is not NO_CONSTANT and each == known[0] for each in known) else NO_CONSTANT

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
        node, calls = function.node, self.calls.calls_of(function)
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
