"""Finds the line of every key of a TOML file, which the parser of the standard library does not tell."""

import re

_KEY = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""+|\'\'\'.*?\'\'\'+|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|\n|.',
    re.DOTALL,
)


def lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """Returns the line, from 1, of each key and table header; keys inside inline tables have their table's line.

    Args:
      text: a document that a TOML parser has accepted.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        start, first = at, line
        at, line = _statement_end(text, at, line)
        statement = text[start:at].strip()
        if not statement or statement.startswith("#"):
            continue
        header = statement.startswith("[")
        key = _dotted(statement.lstrip("[") if header else statement)
        table, path = (key, key) if header else (table, table + key)
        for length in range(1, len(path) + 1):
            found.setdefault(path[:length], first)
    return found


def line_of(key: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> int:
    """Returns the line of a key, or of the innermost table around it that the file has, or 1."""
    return next((lines[key[:length]] for length in range(len(key), 0, -1) if key[:length] in lines), 1)


def _statement_end(text: str, at: int, line: int) -> tuple[int, int]:
    depth = 0
    for token in _TOKEN.finditer(text, at):
        piece = token.group()
        line += piece.count("\n")
        depth += (piece in "[{") - (piece in "]}")
        if piece == "\n" and depth == 0:
            return token.end(), line
    return len(text), line


def _dotted(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    at = 0
    while match := _KEY.match(text, at):
        part = match.group(1)
        parts.append(_unescaped(part[1:-1]) if part[0] == '"' else part.strip("'"))
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(parts)


def _unescaped(text: str) -> str:
    letters = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}

    def value(match: re.Match[str]) -> str:
        code = match.group(1)
        return letters.get(code, code) if len(code) == 1 else chr(int(code[1:], 16))

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)", value, text)
