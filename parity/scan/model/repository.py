"""All modules of what is scanned: whose function a call calls, where a value comes from, which flags there are."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from parity.scan.model.module import Assigned, Function, Module
from parity.scan.model.names import NAMES_OF_LIBRARIES, chain

# Methods that many classes have: a call of one says nothing of whose it is.
OF_MANY = frozenset(
    [
        "append",
        "extend",
        "get",
        "set",
        "run",
        "add",
        "update",
        "items",
        "keys",
        "values",
        "join",
        "format",
        "split",
        "close",
        "open",
        "write",
        "read",
        "start",
        "stop",
        "call",
        "build",
        "train",
        "fit",
        "step",
        "save",
        "restore",
        "load",
        "init",
        "reset",
        "next",
        "predict",
        "forward",
        "main",
        "eval",
        "apply",
        "size",
        "name",
        "shape",
        "copy",
        "pop",
        "initialize",
        "log",
        "print",
        "sum",
        "mean",
        "backward",
        "sample",
        "put",
        "sort",
        "index",
        "count",
        "parse",
    ]
)
MOST_MODULES = 12  # that a script chooses one of when it runs
MOST_CANDIDATES = 3  # functions that one call may mean: of one name, of an unknown object, or in a dictionary
DEFINING = (
    "DEFINE_integer",
    "DEFINE_string",
    "DEFINE_float",
    "DEFINE_bool",
    "DEFINE_boolean",
    "DEFINE_list",
    "DEFINE_enum",
)


class Flag(NamedTuple):
    """An option of a script.

    Fields:
      name: without dashes.
      default: as source, "" where there is none.
      call: that defines it.
      module: in which.
      required: whether the script does not start without it.
      positional: whether it has no dashes.
      style: "argparse", "flags" or "click".
    """

    name: str
    default: str
    call: ast.Call
    module: Module
    required: bool = False
    positional: bool = False
    style: str = "argparse"


@dataclass(eq=False)
class Repository:
    """What is scanned.

    Attributes:
      modules: each file that was read.
      named: functions by their last name.
      flags: by name.
      definitions: of each name all flags, as scripts may have one each.
      texts: what stands beside the source and may start it, by file: shell scripts, pages, configurations.
      homes: of each node the function that it is in.
      imported: of each module those that it imports, as far as they were looked for.
    """

    modules: list[Module]
    named: dict[str, list[Function]] = field(default_factory=dict)
    flags: dict[str, Flag] = field(default_factory=dict)
    definitions: dict[str, list[Flag]] = field(default_factory=dict)
    texts: Sequence[tuple[Path, str]] = ()
    homes: dict[ast.AST, Function] = field(default_factory=dict)
    imported: dict[Module, set[Module]] = field(default_factory=dict)
    _looked_up: dict[ast.Dict, list[tuple[ast.expr | None, Module]]] = field(default_factory=dict)
    _calls: dict[str, list[tuple[ast.Call, Module]]] = field(default_factory=dict)
    _callees: dict[ast.Call, list[Function]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Finds functions and flags."""
        for module in self.modules:
            self.homes.update(module.within)
            for function in module.functions[1:]:
                self.named.setdefault(function.name, []).append(function)
            for flag in _flags(module):
                self.flags.setdefault(flag.name, flag)
                self.definitions.setdefault(flag.name, []).append(flag)

    @cached_property
    def by_name(self) -> dict[str, Module]:
        """The modules by their dotted names."""
        return {each.name: each for each in self.modules}

    @cached_property
    def by_path(self) -> dict[str, Module]:
        """The modules by their paths, with slashes."""
        return {each.path.as_posix(): each for each in self.modules}

    def called(self, stem: str) -> list[Module]:
        """Returns the modules whose files have a name, without its ending."""
        return [each for each in self.modules if each.path.stem == stem]

    def looked_up(self, table: ast.Dict, module: Module) -> list[tuple[ast.expr, Module]]:
        """Returns the keys that are looked up in a dictionary, with their modules; none where it is read by other means."""
        if table not in self._looked_up:
            self._looked_up[table] = list(self._keys_of(table, module))
        known = self._looked_up[table]
        return [(key, of) for key, of in known if key is not None] if all(key is not None for key, _ in known) else []

    def _keys_of(self, table: ast.Dict, module: Module) -> Iterator[tuple[ast.expr | None, Module]]:
        """Yields the keys by which a dictionary is read, None of what may read all of it."""
        holder = module.parents.get(table)
        if isinstance(holder, ast.Subscript):
            yield holder.slice, module
            return
        if not isinstance(holder, ast.Assign) or not isinstance(holder.targets[0], ast.Name) or len(holder.targets) > 1:
            yield None, module
            return
        name = holder.targets[0].id
        for each in self.modules:
            for node in (node for function in each.functions for node in function.nodes):
                called = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
                if called != name or node is holder.targets[0]:
                    continue
                around = each.parents.get(node)
                above = each.parents.get(around) if around is not None else None
                if isinstance(around, ast.Compare) and isinstance(around.ops[0], ast.In | ast.NotIn):
                    continue
                if isinstance(around, ast.Subscript) and around.value is node:
                    yield around.slice, each
                elif isinstance(above, ast.Call) and source_of(above.func).endswith(".get") and above.args:
                    yield above.args[0], each
                elif not (isinstance(above, ast.Call) and source_of(above.func).endswith(".keys")):
                    yield None, each

    def calls_of(self, name: str) -> Sequence[tuple[ast.Call, Module]]:
        """Returns the calls of whatever has a name, behind the last dot, with the modules that they are in."""
        if not self._calls:
            for module in self.modules:
                for function in module.functions:
                    for call in function.calls:
                        called = (
                            call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                        )
                        self._calls.setdefault(called, []).append((call, module))
        return self._calls.get(name, ())

    def callees(self, call: ast.Call, module: Module) -> list[Function]:
        """Returns the functions of the repository that a call may call: one mostly, none of a library."""
        if call not in self._callees:
            self._callees[call] = self._find(call.func, module)
        return self._callees[call]

    def callers(self, function: Function) -> Iterator[Function]:
        """Yields the functions that call a function, each once."""
        if not function.name:
            return
        calls = [*self.calls_of(function.name), *(self.calls_of(function.owner) if function.owner else ())]
        yield from dict.fromkeys(self.homes[call] for call, module in calls if function in self.callees(call, module))

    def meant(self, node: ast.expr, module: Module) -> list[Function]:
        """Returns the functions of the repository that a name or an attribute may stand for."""
        return self._find(node, module)

    def _find(self, func: ast.expr, module: Module) -> list[Function]:
        if isinstance(func, ast.Call) and func.args:  # functools.partial(f, ...)(...), a decorator by hand
            return self._find(func.args[0], module)
        if isinstance(func, ast.Subscript):
            return self._in_a_table(func, module)
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        candidates = self.named.get(name, [])
        if isinstance(func, ast.Name):
            candidates = candidates or self._constructors(name)
        if not candidates:
            return []
        resolved = module.resolved(func)
        if resolved.startswith(NAMES_OF_LIBRARIES):
            return []
        here = [each for each in candidates if each.module is module]
        if isinstance(func, ast.Name):
            local = [each for each in here if not each.owner or each.name == "__init__"]
            if local:
                return local[:1]
            if name not in module.imports and not any(each[0] == "*" for each in module.imports):
                return []
            return self._imported(candidates, resolved)[:MOST_CANDIDATES]
        if isinstance(func, ast.Attribute) and chain(func.value) in ("self", "cls"):
            within = module.within.get(func)
            owner = within.owner if within else ""
            own = [each for each in here if each.owner == owner] or [each for each in candidates if each.owner]
            return own[:MOST_CANDIDATES] or self._of_the_class(name, candidates, module)
        first = chain(func).partition(".")[0]
        if first in module.imports:
            if self._is_of_a_missing_class(first, module.within.get(func)):
                return []
            return self._imported(candidates, resolved)[:MOST_CANDIDATES]
        if self._is_any_module(first, module.within.get(func)):
            return [each for each in candidates if not each.owner][:MOST_MODULES]
        if name in OF_MANY or len(candidates) > MOST_CANDIDATES:
            return []
        return candidates

    def _in_a_table(self, chosen: ast.Subscript, module: Module) -> list[Function]:
        """Functions that a dictionary names, of which a script takes one when it runs: `optimizers[name](...)`."""
        given = self.assigned(chain(chosen.value), module.within.get(chosen))
        values = [value for each in given if isinstance(each.value, ast.Dict) for value in each.value.values]
        named = [each for each in values if isinstance(each, ast.Name | ast.Attribute)]
        callees = list(dict.fromkeys(callee for each in named for callee in self._find(each, module)[:1]))
        return callees if len(callees) <= MOST_CANDIDATES else []

    def _of_the_class(self, name: str, candidates: list[Function], module: Module) -> list[Function]:
        """Functions that are methods since a class names them: `step = step` below `class`, of an import."""
        for given in module.functions[0].assigned.get(name, ()):
            if isinstance(module.parents.get(given.by), ast.ClassDef) and isinstance(given.value, ast.Name):
                return self._imported(candidates, module.resolved(given.value))[:MOST_CANDIDATES]
        return []

    def _is_of_a_missing_class(self, name: str, function: Function | None) -> bool:
        """Whether a module's name is given to an object, as in `net = net.Net()`, of what is not in the repository."""
        given = function.assigned.get(name, ()) if function is not None else ()
        made = [chain(each.value.func) for each in given if isinstance(each.value, ast.Call)]
        lasts = [each.rpartition(".")[2] for each in made if each.startswith(f"{name}.")]
        return bool(lasts) and not any(
            last in self.named or any(last in module.classes for module in self.modules) for last in lasts
        )

    def _is_any_module(self, name: str, function: Function | None) -> bool:
        """Whether a name is a module that is chosen when the script runs."""
        return any("import_module" in source_of(each.value) for each in self.assigned(name, function))

    def _constructors(self, name: str) -> list[Function]:
        return [each for each in self.named.get("__init__", []) if each.owner == name]

    def _imported(self, candidates: list[Function], resolved: str) -> list[Function]:
        source = resolved.rpartition(".")[0]
        if not source:  # by a star import, or not at all
            return [each for each in candidates if not each.owner]
        last = source.rpartition(".")[2]
        fitting = [
            each
            for each in candidates
            if each.module.name == source or each.module.name.endswith(f".{source}") or each.owner == last
        ]
        return fitting or [each for each in candidates if each.module.name.rpartition(".")[2] == last]

    def reached(self, nodes: Iterable[ast.AST], module: Module, depth: int = 3) -> Iterator[tuple[ast.AST, Module]]:
        """Yields nodes, and what is in the functions that they call, each function once.

        Args:
          nodes: where to begin; all that is inside of them is yielded too.
          module: that they are in.
          depth: of calls in calls.
        """
        seen: set[Function] = set()
        waiting: list[tuple[ast.AST, Module, int]] = [(node, module, depth) for node in nodes]
        while waiting:
            node, of, left = waiting.pop(0)
            for each in of.inside(node):
                yield each, of
                if not left or not isinstance(each, ast.Call):
                    continue
                passed = [arg for arg in each.args if isinstance(arg, ast.Name | ast.Attribute)]
                for callee in [*self.callees(each, of), *self._passed(passed, of)]:
                    if callee not in seen:
                        seen.add(callee)
                        waiting.extend((statement, callee.module, left - 1) for statement in callee.body)

    def _passed(self, arguments: Iterable[ast.expr], module: Module) -> list[Function]:
        """Functions that are given to a call, which may call them."""
        names = [
            each
            for each in arguments
            if (isinstance(each, ast.Name) and each.id in self.named)
            or (isinstance(each, ast.Attribute) and chain(each.value) in ("self", "cls"))
        ]
        return [callee for each in names for callee in self._find(each, module)[:1]]

    def assigned(self, name: str, function: Function | None) -> list[Assigned]:
        """Returns what is assigned to a name in the nearest scope that has it, or to `self.x` in all methods."""
        if name.startswith("self.") and function is not None and "." not in name[5:]:
            owner = _owner(function)
            return [
                given
                for each in function.module.functions
                if _owner(each) == owner
                for given in each.assigned.get(name, ())
            ]
        while function is not None:
            if name in function.assigned:
                return function.assigned[name]
            function = function.outer
        return []

    def sources(self, node: ast.AST, module: Module, depth: int = 4) -> Iterator[ast.AST]:
        """Yields an expression's parts, and those of what is assigned to the names in it, each name once.

        It is what a value may be computed from: no order of statements is looked at.
        """
        seen: set[tuple[str, Function | None]] = set()
        waiting: list[tuple[ast.AST, int]] = [(node, depth)]
        while waiting:
            each, left = waiting.pop(0)
            for part in module.inside(each):
                yield part
                if not left or not isinstance(part, ast.Name | ast.Attribute):
                    continue
                name, function = chain(part), module.within.get(part)
                if name and (name, function) not in seen:
                    seen.add((name, function))
                    waiting.extend((given.value, left - 1) for given in self.assigned(name, function))


