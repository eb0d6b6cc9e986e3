"""Names that a module reads and binds nowhere: what reads one ends in a NameError."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from parity.scan.model.module import Function, Module
from parity.scan.model.options import is_holder
from parity.scan.model.repository import Repository

BUILTINS_OF_PYTHON_2 = re.findall(
    r"\w+",
    "apply basestring buffer cmp coerce execfile file intern long raw_input reduce reload unichr unicode xrange print exec "
    "StandardError WindowsError",
)
GIVEN = frozenset([*dir(builtins), *BUILTINS_OF_PYTHON_2, "__file__", "__path__", "__class__", "__builtins__"])
# By which names come to be that no statement shows.
MADE_UP = re.compile(r"\bexec\b|execfile|globals\(\)|locals\(\)|(?<![\w.])vars\(\)|__builtins__|\bbuiltins\b|^\s*%")
MAY_HAVE_ANY = re.compile(r"import\s*\*|\bexec\b|execfile|globals\(\)|locals\(\)|setattr|__getattr__|sys\.modules")
HOLDERS_OF_FLAGS = ("tf.flags.FLAGS", "tf.app.flags.FLAGS", "absl.flags.FLAGS")
FLAGS_OF_ALL = frozenset(
    ["help", "helpfull", "helpshort", "helpxml", "h", "log_dir", "v", "verbosity", "alsologtostderr", "logtostderr"]
)
BUILDERS = ("setup.py", "build.py", "compile.py")
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


def lacking_imports(module: Module, repository: Repository) -> list[tuple[ast.Import | ast.ImportFrom, str]]:
    """Returns the imports of a name that is not there, each with that name.

    Of a file next to a module that does not have the word; of the package that the module lies in, and of one next to it,
    where it has neither a module nor the word; and of a module that is nowhere, where others have all that is taken from it:
    it has had another name.

    Args:
      module: that is looked at: a script finds modules in its own folder first.
      repository: with the texts of all files.
    """
    files = {path: text for path, text in repository.texts if path.suffix == ".py"}
    lacking: list[tuple[ast.Import | ast.ImportFrom, str]] = []
    for node in module.functions[0].nodes:
        if isinstance(node, ast.Import):
            lacking += [(node, alias.name) for alias in node.names if _lacks_a_package(alias.name, module, files)]
        elif isinstance(node, ast.ImportFrom) and node.level < 2:
            lacking += [(node, name) for name in _lacking_of(node, module, files)]
            if not node.level and _had_another_name(node, repository):
                lacking.append((node, node.module or ""))
    return lacking


def _lacking_of(node: ast.ImportFrom, module: Module, files: Mapping[Path, str]) -> list[str]:
    """Returns the names that a statement imports from where they are not."""
    names = [alias.name for alias in node.names if alias.name != "*"]
    if not node.module:
        return [name for name in names if _is_not_in(name, module.path.parent, files)]
    path = module.path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
    # Of several files, or folders, of a name it may be another one.
    others = [each for each in files if each != path and node.module.partition(".")[0] in (*each.parts, each.stem)]
    text = files.get(path)
    if text is not None:
        has_all = bool(others) or bool(MAY_HAVE_ANY.search(text))
        return [] if has_all else [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]
    # A dot before it begins in the package, and not where that lies.
    if not node.level and _is_own_package(node.module, module):
        return [name for name in names if not _is_in_package(name, node.module, files)]
    first = node.module.partition(".")[0]
    if not node.level and module.path.parent / first / "__init__.py" not in files:
        return []
    home, stem = path.parent, path.stem
    if any(_is_not_in(part, parent, files) for part, parent in _steps_to(path, module.path.parent)):
        return [node.module]
    folder = home / stem
    return [name for name in names if folder / "__init__.py" in files and _is_not_in(name, folder, files)]


def _lacks_a_package(name: str, module: Module, files: Mapping[Path, str]) -> bool:
    """Whether `import a.b` names what the package `a` next to a module does not have."""
    folder = module.path.parent
    if "." not in name or folder / name.partition(".")[0] / "__init__.py" not in files:
        return False
    path = folder.joinpath(*name.split("."))
    return any(_is_not_in(part, parent, files) for part, parent in _steps_to(path, folder))


def _steps_to(path: Path, folder: Path) -> list[tuple[str, Path]]:
    """Returns the folders from one down to a file, each with what is looked for in it."""
    parts = path.with_suffix("").relative_to(folder).parts
    return [(part, folder.joinpath(*parts[:number])) for number, part in enumerate(parts)]


def _is_not_in(name: str, folder: Path, files: Mapping[Path, str]) -> bool:
    """Whether a package has neither a file of a name, with whatever ending, nor the word, and builds none."""
    try:
        if any(each.name.partition(".")[0] == name for each in folder.iterdir()):
            return False
    except OSError:
        return False
    word = re.compile(rf"\b{re.escape(name)}\b")
    text = files.get(folder / "__init__.py", "")
    built = any(path.name in BUILDERS and word.search(each) for path, each in files.items())
    return not (GENERATED.search(name) or built or word.search(text) or MAY_HAVE_ANY.search(text))


def _had_another_name(node: ast.ImportFrom, repository: Repository) -> bool:
    """Whether a module is nowhere, and all that is imported from it stands in other modules: it has been renamed.

    One that is said to be installed is not of the repository.
    """
    name = node.module or ""
    if not name.isidentifier() or name in sys.stdlib_module_names or any(alias.name == "*" for alias in node.names):
        return False
    if not all(any(_has_at_top(each, alias.name) for each in repository.modules) for alias in node.names):
        return False
    if any(name in (path.stem, *path.parts) for path, _ in repository.texts):
        return False
    installed = re.compile(rf"(pip3?|conda) install\b.*\b{re.escape(name)}\b|^\W*{re.escape(name)}\b\W*$", re.MULTILINE)
    return not any(name in text and installed.search(text) for _, text in repository.texts)


def _has_at_top(module: Module, name: str) -> bool:
    given = module.functions[0].assigned
    is_function = any(each.name == name and not each.owner for each in module.functions)
    return is_function or name in module.classes or name in given


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


def lacking_attributes(module: Module, repository: Repository) -> list[tuple[ast.Attribute, str]]:
    """Returns where a module reads what a module of the repository, or the options of the program, do not have, and which.

    Args:
      module: that is looked at.
      repository: all modules, and the texts of all files.
    """
    given = {name for function in module.functions for name in (*function.assigned, *function.parameters)}
    # Options may be defined where all names come from.
    has_stars = any(name.startswith("*") for name in module.imports)
    lacking = []
    for node in (node for function in module.functions for node in function.nodes):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        name = node.value.id
        if module.resolved(node.value) in HOLDERS_OF_FLAGS:
            if not has_stars and not _is_called_or_set(node, module) and not _is_an_option(node.attr, repository):
                lacking.append((node, "no option of this name is defined"))
        # Of several files of settings one takes the other's place.
        elif name in module.imports and name not in given and not is_holder(node.value):
            home = _only_home(module.imports[name], repository)
            text = "\n".join(home.lines) if home is not None else ""
            if home is not None and not MAY_HAVE_ANY.search(text) and not _mentions(node.attr, text):
                lacking.append((node, f"{home.path.name} does not have it"))
    return lacking


def _mentions(name: str, text: str) -> bool:
    return name.startswith("__") or bool(re.search(rf"\b{re.escape(name)}\b", text))


def _only_home(name: str, repository: Repository) -> Module | None:
    """Returns the module of a dotted name, None where there is none or where a file or a folder has the name as well."""
    stem = name.rpartition(".")[2]
    homes = repository.called(stem)
    folders = any(stem in each.path.parent.parts for each in repository.modules)
    if len(homes) != 1 or folders or not (homes[0].name == name or homes[0].name.endswith(f".{name}")):
        return None
    return homes[0]


def _is_called_or_set(node: ast.Attribute, module: Module) -> bool:
    holder = module.parents.get(node)
    return (isinstance(holder, ast.Call) and holder.func is node) or node in getattr(holder, "targets", ())


def _is_an_option(name: str, repository: Repository) -> bool:
    """Whether anything may define an option: a text that is its name, in whatever file, or one of those that all have."""
    if name in FLAGS_OF_ALL or name in repository.definitions:
        return True
    word = re.compile(rf"""["']{re.escape(name)}["']|\b{re.escape(name)}\s*=|FLAGS\.{re.escape(name)}\s*=""")
    return any(word.search(text) for path, text in repository.texts if path.suffix in (".py", ".ipynb"))


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
