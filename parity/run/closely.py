"""Adds to a result what only the traces know: how the values of tensors that differ are spread, and the losses."""

from parity.judge.result import Result
from parity.judge.tensor_details import MOST_ELEMENTS, Pairs, look_closer, losses_of
from parity.mapping.trace_map import Join
from parity.run.recorded import Recorded


def look_at_levels(result: Result, recorded: Recorded) -> None:
    """Looks closer at each level of a case that was decided, while its traces are there."""
    traces = recorded.lockstep
    exact = (traces.reference64, traces.candidate64)
    pairs: dict[str, Pairs] = {
        "function": {
            "init": exact,
            "lockstep": exact,
            "free": (recorded.reference_free, recorded.candidate_free),
        },
        "float32": {"lockstep": (traces.reference32, traces.candidate32)},
    }
    for name, each in pairs.items():
        look_at_level(result, name, recorded.join, each)


def look_at_level(result: Result, name: str, join: Join, pairs: Pairs) -> None:
    """Looks closer at one level, within what may be read for all of them together."""
    level = result.levels[name]
    if not level.checks:
        return
    left = MOST_ELEMENTS - sum(each.size for each in result.closer)
    result.closer += look_closer(join, level, pairs, left)
    losses = losses_of(level, pairs)
    result.losses += [losses] if losses else []