def _owner(function: Function | None) -> str:
    while function is not None:
        if function.owner:
            return function.owner
        function = function.outer
    return ""


def _flags(module: Module) -> Iterator[Flag]:
    for function in module.functions:
        for call in function.calls:
            name = chain(call.func).rpartition(".")[2]
            words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if name in DEFINING and words:
                default = next((each.value for each in call.keywords if each.arg == "default"), None)
                default = default or (call.args[1] if len(call.args) > 1 else None)
                yield Flag(words[0], source_of(default), call, module, style="flags")
            elif name in ("add_argument", "option") and words:
                yield from _argument(call, words, module, name)


def _argument(call: ast.Call, words: list[str], module: Module, function: str) -> Iterator[Flag]:
    longest = max(words, key=len)
    keywords = {each.arg: each.value for each in call.keywords}
    destination = keywords.get("dest")
    name = destination.value if isinstance(destination, ast.Constant) else longest.lstrip("-").replace("-", "_")
    required = source_of(keywords.get("required")) == "True" or not longest.startswith("-")
    style = "argparse" if function == "add_argument" else "click"
    if isinstance(name, str) and name:
        default = source_of(keywords.get("default"))
        yield Flag(name, default, call, module, required, not longest.startswith("-"), style)


def source_of(node: ast.AST | None, most: int = 80) -> str:
    """Returns an expression as source, in one line of at most so many letters; "" of None."""
    if node is None:
        return ""
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError, AttributeError, TypeError):
        return "..."
    return text if len(text) <= most else f"{text[: most - 3]}..."
