"""Turns names and texts of a trace, which may be anybody's, into text of a terminal, Python source and TOML."""

import keyword
import re

_KEPT_IN_TEXT = "\n\t"


def printable(text: str) -> str:
    """Returns text for a terminal: ends of lines and tabs stay, all else that is not printed becomes an escape.

    What is not printed is what `str.isprintable` says: control characters, with them every escape sequence and NUL, marks
    that turn the direction of what follows, separators of lines other than LF, and lone surrogates.
    """
    if text.isprintable():  # mostly, and a report of a large mapping has a million letters
        return text
    return "".join([each if each in _KEPT_IN_TEXT or each.isprintable() else _escaped(each) for each in text])


def one_line(text: str) -> str:
    """Returns text as one line of a terminal or a comment: the same, and ends of lines and tabs are escaped too."""
    return "".join([each if each.isprintable() else _escaped(each) for each in text])


def in_docstring(text: str) -> str:
    """Returns text for between triple quotes, which it cannot end: quotes become single ones, backslashes slashes."""
    return printable(text).replace("\\", "/").replace('"', "'")


def python_string(text: str) -> str:
    """Returns text as a literal of Python between double quotes, of one line."""
    # Backslashes first: those of the escapes that `one_line` adds are meant.
    doubled = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{one_line(doubled)}"'


def toml_string(text: str) -> str:
    """Returns text as a basic string of TOML; a lone surrogate, which no TOML can hold, becomes U+FFFD."""
    return f'"{"".join(map(_in_toml, text))}"'


def identifier(text: str, fallback: str = "v") -> str:
    """Returns a name that Python takes: letters, digits and underscores of ASCII, and no word of the language's own.

    Args:
      text: any.
      fallback: what the name begins with where the text begins with a digit, or is empty.
    """
    found = re.sub(r"[^0-9A-Za-z_]", "_", text)
    found = f"{fallback}_{found}" if not found or found[0].isdigit() else found
    return f"{found}_" if keyword.iskeyword(found) else found


def is_argument(name: str) -> bool:
    """Tells whether a function can have an argument of this name as it stands."""
    return name.isidentifier() and not keyword.iskeyword(name)


def _escaped(each: str) -> str:
    return each.encode("unicode_escape").decode("ascii")


def _in_toml(each: str) -> str:
    if each in '"\\':
        return f"\\{each}"
    if each.isprintable():
        return each
    code = ord(each)
    if 0xD800 <= code < 0xE000:
        return "\N{REPLACEMENT CHARACTER}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
