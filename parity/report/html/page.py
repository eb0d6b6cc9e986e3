"""Writes a result as one page that opens from disk, with no network: for those who want to look around in it."""

from pathlib import Path
from typing import Any

from parity.diagnose.catalogue import CAUSES
from parity.judge.result import Check, Level, Result, Since
from parity.report.atomic import appearing
from parity.report.cause_pages import Section, sections_of
from parity.report.html.charts import draw_losses, flow_of
from parity.report.html.grid import Grid, closer_of, grids, packed, packed_names, place
from parity.report.html.template import page_file, render
from parity.report.provenance import rows as origin_rows
from parity.report.since import NO_VALUE, heading_of, left_out_of, what_of
from parity.report.terms import TERMS
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

SCRIPTS = ("numbers.js", "tensor.js", "closer.js", "heatmap.js", "page.js")
SENTENCES = {
    "same": "The two sides are the same training, down to rounding, in every level that was run.",
    "different": "The two sides are not the same training.",
    "incomparable": "The two sides could not be compared.",
}


def write_html(result: Result, path: Path, title: str) -> None:
    """Writes the page to `path`, whole or not at all.

    Args:
      result: what was found.
      path: the HTML file to make.
      title: the case's name, or the traces'.
    """
    page = as_html(result, title).encode("utf-8", "replace")
    with appearing(path) as file:
        file.write(page)


def as_html(result: Result, title: str) -> str:
    """Returns the page: every text from the result escaped, and nothing in it allowed to load or to send anything."""
    found = grids(result)
    # Names are long and every run of every level has the same ones: each stands in the page once.
    numbers: dict[str, int] = {}
    shown = [grid.as_json(numbers) for grid in found]
    style, script = (
        page_file("parity.report", "page.css"),
        "\n".join(page_file("parity.report", name) for name in SCRIPTS),
    )
    return render(
        page_file("parity.report", "page.html"),
        style,
        script,
        title=title,
        verdict=result.verdict,
        qualified=result.verdict_in_words.removeprefix(result.verdict),
        sentence=SENTENCES.get(result.verdict, ""),
        sides=(who(result.reference), who(result.candidate)),
        numbers=LEVEL_NUMBERS,
        levels=list(result.levels.values()),
        notes=result.notes,
        since=result.since and _since(result.since),
        first=_first(result),
        causes=headings(result.causes, result.first_difference),
        explained={each.name: _explained(each.name) for each in result.causes if each.name in CAUSES},
        facts=_facts(result),
        flows=[flow_of(facts, result.first_difference) for facts in (result.reference, result.candidate)],
        losses=[draw_losses(losses) for losses in result.losses],
        worst=[_worst(level) for level in result.levels.values() if level.checks],
        pairs=result.pairs,
        accounting=accounting(result),
        terms=TERMS,
        origin=origin_rows(result.provenance),
        data=_data(result, found, shown),
        names=packed_names(list(numbers)),
        packed=[packed(grid) for grid in found],
        grids=found,
    )


def _data(result: Result, found: list[Grid], shown: list[dict[str, Any]]) -> dict[str, Any]:
    places = []
    for level in result.levels.values():
        first = level.first_difference
        where = place(found, level, first.check) if first else None
        if first and where:
            heading = f"{HEADINGS[first.check.verdict]} of this level"
            places.append({"place": where, "heading": heading, "rows": first_rows(level, first)})
    # The page opens at the first difference, else at the first level that is not the same, else at the first of all.
    bad = {name for name, level in result.levels.items() if level.verdict in ("different", "incomparable")}
    number = next((number for number, grid in enumerate(found) if grid.level in bad), 0)
    opened = places[0]["place"] if places else (number, 0, 0)
    closer = closer_of(result, found)
    return {"grids": shown, "firsts": places, "opened": opened, "closer": closer}


def _first(result: Result) -> dict[str, Any] | None:
    level = next((level for level in result.levels.values() if level.first_difference), None)
    if level is None or level.first_difference is None:
        return None
    check = level.first_difference.check
    return {
        "heading": HEADINGS[check.verdict],
        "step": check.step,
        "name": name_of(check, level),
        "level": f"{LEVEL_NUMBERS[level.name]} {level.name}",
        "verdict": check.verdict,
        "rows": first_rows(level, level.first_difference),
    }


def _since(since: Since) -> dict[str, Any]:
    rows = [(what_of(each), each.before or NO_VALUE, each.after or NO_VALUE) for each in since.changes]
    return {"heading": heading_of(since), "rows": rows, "left_out": left_out_of(since)}


def _explained(name: str) -> list[Section]:
    """Returns the page of a cause, without what the report itself says of it here: its title and its fix."""
    return [section for section in sections_of(CAUSES[name]) if not section.quoted and section.lines]


def _facts(result: Result) -> list[tuple[str, str, str, bool]]:
    one, other = flat(result.reference), flat(result.candidate)
    marked = set(differing(one, other))
    # Those that differ first.
    names = sorted({*one, *other}, key=lambda name: (name not in marked, name))
    return [(name, plain(one.get(name)), plain(other.get(name)), name in marked) for name in names]


def _worst(level: Level) -> tuple[str, list[tuple[Check, str]]]:
    judged = [check for check in level.checks if check.verdict != "not_run"]
    worst = sorted(judged, key=lambda check: check.multiple, reverse=True)[:WORST]
    return f"{LEVEL_NUMBERS[level.name]} {level.name}", [(check, name_of(check, level)) for check in worst]
