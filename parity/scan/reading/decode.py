"""Text of a source file: by its byte order mark, by its own declaration (PEP 263), as UTF-8, else byte by byte."""

import codecs
import json
import re
from pathlib import Path
from typing import Any

from parity.trace.bounded import parse_json

MOST_SOURCE_BYTES = 4 << 20  # generated tables are larger, and hold no training loop
MOST_NOTEBOOK_BYTES = 64 << 20  # pictures are in there
# The longer ones first: UTF-32's mark begins with UTF-16's.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DECLARED = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Codecs that Python has and that are no text encodings, or run what they are given.
NO_ENCODINGS = frozenset(["idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"])
MAGIC = re.compile(r"^([ \t]*)([%!?]|.*\?\s*$)")


class UnreadableFile(ValueError):
    """A file of which nothing, or not all, can be read."""


def read_source(path: Path) -> str:
    """Returns the text of a source file or notebook, with LF at the ends of lines.

    Raises:
      UnreadableFile: it is missing, no file, larger than the limit, holds no text, or is no notebook.
    """
    notebook = path.suffix == ".ipynb"
    most = MOST_NOTEBOOK_BYTES if notebook else MOST_SOURCE_BYTES
    try:
        if not path.is_file():
            raise UnreadableFile("is no file" if path.exists() else "is not there")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UnreadableFile(f"cannot be opened: {error.strerror}") from None
    if len(data) > most:
        raise UnreadableFile(f"is larger than {most >> 20} MiB")
    return cells_of(data) if notebook else decoded(data)


def decoded(data: bytes) -> str:
    """Returns the text of a file of Python.

    Raises:
      UnreadableFile: it holds no text.
    """
    text = _decoded(data)
    if "\0" in text:
        raise UnreadableFile("holds no text: it has NUL bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    encoding = _declared(data) or "utf-8"
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError, ValueError):
        # Every byte is a letter there: names and calls are ASCII, and comments are not read.
        return data.decode("latin-1")


def _declared(data: bytes) -> str | None:
    for line in data.splitlines()[:2]:
        match = DECLARED.match(line)
        if match:
            try:
                codec = codecs.lookup(match[1].decode("ascii"))
            except (LookupError, UnicodeError, ValueError):
                return None
            # Of bytes to bytes (zlib, hex) as well: those would unpack what a stranger packed.
            is_text = getattr(codec, "_is_text_encoding", True)
            return codec.name if is_text and codec.name.replace("-", "_") not in NO_ENCODINGS else None
    return None


def cells_of(data: bytes) -> str:
    """Returns the code cells of a notebook, each line where the file has it; lines for the notebook itself become comments.

    Where the file has several lines of code on one of its own, the cells are written one behind the other.

    Raises:
      UnreadableFile: it is no notebook.
    """
    try:
        notebook: Any = parse_json(data.removeprefix(codecs.BOM_UTF8))
        worksheets = notebook.get("worksheets")
        cells = notebook.get("cells") or [cell for sheet in worksheets or () for cell in sheet.get("cells", ())]
        sources = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, AttributeError, TypeError, RecursionError, json.JSONDecodeError):
        raise UnreadableFile("is no notebook") from None
    placed = _at_their_lines(sources, data)
    return "\n".join(placed if placed is not None else [line for source in sources for line in _runnable(source)])


def _at_their_lines(sources: list[list[str]], data: bytes) -> list[str] | None:
    """Puts each line of the cells where the notebook's file has it; None where it has several on one line."""
    raw = [line.strip().rstrip(",") for line in data.decode("utf-8", "replace").split("\n")]
    placed, place = [""] * len(raw), 0
    for line, runnable in (pair for source in sources for pair in zip(source, _runnable(source), strict=True)):
        if not line.strip():
            continue
        texts = {json.dumps(text, ensure_ascii=ascii) for text in (line, f"{line}\n") for ascii in (True, False)}
        while place < len(raw) and not any(raw[place].endswith(text) for text in texts):
            place += 1
        if place == len(raw):
            return None
        placed[place] = runnable
        place += 1
    return placed


def _runnable(lines: list[str]) -> list[str]:
    """Returns lines of a cell, of which those for the notebook itself, or for a shell, are comments."""
    runnable = list[str]()
    goes_on = False
    for line in lines:
        match = MAGIC.match(line)
        if match or goes_on:
            runnable.append(f"{match[1]}pass  # {line}" if match and not goes_on else f"# {line}")
            goes_on = line.rstrip().endswith("\\")
        else:
            runnable.append(line)
    return runnable


def _source(cell: dict[str, Any]) -> list[str]:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(source) if isinstance(source, list) else source
    lines = str(text).split("\n")
    # A whole cell may be for another language.
    if lines[0].startswith("%%") and not lines[0].startswith(("%%time", "%%capture", "%%prun")):
        return []
    return lines
