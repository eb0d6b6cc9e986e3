"""Where in a file a node stands."""

import ast

from parity.scan.model.module import Module
from parity.scan.result import Place

MOST_LETTERS_OF_A_LINE = 400  # a generated line may have a million, and nobody reads it


def place_of(node: ast.AST, module: Module) -> Place:
    """Returns the place of a node; of a statement with a body that of its first line."""
    line = getattr(node, "lineno", 1)
    text = module.lines[line - 1] if 0 < line <= len(module.lines) else ""
    column = _letters(text, getattr(node, "col_offset", 0))
    end = len(text.rstrip())
    if getattr(node, "end_lineno", line) == line:
        end = _letters(text, getattr(node, "end_col_offset", 0))
    path = module.path.as_posix()
    return Place(path, line, column + 1, max(end, column + 1) + 1, text[:MOST_LETTERS_OF_A_LINE])


def _letters(text: str, count: int) -> int:
    """How many letters so many bytes of UTF-8 are."""
    return (
        len(text) if count > 4 * len(text) else len(text.encode("utf-8", "replace")[:count].decode("utf-8", "ignore"))
    )
