"""Which tensors of a level are looked at closely, and what is kept of them and of its losses."""

import numpy as np
import pytest
from made_pairs import trace

from parity.judge.result import Check, Level
from parity.judge.tensor_details import Histogram, Place, histogram, look_closer, losses_of
from parity.mapping import Mapping, Pair, parse_transform
from parity.mapping.trace_map import Join

TURNED = Join(Mapping([Pair("w", ("fc.weight",), parse_transform("transpose"), "", (2, 3))]), {}, ["m"])
PLAIN = Join(Mapping([]), {}, [])


def losses(folder, *values, towers=1):
    """A trace of steps with one loss a tower, some `metric/<number>` beside it."""
    return trace(folder, *({f"loss/{tower}": np.array(value + tower) for tower in range(towers)} for value in values))


def test_the_elements_that_differ_most_are_kept_worst_first_in_the_references_layout(tmp_path):
    one = np.arange(6, dtype=np.float32).reshape(2, 3)
    other = one + np.array([[0, -4, 1], [2, np.nan, 0]], np.float32)
    reference = trace(tmp_path / "r", {"grad/w": one})
    candidate = trace(tmp_path / "c", {"grad/fc.weight": other.T})
    level = Level("float32", "different", "", [Check("lockstep", 0, "grad/w", "different", 5.0, 1.0)])
    [found] = look_closer(TURNED, level, {"lockstep": (reference, candidate)})
    assert (found.level, found.run, found.step, found.key) == ("float32", "lockstep", 0, "grad/w")
    assert (found.size, found.finite) == (6, 5)
    assert [place.index for place in found.worst] == [(1, 1), (0, 1), (1, 0), (0, 2)]
    assert found.worst[1] == Place((0, 1), 1.0, -3.0)
    ranges = [(each.low, each.high) for each in (found.reference, found.candidate, found.apart)]
    assert ranges == [(-3.0, 5.0), (-3.0, 5.0), (-4.0, 2.0)]
    assert (found.apart.counts[0], found.apart.counts[-1], sum(found.apart.counts)) == (1, 1, 5)


def test_of_many_elements_the_five_worst_are_kept_and_differences_are_those_of_float64(tmp_path):
    one = np.zeros(9, np.float32)
    other = np.array([0, 1, 2, 3, 4, 5, 6, 7, 2.0**-40], np.float32)
    sides = trace(tmp_path / "r", {"loss/0": one + 2}), trace(tmp_path / "c", {"loss/0": other + 2})
    level = Level("function", "different", "", [Check("free", 0, "loss/0", "different", 5.0, 1.0)])
    [found] = look_closer(PLAIN, level, {"free": sides})
    assert [place.index for place in found.worst] == [(7,), (6,), (5,), (4,), (3,)]
    scalars = trace(tmp_path / "a", {"loss/0": np.uint8(1)}), trace(tmp_path / "b", {"loss/0": np.uint8(3)})
    [found] = look_closer(PLAIN, level, {"free": scalars})
    assert found.worst == [Place((), 1.0, 3.0)] and (found.apart.low, found.apart.high) == (0.0, 2.0)


def checks_of(count, step=0, allowed=1.0, verdict="different"):
    return [Check("free", step, f"metric/{n}", verdict, float(n), allowed) for n in range(count)]


@pytest.mark.parametrize(
    ("checks", "chosen"),
    [
        (checks_of(70), [*range(60), *range(69, 64, -1)]),  # the first 60, and the five furthest beyond
        (checks_of(8, verdict="same"), [7, 6, 5, 4, 3]),  # the five nearest to what they are allowed
        (checks_of(8, verdict="not_run"), []),
        ([*checks_of(2, verdict="same"), *checks_of(2, step=1)], [0, 1]),
        ([each._replace(run="lockstep") for each in checks_of(2)], []),
    ],
)
def test_the_first_that_differ_are_looked_at_and_those_nearest_to_their_limits(tmp_path, checks, chosen):
    tensors = {f"metric/{n}": np.array([1.0, n]) for n in range(70)}
    sides = [trace(tmp_path / name, tensors, {name: value + 1 for name, value in tensors.items()}) for name in "rc"]
    found = look_closer(PLAIN, Level("function", "different", "", checks), {"free": sides})
    assert [int(each.key.partition("/")[2]) for each in found] == chosen
    assert {each.step for each in found} <= ({1} if len(chosen) == 2 else {0})


@pytest.mark.parametrize(("elements", "count"), [(4, 1), (5, 1), (6, 2), (7, 2), (3, 1), (2, 0)])
def test_no_more_elements_are_read_than_asked_for(tmp_path, elements, count):
    sides = [trace(tmp_path / name, {"metric/0": np.ones(3), "metric/1": np.ones((3, 1))}) for name in "rc"]
    level = Level("function", "different", "", checks_of(2))
    assert len(look_closer(PLAIN, level, {"free": sides}, elements)) == count


