"""Finds the functions that a case names, without importing anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

from parity.case.errors import CaseError, suggest


def find_source(spec: str, directory: Path) -> Path:
    """Returns the file that defines "module:function", looked up in `directory`, then in the folder above it.

    The file is parsed and never run, so that a misspelt name shows before any framework starts.

    Args:
      spec: module, dotted or not, and a name at its top level.
      directory: the case's folder.

    Raises:
      CaseError: no such module in either folder, a file that does not parse, or no such name in it.
    """
    module, _, name = spec.partition(":")
    path = _file_of(module, directory)
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise CaseError(f"case: expected Python in {path}, got at line {line}: {reason}. Mend it.") from None
    defined = set(_top_level(tree.body))
    if name not in defined and "*" not in defined:
        near = suggest(name, defined)
        write = near if near.startswith("Did you mean") else "Define it there, or write its right name."
        raise CaseError(f"case: expected {path} to define {name!r}, got no such name. {write}")
    return path


def _file_of(module: str, directory: Path) -> Path:
    parts = module.split(".")
    folders = (directory, directory.parent)
    for folder in folders:
        for path in (folder.joinpath(*parts, "__init__.py"), folder.joinpath(*parts).with_suffix(".py")):
            if path.is_file():
                return path
    if parts[-1] == "py":
        raise CaseError(f"case: expected a module, got the file {module!r}. Write {module.removesuffix('.py')!r}.")
    raise CaseError(
        f"case: expected {'/'.join(parts)}.py in {folders[0]} or {folders[1]}, got no such file. "
        "Put it there, or write the module's right name."
    )


def _top_level(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)
