"""Which modules of a repository a module imports."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from parity.scan.model.module import Module
from parity.scan.model.repository import Repository


def imported_modules(module: Module, repository: Repository) -> set[Module]:
    """Returns the modules of the repository that one imports, itself and those that these import among them."""
    if module in repository.imported:
        return repository.imported[module]
    seen = {module}
    waiting = [module]
    while waiting:
        for name in waiting.pop().imports.values():
            for each in _of_name(name.split("."), module, repository):
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
    repository.imported[module] = seen
    return seen


def module_named(node: ast.Import | ast.ImportFrom, module: Module, repository: Repository) -> list[Module]:
    """Returns the modules of the repository that a statement imports, as far as no other has the name."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        package = module.name.split(".")[: -node.level] if node.level else []
        source = ".".join([*package, *([node.module] if node.module else [])])
        names = [f"{source}.{alias.name}" if source else alias.name for alias in node.names]
    modules = dict.fromkeys(each for name in names for each in _of_name(name.split("."), module, repository))
    return [each for each in modules if len(repository.called(each.path.stem)) == 1]


def _of_name(parts: Sequence[str], module: Module, repository: Repository) -> Iterator[Module]:
    """Yields the module that a dotted name is, and that which has it, as far as they are in the repository."""
    for size in (len(parts), len(parts) - 1):
        each = repository.by_name.get(".".join(parts[:size])) if size else None
        each = each or _beneath(parts[:size], module, repository.by_path)
        if each is not None:
            yield each


def _beneath(parts: Sequence[str], module: Module, by_path: Mapping[str, Module]) -> Module | None:
    """A module in a folder that a script stands in, or in one above: scripts are started there."""
    if not parts:
        return None
    for folder in module.path.parents:
        each = by_path.get("/".join([*folder.parts, *parts]).replace("//", "/") + ".py")
        if each is not None:
            return each
    return None
