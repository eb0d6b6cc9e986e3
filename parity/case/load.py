"""Reads a case file and checks everything that can be checked before anything starts."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from parity.case.errors import CaseError, Problem, describe, shown, suggest
from parity.case.optimizers import OF_OPTIMIZERS, OPTIMIZERS, WeightDecay
from parity.case.schema import Case, Expect, MappingTables, TfSide, TorchSide
from parity.case.validate import cross_checks, missing_sources, take_not_offered
from parity.mapping import MappingEntry
from parity.trace.bounded import MOST_DEPTH, require_depth, size_of
from parity.trace.errors import TraceError

# The parser of the standard library does not say where a key stands. These take a document apart only as far as that
# needs, once that parser has accepted it: strings and comments are single tokens, so that brackets in them do not
# count.
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
    # Invariant: `at` is the start of a statement, on line `line`, and `table` the header that it stands under.
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
            found.setdefault(path[:length], first)  # of a table that comes in pieces the first is where it begins
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
        if piece == "\n" and depth == 0:  # inside brackets a value goes on
            return token.end(), line
    return len(text), line


def _dotted(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    at = 0
    while match := _KEY.match(text, at):
        part = match.group(1)
        parts.append(_unescaped(part[1:-1]) if part[0] == '"' else part.strip("'"))
        at = match.end()
        # A dot goes on with the key; anything else, "=" or "]", ends it.
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


SET_BY_LOADER = ("directory", "mapping_of")
SUB_TABLES = ("act", "noise", "feed", "metric")
_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
}
_LINES = {
    ("name",): 'name = "my_case"',
    ("steps",): "steps = 20",
    ("batch_size",): "batch_size = 64, over all towers",
    ("towers",): "towers = 2",
    ("batches",): 'batches = "data:batches"',
    ("tf",): '[tf] with tower = "model_tf:tower"',
    ("tf", "tower"): 'tower = "model_tf:tower"',
    ("torch",): '[torch] with model = "model_torch:Model" and loss = "model_torch:loss"',
    ("torch", "model"): 'model = "model_torch:Model"',
    ("torch", "loss"): 'loss = "model_torch:loss"',
    ("expect", "why"): 'why = "...", the reason for whoever reads the report',
    ("optimizer", "learning_rate"): "learning_rate = 0.1",
    ("optimizer", "momentum"): "momentum = 0.9, for TensorFlow has no default",
    ("optimizer", "name"): f"name, one of {', '.join(OPTIMIZERS)}",
}
_ENTRY = '"conv1.weight", or { to = "conv1.weight", transform = "hwio_to_oihw" }'
_WHY_COMBINE = (
    'Write combine = "mean" or "sum", whichever the legacy combine_gradients does: towers that sum take steps as many '
    "times as large as there are towers, so there is no default."
)


def explain(error: ValidationError, data: dict[str, Any]) -> list[Problem]:
    """Returns a problem for each of pydantic's errors; `data` is what was validated."""
    return [_problem(detail, data) for detail in error.errors(include_url=False)]


def known_keys(key: tuple[str, ...], data: dict[str, Any]) -> Iterable[str]:
    """Returns the keys that the table around `key` may have."""
    if len(key) == 1:
        return [name for name in Case.model_fields if name not in SET_BY_LOADER]
    if key[0] == "optimizers" and len(key) > 2:
        described = data["optimizers"].get(key[1])
        return known_keys(("optimizer", *key[2:]), {"optimizer": described})
    if key[0] == "optimizer" and len(key) > 2:
        return list(OF_OPTIMIZERS[key[1]].model_fields)
    if key[0] == "optimizer":
        described = data.get("optimizer")
        return list(OPTIMIZERS[described["name"]].model_fields) if isinstance(described, dict) else []
    if key[:2] == ("expect", "weight_decay") and len(key) > 2:
        return list(WeightDecay.model_fields)
    tables: dict[str, type[BaseModel]] = {"expect": Expect, "tf": TfSide, "torch": TorchSide, "mapping": MappingEntry}
    return list(tables[key[0]].model_fields)


