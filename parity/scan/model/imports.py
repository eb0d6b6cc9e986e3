"""Which modules of a repository a module imports."""

from collections.abc import Mapping, Sequence

from parity.scan.model.module import Module
from parity.scan.model.repository import Repository


def imported_modules(module: Module, repository: Repository) -> set[Module]:
    """Returns the modules of the repository that one imports, itself and those that these import among them."""
    if module in repository.imported:
        return repository.imported[module]
    by_name = {each.name: each for each in repository.modules}
    by_path = {each.path.as_posix(): each for each in repository.modules}
    seen = {module}
    waiting = [module]
    while waiting:
        for name in waiting.pop().imports.values():
            parts = name.split(".")
            for size in (len(parts), len(parts) - 1):
                each = by_name.get(".".join(parts[:size])) if size else None
                each = each or _beneath(parts[:size], module, by_path)
                if each is not None and each not in seen:
                    seen.add(each)
                    waiting.append(each)
    repository.imported[module] = seen
    return seen


def _beneath(parts: Sequence[str], module: Module, by_path: Mapping[str, Module]) -> Module | None:
    """A module in a folder that a script stands in, or in one above: scripts are started there."""
    if not parts:
        return None
    for folder in module.path.parents:
        each = by_path.get("/".join([*folder.parts, *parts]).replace("//", "/") + ".py")
        if each is not None:
            return each
    return None
