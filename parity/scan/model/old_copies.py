"""Modules that were set aside: in a folder, or under a name, that says so, and nothing imports or starts them."""

import re

from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Module
from parity.scan.model.repository import Repository

NAMES_OF_OLD_COPIES = re.compile(
    r"^(_?(old|older|temp|tmp|backups?|bak|deprecated|obsolete|unused|archived?|trash|failed|broken|attic|outdated)|"
    r".*_(old|backup|bak|deprecated|obsolete|unused|failed|broken))$",
    re.IGNORECASE,
)


def old_copy_reason(module: Module, repository: Repository) -> str:
    """Returns which name says that a module is an old copy, "" where none does, or where something leads to it."""
    parts = module.name.split(".")
    name = next((part for part in parts if NAMES_OF_OLD_COPIES.match(part)), "")
    if not name or any(
        other is not module and not _is_named_so(other) and module in imported_modules(other, repository)
        for other in repository.modules
    ):
        return ""
    started = re.compile(rf"{re.escape('/'.join(parts[parts.index(name) :]))}\b|{re.escape(module.name)}\b")
    root = len(module.path.parts) - len(parts)
    if any(
        path != module.path and name not in path.parts[root:] and started.search(text)
        for path, text in repository.texts
    ):
        return ""
    return f"it is in {name}, and nothing here imports or starts it"


def _is_named_so(module: Module) -> bool:
    return any(NAMES_OF_OLD_COPIES.match(part) for part in module.name.split("."))