@pytest.mark.parametrize(
    ("reference", "candidate", "check"),
    [
        ({}, {"metric/0": np.ones(2)}, {}),
        ({"metric/0": np.ones(2)}, {}, {}),
        ({"metric/0": np.ones(2)}, {"metric/0": np.ones(3)}, {}),
        ({"metric/0": np.ones(0)}, {"metric/0": np.ones(0)}, {}),
        ({"metric/0": np.ones(2)}, {"metric/0": np.ones(2)}, {"step": 5}),
    ],
)
def test_what_there_are_no_two_values_of_is_passed_over(tmp_path, reference, candidate, check):
    last = Check("free", 0, "metric/9", "different")
    both = {"metric/9": np.ones(2)}
    sides = trace(tmp_path / "r", {**reference, **both}), trace(tmp_path / "c", {**candidate, **both})
    checks = [Check("free", 0, "metric/0", "different")._replace(**check), last]
    found = look_closer(PLAIN, Level("function", "different", "", checks), {"free": sides})
    assert [each.key for each in found] == ["metric/9"]


def test_a_step_that_one_side_lacks_is_passed_over_and_a_state_is_looked_at_as_it_was_loaded(tmp_path):
    longer = trace(tmp_path / "r", *[{"metric/0": np.ones(2)}] * 2, init={"metric/1": np.ones(2)})
    shorter = trace(tmp_path / "c", {"metric/0": np.ones(2)}, init={"metric/1": np.ones(2)})
    checks = [Check("init", 0, "metric/1", "different"), Check("free", 1, "metric/0", "different")]
    level = Level("function", "different", "", checks)
    for sides in ((longer, shorter), (shorter, longer)):
        assert [each.key for each in look_closer(PLAIN, level, {"init": sides, "free": sides})] == ["metric/1"]


@pytest.mark.parametrize(("high", "place"), [(2.0, 12), (1.0, 12)])
def test_values_of_no_range_are_all_in_the_middle(high, place):
    counts = [0] * 24
    counts[place] = 3
    assert histogram(np.full(3, 2.0), 2.0, high) == Histogram(2.0, high, counts)


def test_no_range_of_finite_numbers_is_too_large():
    found = histogram(np.array([-1.5e308, 0.0, 1.5e308]), -1.5e308, 1.5e308)
    assert (found.counts[0], found.counts[12], found.counts[-1]) == (1, 1, 1)


def test_losses_are_means_over_towers_at_the_steps_that_were_judged(tmp_path):
    reference = losses(tmp_path / "r", 1.0, 2.0, 3.0, towers=2)
    candidate = losses(tmp_path / "c", 1.5, 2.5, towers=2)
    checks = [
        Check("free", step, f"loss/{tower}", "same", allowed=tower + 1.0) for step in (0, 1, 2) for tower in (0, 1)
    ]
    other = [Check("free", 1, "metric/acc", "same", allowed=9.0), Check("free", 1, "loss/0/aux", "same", allowed=9.0)]
    left = [Check("lockstep", 0, "loss/0", "same", allowed=9.0), Check("free", 0, "loss/0", "not_run", allowed=9.0)]
    level = Level("function", "same", "", [*checks, *other, *left])
    found = losses_of(level, {"free": (reference, candidate), "lockstep": (reference, reference)})
    assert (found.level, found.run, found.steps, found.section) == ("function", "free", [0, 1, 2], "")
    assert (found.reference, found.allowed) == ([1.5, 2.5, 3.5], [1.5, 1.5, 1.5])
    assert found.candidate[:2] == [2.0, 3.0] and np.isnan(found.candidate[2])
    assert losses_of(level, {"lockstep": (reference, candidate)}).run == "lockstep"
    assert losses_of(level, {"init": (reference, candidate)}) is None
    assert losses_of(Level("function", "same", "", other), {"free": (reference, candidate)}) is None


def test_a_step_without_a_loss_has_none_and_one_of_many_elements_has_their_mean(tmp_path):
    reference = trace(
        tmp_path / "r", {"loss/0": np.array([1, 2], np.uint8), "loss/0/aux": np.array(9.0)}, {"metric/a": np.ones(1)}
    )
    level = Level("function", "same", "", [Check("free", step, "loss/0", "different", allowed=1.0) for step in (0, 1)])
    found = losses_of(level, {"free": (reference, reference)})
    assert found.reference[0] == 1.5 and np.isnan(found.reference[1])
