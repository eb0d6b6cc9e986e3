"""What a case may say by design but this version cannot do yet; refused, for nothing in a case is ever ignored."""

from typing import Any, NamedTuple

from parity.case.errors import Problem, shown


class NotOffered(NamedTuple):
    """One row: a key, and which of its values are refused.

    Fields:
      key: path of the key; "*" stands for every key of the table.
      values: the values refused; empty: all of them.
      instead: what to do, a sentence.
    """

    key: tuple[str, ...]
    values: tuple[object, ...] = ()
    instead: str = "Leave it out."


NOT_OFFERED = (NotOffered(("mapping", "noise", "*")),)


def take_not_offered(data: dict[str, Any]) -> list[Problem]:
    """Takes out of `data` what `NOT_OFFERED` lists, and returns a problem for each.

    Args:
      data: a case as parsed; changed in place, so that nothing is reported twice.
    """
    problems = []
    for row in NOT_OFFERED:
        *tables, last = row.key
        table: Any = data
        for name in tables:
            table = table.get(name) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            continue
        for name in list(table) if last == "*" else [last]:
            if name in table and _refused(row, table[name]):
                value = table.pop(name)
                key = (*tables, name)
                got = f"{shown(value)}, which is not offered yet by this version"
                problems.append(Problem(key, "what this version can do", got, row.instead))
    return problems


def _refused(row: NotOffered, value: Any) -> bool:
    return not row.values or any(type(value) is type(other) and value == other for other in row.values)
