"""Names that a module reads and binds nowhere: what reads one ends in a NameError."""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from parity.scan.model.module import Function, Module

BUILTINS_OF_PYTHON_2 = re.findall(
    r"\w+",
    "apply basestring buffer cmp coerce execfile file intern long raw_input reduce reload unichr unicode xrange print exec "
    "StandardError WindowsError",
)
GIVEN = frozenset([*dir(builtins), *BUILTINS_OF_PYTHON_2, "__file__", "__path__", "__class__", "__builtins__"])
# By which names come to be that no statement shows.
MADE_UP = re.compile(r"\bexec\b|execfile|globals\(\)|locals\(\)|(?<![\w.])vars\(\)|__builtins__|\bbuiltins\b|^\s*%")
MAY_HAVE_ANY = re.compile(r"import\s*\*|\bexec\b|execfile|globals\(\)|locals\(\)|setattr|__getattr__|sys\.modules")
GENERATED = re.compile(r"_pb2(_grpc)?$|^_|version")  # modules that are made when a package is built or installed
# Syntax trees here have no names of handlers.
HANDLED = re.compile(r"\s*except\b.*(?:\bas\s+|,\s*)(\w+)\s*:")
GLOBALS = re.compile(r"\s*(?:global|nonlocal)\s+([\w, ]+)")
# What stands in them may not be run, or may fail without ending the program.
SOMETIMES = (
    ast.If,
    ast.IfExp,
    ast.Try,
    ast.BoolOp,
    ast.Lambda,
    ast.comprehension,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
    ast.Assert,
    ast.Delete,
)


def unbound_names(module: Module, modules: Sequence[Module]) -> list[ast.Name]:
    """Returns where a module reads a name that it binds nowhere; none where names may come from elsewhere.

    Args:
      module: that is looked at.
      modules: all, of which `from ... import *` may be.
    """
    if module.path.suffix == ".ipynb":
        return []
    around = _with_stars(module, modules)
    if around is None or any(MADE_UP.search(line) for each in around for line in each.lines):
        return []
    bound = GIVEN.union(*(_bound(each) for each in around))
    return [
        node
        for function in module.functions
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id not in bound and _stands_there(node, module)
    ]


def lacking_imports(module: Module, texts: Sequence[tuple[Path, str]]) -> list[tuple[ast.ImportFrom, str]]:
    """Returns the imports of a name that is not there, each with that name.

    Of a file next to a module that does not have the word, and of the package that the module lies in, where it has neither
    a module nor the word.

    Args:
      module: that is looked at: a script finds modules in its own folder first.
      texts: of all files, by path.
    """
    files = {path: text for path, text in texts if path.suffix == ".py"}
    lacking = []
    for node in module.functions[0].nodes:
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level > 1:
            continue
        path = module.path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
        # Of several files, or folders, of a name it may be another one.
        others = [each for each in files if each != path and node.module.partition(".")[0] in (*each.parts, each.stem)]
        text = files.get(path)
        # A dot before it begins in the package, and not where that lies.
        if text is None and not node.level and _is_own_package(node.module, module):
            lacking += [(node, each.name) for each in node.names if not _is_in_package(each.name, node.module, files)]
        if text is None or others or MAY_HAVE_ANY.search(text):
            continue
        lacking += [(node, each.name) for each in node.names if not re.search(rf"\b{re.escape(each.name)}\b", text)]
    return [each for each in lacking if each[1] != "*"]


def _is_own_package(name: str, module: Module) -> bool:
    """Whether a package is the folder that a module lies in, by its name."""
    parts = name.split(".")
    return list(module.path.parent.parts[-len(parts) :]) == parts


def _is_in_package(name: str, package: str, files: Mapping[Path, str]) -> bool:
    """Whether a package, or another folder of its name, has a module, a package or a word of a name."""
    if name == "*" or GENERATED.search(name):
        return True
    parts, word = tuple(package.split(".")), re.compile(rf"\b{re.escape(name)}\b")
    for path, text in files.items():
        for size in range(len(parts), len(path.parts)):
            if path.parts[size - len(parts) : size] != parts:
                continue
            if path.parts[size] in (name, f"{name}.py"):
                return True
            if path.parts[size] == "__init__.py" and (word.search(text) or MAY_HAVE_ANY.search(text)):
                return True
    return False


def _with_stars(module: Module, modules: Sequence[Module]) -> list[Module] | None:
    """Returns a module and those that it imports all names of, and they; None where one of them is not there."""
    around = [module]
    for each in around:
        for name in each.imports:
            if name.startswith("*"):
                homes = [other for other in modules if other.name == name[1:] or other.name.endswith(f".{name[1:]}")]
                if not homes:
                    return None
                around += [home for home in homes if home not in around]
    return around


def _bound(module: Module) -> Iterator[str]:
    yield from module.imports
    yield from module.classes
    for line in module.lines:
        handled, said = HANDLED.match(line), GLOBALS.match(line)
        yield from handled.groups() if handled else ()
        yield from re.split(r"\s*,\s*", said[1].strip()) if said else ()
    for function in module.functions:
        yield function.name
        yield from (name.partition(".")[0] for name in function.assigned)
        for node in [function.node, *function.nodes]:
            if isinstance(node, ast.arg):
                # Python 2 takes tuples of names, which stand there as they are written.
                yield from re.findall(r"\w+", node.arg)
            elif isinstance(node, ast.Lambda | ast.FunctionDef):
                given = (each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))
                yield from (name for each in given for name in re.findall(r"\w+", each))
            elif isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            else:
                yield from _targets(node)


def _targets(node: ast.AST) -> Iterator[str]:
    targets: list[ast.AST] = list(node.targets) if isinstance(node, ast.Assign | ast.Delete) else []
    if isinstance(node, ast.For | ast.comprehension | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        targets = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        targets = [node.optional_vars]
    yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _stands_there(node: ast.Name, module: Module) -> bool:
    """Whether a name is one of the source: an expression that is not understood may be read as one."""
    line = module.lines[node.lineno - 1] if node.lineno <= len(module.lines) else ""
    return node.id.isidentifier() and bool(re.search(rf"(?<![\w.\"']){node.id}(?![\w\"'])", line.partition("#")[0]))


def runs_always(node: ast.AST, function: Function, finding: ast.AST | None = None) -> bool:
    """Whether a function runs something whenever it runs, or whenever it runs what a finding is about."""
    around = set(function.module.ancestors(finding)) if finding is not None else set()
    for each in function.module.ancestors(node):
        if each is function.node:
            return True
        if isinstance(each, SOMETIMES) and each not in around:
            return False
    return True
