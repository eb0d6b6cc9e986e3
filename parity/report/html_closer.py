"""Packs what is known of tensors looked at closely for the page, by the cell of the heat map that opens it."""

import math
from typing import Any

from parity.judge.result import Check, Result
from parity.judge.tensor_details import Closer, Histogram
from parity.report.html_grid import Grid, place


def closer_of(result: Result, found: list[Grid]) -> list[dict[str, Any]]:
    """Returns a JSON value for each tensor that was looked at and is in the heat map, with its cell."""
    packed = []
    for each in result.closer:
        check = Check(each.run, each.step, each.key, "same")
        where = place(found, result.levels[each.level], check)
        if where:
            packed.append({"place": where, **_packed(each)})
    return packed


def _packed(each: Closer) -> dict[str, Any]:
    return {
        "size": each.size,
        "finite": each.finite,
        "values": {**_range(each.reference), "counts": [each.reference.counts, each.candidate.counts]},
        "apart": {**_range(each.apart), "counts": [each.apart.counts]},
        "worst": [[_index(spot.index), _shown(spot.reference), _shown(spot.candidate)] for spot in each.worst],
    }


def _range(histogram: Histogram) -> dict[str, str]:
    return {"low": _short(histogram.low), "high": _short(histogram.high)}


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _shown(number: float) -> str:
    return f"{number:.9g}" if math.isfinite(number) else str(number)


def _short(number: float) -> str:
    return f"{number:.4g}"
