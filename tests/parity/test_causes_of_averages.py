"""Averages of the weights that go wrong are called by their names."""

import numpy as np

from parity.causes import Evidence, find_causes
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


def trace(folder, tensors):
    writer = TraceWriter(folder, {}, {"precision": "float64"})
    writer.init({})
    writer.step(0, tensors)
    writer.close()
    return Trace(folder)


def causes_of(tmp_path, averages, after=AFTER):
    weights = {f"var/{name}": value for name, value in after.items()}
    reference = trace(tmp_path / "reference", {**weights, **moved(after)})
    candidate = trace(tmp_path / "candidate", {**weights, **averages})
    before = {f"var/{name}": value for name, value in BEFORE.items()}
    states = trace(tmp_path / "states", {**before, **{f"ema/{name}": value for name, value in START.items()}})
    pairs = [Pair(name, (name,), parse_transform("identity"), "by hand", (3, 2)) for name in BEFORE]
    evidence = Evidence(Join(Mapping(pairs), {}, []), reference, candidate, states, 2)
    first = FirstDifference(Check("lockstep", 0, "ema/v", "different", 1.0, 1e-15), "ema", "v", "", None)
    return [(cause.name, cause.title) for cause in find_causes(first, evidence)]


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
