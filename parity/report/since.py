"""What changed since an earlier run of the same case: verdict, levels, first difference, causes, tensors, facts, origin."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from parity.judge.result import ChangeSince, Result, Since
from parity.report.json_file import RESULT_FORMAT, RESULT_FORMAT_VERSION, as_json
from parity.report.plain_table import PlainTable
from parity.report.view import LEVEL_NUMBERS, flat, plain
from parity.trace.bounded import read_json

NO_VALUE = "none"
# The time is in the heading; a command names files, which differ from run to run.
ORIGIN = ("tool", "version", "python", "host", "system", "commit", "modified", "digest")
# A ratio of difference to tolerance that is less than this says nothing but rounding, however it changes.
LEAST_RATIO = 0.1
# Rounding alone moves a ratio by less: other seeds of a perturbed run, another host's order of a sum.
MUCH = 2.0
MOST_CHANGES = 10  # what a terminal has room for, of facts as well
LONGEST_VALUE = 200  # characters of one value: a fact may be a list of a thousand names


Verdict = Literal["same", "different", "incomparable", "not_run"]
Number = float | Literal["nan", "inf", "-inf"]  # as the JSON of a result has what is not finite


class SinceError(ValueError):
    """The report of an earlier run cannot be read."""


class _Part(BaseModel):
    """What is read here of a part of a result; the rest may be anything."""

    model_config = ConfigDict(strict=True)


class _Origin(_Part):
    time: str = ""


class _Level(_Part):
    verdict: Verdict


class _First(_Part):
    step: int
    key: str
    difference: Number
    allowed: Number


class _Named(_Part):
    name: str
    title: str


class _Row(_Part):
    level: str
    run: str
    key: str
    verdict: Verdict
    worst_step: int
    worst_multiple: Number


class _Error(_Part):
    message: str


class _Earlier(_Part):
    provenance: _Origin
    verdict: Verdict
    qualifiers: list[str]
    levels: dict[str, _Level]
    reference: dict[str, Any]
    candidate: dict[str, Any]
    first_difference: _First | None
    causes: list[_Named]
    checks: list[_Row]
    error: _Error | None


def read_earlier(path: Path) -> dict[str, Any]:
    """Returns what `--json` wrote of an earlier run, checked as far as it is read here.

    Raises:
      SinceError: it cannot be read, or is no such file.
    """
    wanted = f"--since: expected what --json wrote of an earlier run at {path}"
    try:
        found = read_json(str(path))
    except OSError as error:
        raise SinceError(f"{wanted}, got: {error.strerror}. Leave the option out of the first run.") from None
    except ValueError:  # a TraceError too, of what is no regular file or too large
        raise SinceError(f"{wanted}, got another file. Write it anew.") from None
    fault = _fault_of(found)
    if fault:
        raise SinceError(f"{wanted}, got {fault}. Write it anew.")
    return dict(found)


def changes_since(path: Path, earlier: Mapping[str, Any], result: Result) -> Since:
    """Returns what is not as it was.

    Args:
      path: where the earlier report was read.
      earlier: as `read_earlier` returns it.
      result: of this run, with its provenance.
    """
    now = as_json(result)
    tensors, facts = list(_tensors(earlier, now)), list(_facts(earlier, now))
    changes = [
        *_error(earlier),
        *_whole(earlier, now),
        *_levels(earlier, now),
        *_first(earlier, now),
        *_causes(earlier, now),
        *tensors[:MOST_CHANGES],
        *facts[:MOST_CHANGES],
        *_origin(earlier, now),
    ]
    left_out = sum(max(0, len(each) - MOST_CHANGES) for each in (tensors, facts))
    return Since(str(path), earlier["provenance"].get("time", ""), [_cut(change) for change in changes], left_out)


def heading_of(since: Since) -> str:
    """Returns the heading of the changes, or that there are none."""
    of = f"{since.file} ({since.time})" if since.time else since.file
    return f"Changed since {of}" if since.changes else f"Nothing has changed since {of}"


def left_out_of(since: Since) -> str:
    """Returns how many tensors and facts changed that are not listed; "" where none."""
    return f"{since.left_out:,} more tensors and facts changed" if since.left_out else ""


def what_of(change: ChangeSince) -> str:
    """Returns what it is that changed, e.g. "level 1 function"."""
    return " ".join([change.topic, change.name]).strip()


def show_since(since: Since) -> RenderableType:
    """Shows the changes in a terminal."""
    heading = Text(heading_of(since), "bold" if since.changes else "dim")
    if not since.changes:
        return heading
    table = PlainTable("what", "then", "now")
    for change in since.changes:
        table.add_row(Text(what_of(change)), Text(change.before or NO_VALUE), Text(change.after or NO_VALUE))
    more = left_out_of(since)
    return Group(heading, table, *([Text(more, "dim")] if more else []))


def _changed(topic: str, name: str, before: str, after: str) -> Iterator[ChangeSince]:
    if before != after:
        yield ChangeSince(topic, name, before, after)


def _cut(change: ChangeSince) -> ChangeSince:
    before, after = (
        text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…" for text in (change.before, change.after)
    )
    return change._replace(before=before, after=after)


def _error(then: Mapping[str, Any]) -> Iterator[ChangeSince]:
    # This run has a result: nothing ended it.
    if then["error"] is not None:
        yield ChangeSince("error", "", then["error"]["message"], "")


def _whole(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    def words(result: Mapping[str, Any]) -> str:
        qualified = result["verdict"] == "same" and result["qualifiers"]
        return f"same ({'; '.join(result['qualifiers'])})" if qualified else str(result["verdict"])

    yield from _changed("verdict", "", words(then), words(now))


def _levels(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    for name in LEVEL_NUMBERS:
        words = [
            result["levels"].get(name, {"verdict": "not_run"})["verdict"].replace("_", " ") for result in (then, now)
        ]
        yield from _changed("level", f"{LEVEL_NUMBERS[name]} {name}", *words)


def _first(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    before, after = then["first_difference"], now["first_difference"]
    ratios = [_ratio(each) for each in (before, after)]
    if before and after and _place(before) == _place(after) and not _much(*ratios):
        return
    texts = [
        _place(each) + f", {ratio:.3g} of tolerance" if each else ""
        for each, ratio in zip((before, after), ratios, strict=True)
    ]
    yield from _changed("first difference", "", *texts)


def _place(first: Mapping[str, Any]) -> str:
    return f"step {first['step']}, {first['key']}"


def _ratio(first: Mapping[str, Any] | None) -> float:
    if not first:
        return 0.0
    difference, allowed = float(first["difference"]), float(first["allowed"])
    return difference / allowed if allowed > 0 else math.inf if difference else 0.0


def _much(before: float, after: float) -> bool:
    if math.isnan(before) or math.isnan(after):
        return math.isnan(before) != math.isnan(after)
    low, high = sorted((before, after))
    return high >= LEAST_RATIO and high != low and high >= MUCH * low


def _causes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    titles = [{each["name"]: each["title"] for each in result["causes"]} for result in (then, now)]
    for name in [*titles[0], *(name for name in titles[1] if name not in titles[0])]:
        yield from _changed("cause", name, titles[0].get(name, ""), titles[1].get(name, ""))


def _tensors(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    """Yields the tensors whose verdict changed, or whose ratio to the tolerance changed much: the largest ratios first."""
    rows = [{(each["level"], each["run"], each["key"]): each for each in result["checks"]} for result in (then, now)]
    found: list[tuple[bool, float, int, ChangeSince]] = []
    # Of a level that only one of the runs judged the level says so, once.
    levels = [{level for level, _, _ in each} for each in rows]
    for place in [*rows[0], *(place for place in rows[1] if place not in rows[0])]:
        one, other = rows[0].get(place), rows[1].get(place)
        if any(place[0] not in each for each in levels):
            continue
        ratios = [float(each["worst_multiple"]) if each else 0.0 for each in (one, other)]
        verdicts = [each["verdict"] if each else "" for each in (one, other)]
        if verdicts[0] != verdicts[1] or _much(*ratios):
            level, run, key = place
            change = ChangeSince("tensor", f"{key} ({level}, {run})", _of_tensor(one), _of_tensor(other))
            worst = max(math.inf if math.isnan(each) else each for each in ratios)
            found.append((verdicts[0] == verdicts[1], -worst, len(found), change))
    yield from (change for _, _, _, change in sorted(found))


def _of_tensor(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    ratio = float(row["worst_multiple"])
    return f"{row['verdict'].replace('_', ' ')}, {ratio:.2g} of tolerance at step {row['worst_step']}"


def _facts(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    for side in ("reference", "candidate"):
        before, after = flat(then[side]), flat(now[side])
        for name in sorted({*before, *after}):
            yield from _changed("fact", f"{name} of the {side}", *(_fact(each, name) for each in (before, after)))


def _fact(facts: Mapping[str, Any], name: str) -> str:
    return plain(facts[name]) if name in facts else ""


def _origin(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ChangeSince]:
    before, after = then["provenance"], now["provenance"]
    if before and after:
        for name in ORIGIN:
            yield from _changed("provenance", name, *(plain(each.get(name)) for each in (before, after)))


def _fault_of(found: Any) -> str:
    """Returns what a file holds instead of a result; "" of a result."""
    if not isinstance(found, dict):
        return "no object"
    form = found.get("format")
    if not isinstance(form, dict) or form.get("name") != RESULT_FORMAT:
        return f"another format than {RESULT_FORMAT!r}"
    if form.get("version") != RESULT_FORMAT_VERSION:
        return f"format version {str(form.get('version'))[:20]!r}, of which only {RESULT_FORMAT_VERSION} is known"
    try:
        _Earlier.model_validate(found)
    except ValidationError as error:
        return f"one whose {error.errors()[0]['loc'][0]!r} is none of a result"
    return ""
