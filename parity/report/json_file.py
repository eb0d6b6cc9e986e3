"""Writes a result for machines: JSON with frozen keys, and the full table of checks as columns beside it."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from parity.experiment.power import Power
from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.report.atomic import appearing, is_stream
from parity.report.power import power_as_json
from parity.report.view import account

# As `result.schema.json` beside this file describes it. The version counts changes that are more than new keys.
RESULT_FORMAT, RESULT_FORMAT_VERSION = "tower-parity-result", 1
KINDS: dict[str, Any] = {"step": np.int64, "constant": np.bool_}


def write_json(
    result: Result,
    path: Path,
    error: dict[str, Any] | None = None,
    power: Power | None = None,
    port: dict[str, Any] | None = None,
) -> None:
    """Writes the result to `path`, and every check to ``<path without suffix>.checks.npz`` beside it.

    Beside standard output or a device there is no table. Both appear whole or not at all, the table first. Numbers that are
    not finite become strings, since JSON has none.

    Args:
      result: what was found.
      path: the JSON file to make.
      error: why nothing could be compared: `message`, `side`, `traceback`; None where something was.
      power: what planted bugs showed; None where none were planted.
      port: what was written before it was proven, as JSON values; None where nothing was.
    """
    prove = power_as_json(power) if power is not None else None
    # Made in full before any file is opened: what cannot be said in JSON leaves no file behind.
    written = {} if port is None else {"port": port}
    keys = {**as_json(result), "error": error, "prove": prove, **written}
    whole = json.dumps(keys, indent=2, allow_nan=False) + "\n"
    # The table first: who waits for the JSON finds both.
    if not is_stream(path):
        with appearing(path.with_suffix(".checks.npz")) as file:
            # Text and numbers alone: a table with pickled objects would run code in whoever opens it.
            np.savez_compressed(file, allow_pickle=False, **columns(result))
    with appearing(path) as file:
        file.write(whole.encode("utf-8"))


def as_json(result: Result) -> dict[str, Any]:
    """Returns the result as JSON values; keys are only ever added."""
    since = result.since and {
        "file": result.since.file,
        "time": result.since.time,
        "changes": [change._asdict() for change in result.since.changes],
        "left_out": result.since.left_out,
    }
    return {
        "format": {"name": RESULT_FORMAT, "version": RESULT_FORMAT_VERSION},
        "provenance": result.provenance,
        "verdict": result.verdict,
        "qualifiers": result.qualifiers,
        "not_judged": result.not_judged,
        "levels": {name: _level(level) for name, level in result.levels.items()},
        "reference": _finite(result.reference),
        "candidate": _finite(result.candidate),
        "first_difference": _first(result.first_difference),
        "causes": [_cause(cause) for cause in result.causes],
        # One row for each tensor, with its worst step: all checks of a long run are megabytes, and stand in the .npz
        # beside.
        "checks": [summary for name, level in result.levels.items() for summary in _summaries(name, level.checks)],
        "mapping": [
            dict(zip(("reference", "candidate", "transform", "why"), pair, strict=True)) for pair in result.pairs
        ],
        "notes": result.notes,
        "accounting": account(check for level in result.levels.values() for check in level.checks),
        "repeats": [{**_finite(repeat._asdict()), "comparable": repeat.comparable} for repeat in result.repeats],
        "declared": [declared._asdict() for declared in result.declared],
        **({"since": since} if since else {}),
    }


def columns(result: Result) -> dict[str, np.ndarray[Any, Any]]:
    """Returns every check of every level as columns of one table."""
    rows = [(name, check) for name, level in result.levels.items() for check in level.checks]
    names = ("run", "step", "key", "verdict", "difference", "allowed", "scale", "size", "note", "constant")
    table = {"level": np.array([name for name, _ in rows], dtype=np.str_)}
    for name in names:
        values = [getattr(check, name) for _, check in rows]
        # difference, allowed, scale and size are numbers; all but step and constant else are text.
        kind = KINDS.get(name, np.float64 if name in names[4:8] else np.str_)
        table[name] = np.array(values, dtype=kind)
    return table


def _level(level: Level) -> dict[str, Any]:
    return {
        "verdict": level.verdict,
        "reason": level.reason,
        "first_difference": _first(level.first_difference),
        "causes": [_cause(cause) for cause in level.causes],
        "notes": level.notes,
        **account(level.checks),
    }


def _first(first: FirstDifference | None) -> dict[str, Any] | None:
    if first is None:
        return None
    found: dict[str, Any] = {
        "step": first.check.step,
        "run": first.check.run,
        "key": first.check.key,
        "quantity": first.quantity,
        "name": first.name,
        "tower": first.tower,
        "index": None,
        "reference": None,
        "candidate": None,
        "max_abs": None,
        "max_rel": None,
        "ulp": None,
        "difference": first.check.difference,
        "allowed": first.check.allowed,
        "note": first.check.note,
        "where": first.where,
        "module": first.module,
        "next_module": first.next_module,
        "lines": {
            side: line._asdict() if line else None
            for side, line in zip(("reference", "candidate"), first.lines, strict=True)
        },
    }
    if first.worst:
        found.update(first.worst._asdict(), index=list(first.worst.index))
    return {name: _finite(value) for name, value in found.items()}


def _cause(cause: Cause) -> dict[str, Any]:
    told = {"name": cause.name, "title": cause.title, "evidence": cause.evidence, "fix": cause.fix}
    return {**told, "explains": cause.explains._asdict() if cause.explains else None}


def _summaries(level: str, checks: Iterable[Check]) -> list[dict[str, Any]]:
    grouped: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        grouped.setdefault((check.run, check.key), []).append(check)
    summaries = []
    for (run, key), group in grouped.items():
        highest = max(group, key=lambda check: check.multiple)
        verdicts = {check.verdict for check in group}
        # The worst of the steps decides what is said of a tensor.
        verdict = next(v for v in ("different", "incomparable", "same", "not_run") if v in verdicts)
        summaries.append(
            {
                "level": level,
                "run": run,
                "key": key,
                "verdict": verdict,
                "steps": len(group),
                "worst_step": highest.step,
                "worst_multiple": _finite(highest.multiple),
                "worst_of_scale": _finite(max(check.of_scale for check in group)),
                "note": highest.note,
            }
        )
    return summaries


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        # "nan", "inf" and "-inf": JSON has no numbers for them, and Python's own spelling is refused by other parsers.
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