def _problem(detail: Any, data: dict[str, Any]) -> Problem:
    key, kind, context, value = _key(detail["loc"]), detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "missing" and key == ("combine",):
        return Problem(key, '"mean" or "sum"', "none", _WHY_COMBINE)
    # A union is told apart by its tag: an [optimizer] without a name is one error here, and not one for each optimizer.
    if kind in ("missing", "union_tag_not_found"):
        key = (*key, "name") if kind == "union_tag_not_found" and isinstance(value, dict) else key
        return Problem(key, "to be there", "none", f"Write {_LINES.get(key, 'it')}.")
    if kind == "extra_forbidden":
        return Problem(key, "a key of this table", "an unknown one", suggest(key[-1], known_keys(key, data)))
    if kind == "union_tag_invalid":
        choices = ", ".join(repr(name) for name in OPTIMIZERS)
        name = value.get("name")
        return Problem((*key, "name"), f"one of {choices}", shown(name), suggest(str(name), OPTIMIZERS))
    if kind == "literal_error":
        return Problem(key, context["expected"], shown(value), _right_word(key, value))
    if kind in _BOUNDS:
        return Problem(key, _BOUNDS[kind].format(**context), shown(value), "Write such a number.")
    if kind == "string_pattern_mismatch":
        if key == ("init",):
            return Problem(key, '"perturbed", "model" or "checkpoint:PATH"', shown(value), "Write one of them.")
        return Problem(key, '"module:function"', shown(value), "Write the module's name, a colon and the function's.")
    if kind == "value_error":
        return _of_entry(key, str(context["error"]), value)
    # Deeper keys are those of an entry's own table, of which each has its type.
    if kind.endswith("_type") and key[0] == "mapping" and kind != "string_type" and len(key) < 4:
        return Problem(key, "a name or a table", shown(value), f"Write {_ENTRY}.")
    return Problem(key, _KINDS.get(kind, detail["msg"]), shown(value), "Write it like that.")


def _of_entry(key: tuple[str, ...], text: str, value: Any) -> Problem:
    # The mapping's own errors read "who: expected X, got Y. Do Z." already.
    expected, _, rest = text.partition("expected ")[2].partition(", got ")
    write = rest.partition(". ")[2] or f"Write {_ENTRY}."
    return Problem(key, expected, shown(value), write)


def _key(location: tuple[Any, ...]) -> tuple[str, ...]:
    key = tuple(str(part) for part in location)
    if key[0] == "optimizers" and len(key) > 2:
        return ("optimizers", key[1], *_key(("optimizer", *key[2:]))[1:])
    if key[0] == "optimizer" and len(key) > 1 and key[1] in OPTIMIZERS:
        key = (key[0], *key[2:])
        # The kind that a learning rate or a loss scale was taken for is no key of the case.
        return key[:2] + key[3:] if key[1:2] in (("learning_rate",), ("loss_scale",)) else key
    return ("mapping", *key[1:]) if key[0] == "mapping_of" else key


def _right_word(key: tuple[str, ...], value: Any) -> str:
    if key[-1] == "opt_level":
        return 'Write "O0", with the letter O and a zero.'
    return "Write one of them."


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES_OF_TOML = 10_000_000  # a mapping of 100,000 variables
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
        # By line, those of options last; as text filled up with zeros, for numbers and names do not compare.
        placed.sort(key=lambda item: (isinstance(item[0], str), str(item[0]).zfill(9)))
        raise CaseError(
            describe(str(file), [(at if isinstance(at, str) else f"{file}:{at}", problem) for at, problem in placed])
        )
    assert case is not None
    return case


def _read(file: Path) -> str:
    try:
        # Editors of Windows put a byte order mark in front, which TOML's parser refuses.
        size_of(str(file), MOST_BYTES_OF_TOML)
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except TraceError as error:
        raise CaseError(str(error).replace("trace: ", "case: ", 1).partition(". ")[0] + ". Name a case.") from None
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
        data = tomllib.loads(text)
        require_depth(data)
        return data
    # Beside TOMLDecodeError: an integer of more digits than Python converts, and brackets without end.
    except ValueError as error:
        raise CaseError(f"case: expected TOML in {file}, got: {error}. Fix that line.") from None
    except RecursionError:
        raise CaseError(
            f"case: expected TOML in {file}, got more than {MOST_DEPTH} levels of tables and lists in each other. "
            "Write it flat."
        ) from None


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
            # Where the file has something else in the table's place the check says so, and of the file.
            table = table.setdefault(part, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[last] = value
            # So that a problem with it is said of the option and not of a line that the file may not even have.
            from_flag[OVERRIDES[name]] = "--" + name.replace("_", "-")
    return from_flag


def _check(data: dict[str, Any], directory: Path) -> tuple[Case | None, list[Problem]]:
    problems = [
        Problem((name,), "a key of this table", "an unknown one", suggest(name, known_keys((name,), data)))
        for name in SET_BY_LOADER
        if name in data
    ]
    # What is taken out first is reported once; then the checks that read the file as it was written, for pydantic may
    # refuse a type and never come to them; pydantic last.
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
    # [mapping.act] is a table and "act" in [mapping] an entry, though TOML puts both under one key.
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
        raise CaseError(f"case: expected [mapping] tables in {file}, got: {found}. Fix these entries.") from None
    return read.mapping, {str(name): entries for name, entries in read.mapping_of.items()}
