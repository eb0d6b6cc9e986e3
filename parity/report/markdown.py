"""Writes a result as Markdown, for a comment on a pull request: short, its details folded away."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from parity.judge.result import FirstDifference, Level, Result, Since
from parity.report.atomic import appearing
from parity.report.provenance import rows as origin_rows
from parity.report.since import NO_VALUE, heading_of, left_out_of, what_of
from parity.report.view import (
    HEADINGS,
    LEVEL_NUMBERS,
    WORST,
    accounting,
    differing,
    first_rows,
    flat,
    headings,
    name_of,
    plain,
    who,
)

MARKS = {"same": "✅", "different": "❌", "incomparable": "⚠️", "not_run": "➖"}
# What Markdown or HTML would take for itself inside a line.
SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&])")
# GitHub makes mentions and references even of what is escaped; a space of no width after the sign keeps it from that.
REFERRING = re.compile(r"([@#])(?=\w)")


def write_markdown(result: Result, path: Path, title: str) -> None:
    """Writes the report to `path`, whole or not at all.

    Args:
      result: what was found.
      path: the Markdown file to make.
      title: the case's name, or the traces'.
    """
    # Names in traces may hold what UTF-8 cannot say, lone surrogates of a script's own bytes: they become question
    # marks.
    with appearing(path) as file:
        file.write(as_markdown(result, title).encode("utf-8", "replace"))


def as_markdown(result: Result, title: str) -> str:
    """Returns the report: verdict, levels, first difference, causes, facts that differ, and the worst tensors folded."""
    heading = f"### {MARKS[result.verdict]} {result.verdict_in_words}: {as_text(title)}"
    parts = [heading, _sides(result), _levels(result)]
    parts += [_since(result.since)] if result.since else []
    level = next((level for level in result.levels.values() if level.first_difference), None)
    if level and level.first_difference:
        parts.append(_first(level, level.first_difference))
    for heading, cause in headings(result.causes, result.first_difference):
        explains = f"\n\nExplains: {as_text(cause.explains.sentence)}." if cause.explains else ""
        told = f"**{as_text(heading)}: {as_text(cause.title)}.** {as_text(cause.evidence)}.{explains}"
        parts.append(f"{told}\n\n> **Fix:** {as_text(cause.fix)}")
    one, other = flat(result.reference), flat(result.candidate)
    # Only what differs: a comment on a pull request has room for nothing else, the JSON has all of them.
    names = differing(one, other)
    if names:
        rows = [(as_code(name), as_code(plain(one.get(name))), as_code(plain(other.get(name)))) for name in names]
        parts.append(as_table(("fact that differs", "reference", "candidate"), rows))
    parts += [f"Note: {as_text(note)}" for note in result.notes]
    parts += [_worst(level) for level in result.levels.values() if level.checks]
    parts.append(as_text(accounting(result)))
    origin = [f"{term} {as_code(text)}" for term, text in origin_rows(result.provenance)]
    return "\n\n".join([*parts, *([f"<sub>{'; '.join(origin)}</sub>"] if origin else [])]) + "\n"


def _sides(result: Result) -> str:
    return f"{as_text(who(result.reference))} against {as_text(who(result.candidate))}"


def _levels(result: Result) -> str:
    rows = [
        (
            f"{LEVEL_NUMBERS[level.name]} {level.name}",
            f"{MARKS[level.verdict]} {level.verdict.replace('_', ' ')}",
            as_text(level.reason),
        )
        for level in result.levels.values()
    ]
    return as_table(("level", "verdict", "evidence"), rows)


def _first(level: Level, first: FirstDifference) -> str:
    where = f"**{HEADINGS[first.check.verdict]}:** step {first.check.step}, {as_code(name_of(first.check, level))}"
    return "\n".join([where, "", *(f"- {term}: {as_text(text)}" for term, text in first_rows(level, first))])


def _since(since: Since) -> str:
    rows = [
        (as_text(what_of(each)), as_code(each.before or NO_VALUE), as_code(each.after or NO_VALUE))
        for each in since.changes
    ]
    table = [as_table(("what", "then", "now"), rows)] if rows else []
    return "\n\n".join([f"**{as_text(heading_of(since))}**", *table, *filter(None, [left_out_of(since)])])


def _worst(level: Level) -> str:
    judged = [check for check in level.checks if check.verdict != "not_run"]
    rows = [
        (
            str(check.step),
            as_code(name_of(check, level)),
            f"{check.multiple:.2g}",
            f"{check.of_scale:.2g}",
            check.verdict,
        )
        for check in sorted(judged, key=lambda check: check.multiple, reverse=True)[:WORST]
    ]
    # The blank lines around it are what makes GitHub read Markdown inside of HTML.
    table = as_table(("step", "tensor", "of tolerance", "of scale", "verdict"), rows)
    return f"<details><summary>Worst tensors of level {level.name}</summary>\n\n{table}\n\n</details>"


def as_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table, of cells that are Markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_text(text: str) -> str:
    """Returns anybody's text as Markdown of one line, in which nothing of it is markup, a mention or a reference."""
    return REFERRING.sub("\\1\u200b", SPECIAL.sub(r"\\\1", " ".join(text.split())))


def as_code(text: str) -> str:
    """Returns anybody's text as code of one line."""
    # A code span has no escapes: a name with a bar or a backtick goes into an element, whose text has them.
    plain_text = " ".join(text.split())
    if plain_text and not set(plain_text) & set("`|<>&"):
        return f"`{plain_text}`"
    return f"<code>{SPECIAL.sub(_entity, plain_text)}</code>"


def _entity(found: "re.Match[str]") -> str:
    return f"&#{ord(found[0])};"
