"""Two sides of a few numbers each, and where a limit lies between them."""

import numpy as np

from parity.judge.levels.function import Lockstep
from parity.mapping import Mapping, Pair, parse_transform
from parity.mapping.trace_map import Join
from parity.trace import Trace, TraceWriter


def trace(folder, *steps, init=None, **facts):
    """Returns a trace of steps, dicts of name to array, counted from 0."""
    writer = TraceWriter(folder, {"package": "test"}, facts)
    writer.init(init or {})
    for number, tensors in enumerate(steps):
        writer.step(number, tensors)
    writer.close()
    return Trace(folder)


def join_of(*names, slots=("m",)):
    """Returns the join of variables of two elements that both sides call and keep the same."""
    return Join(Mapping([Pair(name, (name,), parse_transform("identity"), "", (2,)) for name in names]), {}, slots)


JOIN = join_of("w", "b")


def lockstep(folder, one64, other64, one32=None, other32=None, before=None, reference_facts=None, candidate_facts=None):
    """Returns the traces of one step; float32 ones are the float64 ones, rounded, where they are not given."""
    narrow = [
        {
            name: np.asarray(value, np.float32) if np.asarray(value).dtype == np.float64 else value
            for name, value in each
        }
        for each in (one64.items(), other64.items())
    ]
    return Lockstep(
        trace(folder / "reference32", narrow[0] if one32 is None else one32),
        trace(folder / "reference64", one64, **(reference_facts or {})),
        trace(folder / "candidate32", narrow[1] if other32 is None else other32, **(candidate_facts or {})),
        trace(folder / "candidate64", other64, **(candidate_facts or {})),
        trace(folder / "states", before or {}),
    )


def assert_limit(judge, allowed):
    """Asserts that what is off by a hundredth less than is allowed is the same, and by a hundredth more different.

    `judge` returns the check of a difference of so much.
    """
    inside, outside = judge(0.99 * allowed), judge(1.01 * allowed)
    assert (inside.verdict, outside.verdict) == ("same", "different"), (inside, outside)
    assert 0.98 * allowed < inside.difference < allowed < outside.difference < 1.02 * allowed
