"""Who calls a function, as far as source says: each mention of its name, and what may call it without one."""

import ast
import re
from collections.abc import Iterator, Set
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Function, Module
from parity.scan.model.names import NAMES_OF_LIBRARIES, chain
from parity.scan.model.repository import MOST_CANDIDATES, Repository, source_of

BASES_DEPTH = 8  # bases of bases, beyond which a class is taken to be of a library
CALLS_BY_NAME = re.compile(r"globals\(\)|locals\(\)|fire\.Fire|getattr\(sys\.modules")
# By which a class may be made without its name: one of a module that a name chooses, all that are made of another one.
MADE_BY_NAME = re.compile(r"import_module|__import__|__subclasses__|__init_subclass__|globals\(\)|pydoc\.locate|hydra")
MODULES_OF_NAMES = re.compile(r"(?<![.\w])getattr\((\w+),\s*(?![\"'\s])")
SUFFIXES_OF_SOURCE = (".py", ".ipynb")
SUFFIXES_OF_PAGES = (".md", ".rst", ".txt")
DECORATORS_THAT_CALL_NOTHING = ("add_arg_scope", "staticmethod", "classmethod")


@dataclass(eq=False)
class Calls:
    """Who mentions the functions of a repository, and who calls them.

    Attributes:
      repository: all modules.
      inside: the modules in which a mention counts; None where it does in all.
    """

    repository: Repository
    inside: Set[Module] | None = None
    _mentions: dict[str, list[tuple[ast.AST, Module]]] = field(default_factory=dict)
    _classes: set[str] = field(default_factory=set)
    _texts_but_scopes: set[str] = field(default_factory=set)
    _texts_but_exports: set[str] = field(default_factory=set)
    _known: dict[Function, list[tuple[ast.Call, Module]]] = field(default_factory=dict)
    _made: dict[tuple[str, Module], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Notes each mention of a function or class, and each text that may name one."""
        self._classes = {name for module in self.repository.modules for name in module.classes}
        for module in self.repository.modules:
            for function in module.functions:
                for node in function.nodes:
                    self._note(node, module)

    def _note(self, node: ast.AST, module: Module) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if (name in self.repository.named or name in self._classes) and not _is_assigned(node, module):
                self._mentions.setdefault(name, []).append((node, module))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not _is_of_a_scope(node, module) and not _is_its_key(node, module):
                self._texts_but_scopes.add(node.value)
            listed = module.parents.get(module.parents.get(node, node))
            if not (isinstance(listed, ast.Assign) and source_of(listed.targets[0]) == "__all__"):
                self._texts_but_exports.add(node.value)

    def of_modules(self, modules: Set[Module]) -> "Calls":
        """Returns who calls functions in some modules: what others of the repository call is of other programs."""
        own = copy(self)
        own.inside, own._known = modules, {}
        return own

    def mentions_of(self, function: Function) -> Iterator[tuple[ast.AST, Module]]:
        """Yields what may mean a function outside of itself, whether it calls it or hands it on, with its module."""
        for mention, module in self._named(function.name):
            if module.within.get(mention) is not function and self._may_mean(mention, module, function):
                yield mention, module

    def _named(self, name: str) -> list[tuple[ast.AST, Module]]:
        mentions = self._mentions.get(name, [])
        return [each for each in mentions if self.inside is None or each[1] in self.inside]

    def _may_mean(self, mention: ast.AST, module: Module, function: Function) -> bool:
        if not isinstance(mention, ast.Name | ast.Attribute):
            return False
        if function.owner:
            return isinstance(mention, ast.Attribute)
        meant = self.repository.meant(mention, module)
        if not meant:
            return not module.resolved(mention).startswith(NAMES_OF_LIBRARIES)
        return function in meant or len(meant) >= MOST_CANDIDATES

    def is_called_from_elsewhere(self, function: Function) -> bool:
        """Whether something calls a function that no mention of it shows: a framework, a decorator, a command line."""
        if function.name == "main" or function.name.startswith(("__", "test")):
            return True
        if function.name in self._texts_but_scopes:
            return True
        decorators = function.node.decorator_list if isinstance(function.node, ast.FunctionDef) else []
        if any(not chain(each).endswith(DECORATORS_THAT_CALL_NOTHING) for each in decorators):
            return True
        if function.owner and not self._is_of_the_repository(function.owner, function.module):
            return True
        return any(CALLS_BY_NAME.search(line) for line in function.module.lines)

    def _is_of_the_repository(self, owner: str, module: Module, depth: int = BASES_DEPTH) -> bool:
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

    def is_made(self, owner: str, module: Module) -> bool:
        """Whether something may make an object of a class: it names it outside of itself, or one that is made of it.

        That an `__init__.py` or a script imports it makes none.
        """
        if (owner, module) not in self._made:
            self._made[owner, module] = True  # while it is looked at
            self._made[owner, module] = self.is_made_by_name(owner, module) or self._is_named(owner)
        return self._made[owner, module]

    def is_made_by_name(self, owner: str, module: Module) -> bool:
        """Whether a class may be made where no name of it shows that: by a text, a decorator, a page, a configuration."""
        if owner in self._texts_but_exports or self._makes_by_name or owner in self._by_another_name:
            return True
        defined = (each for each in module.inside(module.tree) if isinstance(each, ast.ClassDef) and each.name == owner)
        return any(each.decorator_list or each.keywords for each in defined) or self.is_called_by_a_text(owner)

    def _is_named(self, owner: str) -> bool:
        for mention, of in self._mentions.get(owner, ()):
            around = next((each for each in of.ancestors(mention) if isinstance(each, ast.ClassDef)), None)
            if around is None or (around.name != owner and mention not in around.bases):
                return True
            if around.name != owner and self.is_made(around.name, of):
                return True
        return False

    @cached_property
    def _makes_by_name(self) -> bool:
        """Whether some module of the repository makes classes that only a text names."""
        return any(
            MADE_BY_NAME.search(line) or any(each in module.imports for each in MODULES_OF_NAMES.findall(line))
            for module in self.repository.modules
            for line in module.lines
        )

    @cached_property
    def _by_another_name(self) -> set[str]:
        """What is imported under another name than its own."""
        return {
            last
            for module in self.repository.modules
            for name, whole in module.imports.items()
            if (last := whole.rpartition(".")[2]) != name and name[0] != "*"
        }

    def is_called_by_a_text(self, name: str) -> bool:
        """Whether a page calls something, or a configuration names it."""
        called, named = re.compile(rf"\b{re.escape(name)}\("), re.compile(rf"\b{re.escape(name)}\b")
        return any(
            name in text and (called if path.suffix in SUFFIXES_OF_PAGES or not path.suffix else named).search(text)
            for path, text in self.repository.texts
            if path.suffix not in SUFFIXES_OF_SOURCE
        )

    def calls_of(self, function: Function) -> list[tuple[ast.Call, Module]]:
        """Returns all calls of a function, with the modules that they are in; none where more than calls may lead to it."""
        if function not in self._known:
            self._known[function] = self._all_calls(function)
        return self._known[function]

    def _all_calls(self, function: Function) -> list[tuple[ast.Call, Module]]:
        name = function.owner if function.name == "__init__" else function.name
        if function.name == "__init__":
            if name in self._texts_but_exports or self._heirs(name) != {name}:
                return []
        elif not name or self.is_called_from_elsewhere(function):
            return []
        calls = []
        for mention, module in self._named(name):
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


def _is_assigned(node: ast.Name | ast.Attribute, module: Module) -> bool:
    """Whether a name is given something, or gets an attribute: what is noted at a function, `f.size = 224`, is no call."""
    holder = module.parents.get(node)
    if isinstance(holder, ast.Assign) and node in holder.targets:
        return True
    above = module.parents.get(holder) if isinstance(holder, ast.Attribute) else None
    return isinstance(above, ast.Assign) and holder in above.targets and isinstance(node, ast.Name)


def _is_its_key(node: ast.Constant, module: Module) -> bool:
    """Whether a text is the key of what it names: `{"vgg": nets.vgg}`. Who looks it up says whether that is called."""
    holder = module.parents.get(node)
    return isinstance(holder, ast.Dict) and any(
        key is node and chain(value).rpartition(".")[2] == node.value
        for key, value in zip(holder.keys, holder.values, strict=True)
    )


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
