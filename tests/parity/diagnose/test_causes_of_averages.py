"""Averages of the weights that go wrong are called by their names."""

from itertools import pairwise

import numpy as np

from parity.diagnose import Evidence, find_causes
from parity.judge import Check, FirstDifference, Join
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter

DECAY = 0.9
RANDOM = np.random.default_rng(0)
BEFORE = {name: RANDOM.standard_normal((3, 2)) for name in ("v", "w")}
AFTER = {name: value + 0.1 * RANDOM.standard_normal((3, 2)) for name, value in BEFORE.items()}
START = {name: RANDOM.standard_normal((3, 2)) for name in BEFORE}


def moved(weight, decay=DECAY):
    return {f"ema/{name}": START[name] - (START[name] - weight[name]) * (1 - decay) for name in START}


def trace(folder, *steps):
    writer = TraceWriter(folder, {}, {"precision": "float64"})
    writer.init({})
    for number, tensors in enumerate(steps):
        writer.step(number, tensors)
    writer.close()
    return Trace(folder)


def causes_of(tmp_path, averages, after=AFTER):
    before = {f"var/{name}": value for name, value in BEFORE.items()}
    states = {**before, **{f"ema/{name}": value for name, value in START.items()}}
    weights = {f"var/{name}": value for name, value in after.items()}
    return causes_in(tmp_path, [({**weights, **moved(after)}, {**weights, **averages}, states)])


def causes_in(tmp_path, steps):
    """Causes of a first difference in step 0, of steps of reference, candidate, and state before."""
    reference, candidate, states = (
        trace(tmp_path / name, *side)
        for name, side in zip(("reference", "candidate", "states"), zip(*steps, strict=True), strict=True)
    )
    pairs = [Pair(name, (name,), parse_transform("identity"), "by hand", (3, 2)) for name in BEFORE]
    evidence = Evidence(Join(Mapping(pairs), {}, []), reference, candidate, states, 2)
    first = FirstDifference(Check("lockstep", 0, "ema/v", "different", 1.0, 1e-15), "ema", "v", "", None)
    return [(cause.name, cause.title) for cause in find_causes(first, evidence)]


def beginning_as_the_weights(too_early):
    """Two steps of averages that begin as the weights, as `ExponentialMovingAverage` has them, each from its own state."""
    steps, average = [], BEFORE
    weights = [BEFORE, AFTER, {name: value + 0.1 * RANDOM.standard_normal((3, 2)) for name, value in AFTER.items()}]
    for old, new in pairwise(weights):
        state = {**{f"var/{n}": v for n, v in old.items()}, **{f"ema/{n}": v for n, v in average.items()}}
        after = {f"var/{name}": value for name, value in new.items()}
        one, other = (
            {f"ema/{name}": average[name] + (1 - DECAY) * (to[name] - average[name]) for name in average}
            for to in (new, old if too_early else average)
        )
        steps.append(({**after, **one}, {**after, **other}, state))
        average = {name: one[f"ema/{name}"] for name in average}
    return steps


def test_averages_that_begin_as_the_weights_and_move_too_early_do_not_stand_still(tmp_path):
    assert [name for name, _ in causes_in(tmp_path / "early", beginning_as_the_weights(too_early=True))] == [
        "stale_average"
    ]
    assert causes_in(tmp_path / "never", beginning_as_the_weights(too_early=False)) == [
        ("average_decay", "the averages of the weights stay as they were")
    ]


def test_averages_that_move_too_early_are_called_stale(tmp_path):
    assert causes_of(tmp_path, moved(BEFORE)) == [
        ("stale_average", "the averages move towards the weights of the step before")
    ]


def test_a_faint_difference_where_the_weights_hardly_move_is_no_stale_average(tmp_path):
    after = {name: value * (1 + 1e-8 * RANDOM.standard_normal((3, 2))) for name, value in BEFORE.items()}
    faint = {name: value * (1 + 1e-9 * RANDOM.standard_normal((3, 2))) for name, value in moved(after).items()}
    assert causes_of(tmp_path, faint, after) == []
    assert [name for name, _ in causes_of(tmp_path, moved(BEFORE), after)] == ["stale_average"]


def test_averages_that_decay_otherwise_or_never_move_are_not_called_stale(tmp_path):
    assert [name for name, _ in causes_of(tmp_path, moved(AFTER, 0.99))] == ["average_decay"]
    still = {f"ema/{name}": value for name, value in START.items()}
    assert [name for name, _ in causes_of(tmp_path, still)] == ["average_decay"]


def test_an_average_that_is_wrong_in_no_known_way_is_not_named(tmp_path):
    assert (
        causes_of(
            tmp_path, {name: value + 1e-3 * RANDOM.standard_normal((3, 2)) for name, value in moved(AFTER).items()}
        )
        == []
    )
