"""Joins what was decided of every optimizer of a recorded script into one level."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from parity.experiment.replay.levels import Judged
from parity.judge.result import Check, Level
from parity.judge.tensor_details import MOST_ELEMENTS, Closer, Losses, look_closer, losses_of
from parity.mapping.trace_map import Join
from parity.trace import section_prefix


class Looked(NamedTuple):
    """What only the traces know: tensors looked at closely, and the losses."""

    closer: list[Closer]
    losses: list[Losses]


def look_at_part(looked: Looked, join: Join, judged: Judged, name: str) -> Looked:
    """Looks closer at one part of a trace, within what may be read for all of them together; returns all that is known.

    Args:
      looked: what is known of others.
      join: names and layouts.
      judged: the part, with its own names.
      name: of its section, "" where there is one only.
    """
    closer, losses = list(looked.closer), list(looked.losses)
    for level in judged.levels:
        if level.name not in judged.pairs:
            continue
        left = MOST_ELEMENTS - sum(each.size for each in closer)
        found = look_closer(join, level, judged.pairs[level.name], left)
        closer += [each._replace(key=_in(each.key, name)) for each in found]
        course = losses_of(level, judged.pairs[level.name])
        losses += [course._replace(section=name)] if course else []
    return Looked(closer, losses)


def in_section(level: Level, name: str) -> Level:
    """Returns a level with the names of one section of a trace."""
    if not name:
        return level
    first = level.first_difference
    if first is not None:
        first = replace(first, check=_named(first.check, name))
    notes = [f"{name}: {note}" for note in level.notes]
    return replace(level, checks=[_named(check, name) for check in level.checks], first_difference=first, notes=notes)


def _named(check: Check, name: str) -> Check:
    return check._replace(key=_in(check.key, name))


def _in(key: str, name: str) -> str:
    return section_prefix(name) + key


def together(levels: Sequence[Level], names: Sequence[str]) -> Level:
    """Joins the same level of several sections into one."""
    if len(levels) == 1:
        return levels[0]
    found = {level.verdict for level in levels}
    first = next((level for level in levels if level.first_difference), levels[0])
    verdict = next(each for each in ("different", "incomparable", "same", "not_run") if each in found)
    return Level(
        levels[0].name,
        verdict,
        "; ".join(f"{name}: {level.reason}" for name, level in zip(names, levels, strict=True)),
        [check for level in levels for check in level.checks],
        first.first_difference,
        first.causes,
        [note for level in levels for note in level.notes],
    )
