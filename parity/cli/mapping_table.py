"""Leaves the [mapping] table that is known when the variables of two sides do not match, ready to be completed and used."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

MAPPING_FILE = "mapping.toml"


def leave_table(arguments: argparse.Namespace, error: BaseException) -> Path | None:
    """Writes the table of a `MappingError` into the folder of --out, else into a temporary file, and says where.

    Args:
      arguments: of the command.
      error: what ended it.

    Returns:
      The file, or None where there is no table or it cannot be written.
    """
    table = getattr(error, "table", "")
    if not table:
        return None
    try:
        path = _place(getattr(arguments, "out", None))
        path.write_text(table, encoding="utf-8")
    # What ended the command is said already, and is its reason still.
    except OSError as unwritten:
        print(f"parity: expected to write a [mapping] table, got: {unwritten.strerror}.", file=sys.stderr)
        return None
    print(f"the [mapping] table, with what is known and what is guessed: {path}", file=sys.stderr)
    return path


def _place(out: Path | None) -> Path:
    if out is not None and Path(out).is_dir():
        return Path(out) / MAPPING_FILE
    # Without --out the run's own folder is gone when the table is read.
    handle, name = tempfile.mkstemp(prefix="mapping-", suffix=".toml")
    os.close(handle)
    return Path(name)
