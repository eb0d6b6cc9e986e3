"""Reads a case file and checks everything that can be checked before anything starts."""

import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parity.case.checks import cross_checks, missing_sources
from parity.case.errors import CaseError, Problem, describe, suggest
from parity.case.explain import SET_BY_LOADER, SUB_TABLES, explain, known_keys
from parity.case.lines import line_of, lines_of_keys
from parity.case.models import Case, MappingTables
from parity.case.not_offered import take_not_offered
from parity.mapping import MappingEntry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What the command line may set, and where it goes.
OVERRIDES: dict[str, tuple[str, ...]] = {
    "steps": ("steps",),
    "batch_size": ("batch_size",),
    "towers": ("towers",),
    "seed": ("seed",),
    "precision": ("precision",),
    "combine": ("combine",),
    "init": ("init",),
    "tf_python": ("tf", "python"),
    "backend": ("torch", "backend"),
    "opt_level": ("torch", "opt_level"),
    "half_dtype": ("torch", "half_dtype"),
    "sync_batch_norm": ("torch", "sync_batch_norm"),
}


def load_case(path: str | Path, **overrides: Any) -> Case:
    """Reads a case and checks all of it: keys, types, combinations, and that the functions it names exist.

    Args:
      path: the file, or the folder that holds it as ``case.toml``.
      **overrides: values that replace the file's, checked the same way; names are those of `OVERRIDES`, and None leaves
        the file's value.

    Returns:
      The case; its `directory` is absolute.

    Raises:
      CaseError: anything is wrong; the text lists every problem with file and line, or "--name" for an override.
    """
    file = Path(path) / "case.toml" if Path(path).is_dir() else Path(path)
    text = _read(file)
    data = _parse(file, text)
    from_flag = _apply(data, overrides)
    case, problems = _check(data, file.resolve().parent)
    if problems:
        lines = lines_of_keys(text)
        placed = [(from_flag.get(problem.key) or line_of(problem.key, lines), problem) for problem in problems]
        placed.sort(key=lambda item: (isinstance(item[0], str), str(item[0]).zfill(9)))
        raise CaseError(
            describe(str(file), [(at if isinstance(at, str) else f"{file}:{at}", problem) for at, problem in placed])
        )
    assert case is not None
    return case


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CaseError(
            f"case: expected UTF-8 in {file}, got byte {error.start} of another encoding. Save it so."
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CaseError(
            f"case: expected a case file at {file}, got: {reason}. Name the file, or the folder that holds case.toml."
        ) from None


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CaseError(f"case: expected TOML in {file}, got: {error}. Mend that line.") from None


def _apply(data: dict[str, Any], overrides: dict[str, Any]) -> dict[tuple[str, ...], str]:
    from_flag = {}
    for name, value in overrides.items():
        if name not in OVERRIDES:
            raise CaseError(f"case: expected an override that exists, got {name!r}. {suggest(name, OVERRIDES)}")
        if value is None:
            continue
        *tables, last = OVERRIDES[name]
        table: Any = data
        for part in tables:
            table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[last] = value
            from_flag[OVERRIDES[name]] = "--" + name.replace("_", "-")
    return from_flag


def _check(data: dict[str, Any], directory: Path) -> tuple[Case | None, list[Problem]]:
    problems = [
        Problem((name,), "a key of this table", "an unknown one", suggest(name, known_keys((name,), data)))
        for name in SET_BY_LOADER
        if name in data
    ]
    problems += take_not_offered(data)
    problems += cross_checks(data) + missing_sources(data, directory)
    case = None
    try:
        case = Case.model_validate({**_with_sub_tables(data), "directory": directory})
    except ValidationError as error:
        # What a check has reported or taken out of a key is its problem; that pydantic misses it is none of its own.
        reported = {problem.key for problem in problems}
        problems += [problem for problem in explain(error, data) if problem.key not in reported]
    return case, problems


def _with_sub_tables(data: dict[str, Any]) -> dict[str, Any]:
    mapping = data.get("mapping", {})
    if not isinstance(mapping, dict):
        return {name: value for name, value in data.items() if name not in SET_BY_LOADER}
    tables = {name: mapping[name] for name in SUB_TABLES if isinstance(mapping.get(name), dict)}
    kept = {name: value for name, value in mapping.items() if name not in tables}
    rest = {name: value for name, value in data.items() if name not in SET_BY_LOADER}
    return {**rest, "mapping": kept, "mapping_of": {name: tables.get(name, {}) for name in SUB_TABLES}}


def load_mapping(path: str | Path) -> tuple[dict[str, MappingEntry], dict[str, dict[str, MappingEntry]]]:
    """Reads only the [mapping] tables of a case, or of a file that has nothing else.

    Args:
      path: the file, or the folder that holds it as ``case.toml``.

    Returns:
      The variables' entries, and those of "act", "noise", "feed" and "metric".

    Raises:
      CaseError: the file or an entry is not what it should be.
    """
    file = Path(path) / "case.toml" if Path(path).is_dir() else Path(path)
    data = _with_sub_tables({"mapping": _parse(file, _read(file)).get("mapping", {})})
    try:
        read = MappingTables.model_validate(data)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise CaseError(f"case: expected [mapping] tables in {file}, got: {found}. Mend these entries.") from None
    return read.mapping, {str(name): entries for name, entries in read.mapping_of.items()}
