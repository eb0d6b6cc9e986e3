"""Checks what a case's [mapping] table says."""

import difflib
from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import NamedTuple

from parity.mapping.entry import MappingEntry
from parity.mapping.fits import fits
from parity.mapping.transforms import parse_transform
from parity.mapping.variable_map import Pair, line
from parity.mapping.variables import MappingError, Variable

Block = tuple[str, tuple[int, int] | None]  # one of the candidate's, and which block of its rows


class ByHand(NamedTuple):
    """What the entries decide.

    Fields:
      pairs: the reference's name to its pair.
      problems: one text for each thing that is wrong with an entry.
    """

    pairs: dict[str, Pair]
    problems: list[str]


def pairs_by_hand(
    reference: Sequence[Variable], candidate: Sequence[Variable], entries: Map[str, MappingEntry]
) -> ByHand:
    """Makes a pair of each entry, and notes every entry that cannot be right."""
    of_reference = {variable.name: variable for variable in reference}
    of_candidate = {variable.name: variable for variable in candidate}
    pairs: dict[str, Pair] = {}
    problems: list[str] = []
    used: dict[Block, str] = {}
    for name, entry in entries.items():
        # Written the wrong way round: one line that says so, and not one for every name.
        if (
            entry.to
            and name in of_candidate
            and name not in of_reference
            and all(part in of_reference for part in entry.to)
        ):
            turned = ", ".join(entry.to)
            problems.append(f"{name}: expected the reference's name before the candidate's, got {turned} behind it")
            continue
        for known, side, wanted in ((of_reference, "reference", (name,)), (of_candidate, "candidate", entry.to)):
            problems += [unknown(part, side, known) for part in wanted if part not in known]
        if name not in of_reference or any(part not in of_candidate for part in entry.to):
            continue
        try:
            pair = _pair(of_reference[name], [of_candidate[part] for part in entry.to], entry.transform)
        except MappingError as error:
            problems.append(str(error))
            continue
        pairs[name] = pair
        blocks = [(part, pair.transform.rows) for part in entry.to]
        problems += [
            f"{part}: expected to be used once, got it for {user} and {name}"
            for part, block in blocks
            for other, user in used.items()
            # None is the whole array, which no block may share; two blocks may, if they are two.
            if other[0] == part and (None in (block, other[1]) or block == other[1])
        ]
        used.update((block, name) for block in blocks)
    return ByHand(pairs, problems + _missing_blocks(list(used)))


def _missing_blocks(used: list[Block]) -> list[str]:
    counts: dict[str, list[tuple[int, int]]] = {}
    for part, rows in used:
        if rows is not None:
            counts.setdefault(part, []).append(rows)
    problems = []
    for part, found in counts.items():
        count = found[0][1]
        # A block twice has been reported already, as used twice.
        if sorted(found) != [(index, count) for index in range(count)] and len(set(found)) == len(found):
            given = ", ".join(f"rows({index}, {of})" for index, of in sorted(found))
            problems.append(f"{part}: expected every block of its rows, got {given}")
    return problems


def unknown(name: str, side: str, known: Map[str, Variable]) -> str:
    """Returns the problem of a name that a side does not have, with the nearest that it has."""
    near = difflib.get_close_matches(name, known)
    return f"{name}: expected a variable of the {side}, got none of this name" + (
        f"; did you mean {near[0]!r}?" if near else ""
    )


def _pair(reference: Variable, candidates: list[Variable], written: str | None) -> Pair:
    for part in candidates:
        if part.kind != reference.kind:
            raise MappingError(f"{reference}: expected another {reference.kind}, got {part}")
    if not candidates:
        return Pair(reference.name, (), parse_transform("identity"), "by hand", reference.shape)
    text = _chosen(reference, candidates) if written is None else written
    transform = parse_transform(text)
    names = tuple(part.name for part in candidates)
    if transform.parts != len(names):
        raise MappingError(f"{reference.name}: {text} makes {transform.parts} arrays, got {len(names)} names in 'to'")
    try:
        shapes = transform.shapes(reference.shape)
    except MappingError as error:
        raise MappingError(f"{reference.name}: {error}") from None
    for part, shape in zip(candidates, shapes, strict=True):
        if shape != part.shape:
            raise MappingError(f"{reference}: {text} makes {list(shape)} of it, got {part}")
    return Pair(reference.name, names, transform, "by hand", reference.shape)


def _chosen(reference: Variable, candidates: list[Variable]) -> str:
    if len(candidates) > 1:
        raise MappingError(f"{reference.name}: expected a transform with several names, such as lstm_gates or sum")
    (candidate,) = candidates
    found = fits(reference, candidate)
    if len(found) == 1:
        return found[0]
    if not found:
        raise MappingError(f"{reference}: expected a transform, for no layout is known that makes {candidate} of it")
    lines = "\n".join(f"    {line(reference.name, [candidate.name], text)}" for text in found)
    raise MappingError(f"{reference}: several transforms fit {candidate}; write one of\n{lines}")
