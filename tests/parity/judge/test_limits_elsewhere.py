"""Limits of trajectories, of a port's own values, of guessed layouts, and of what jumps when weights are moved aside."""

import numpy as np
import pytest
from made_pairs import JOIN, assert_limit, trace

from parity.judge.levels.trajectory import (
    Spot,
    Trajectories,
    apart,
    false_alarms,
    judge_trajectory,
    spots_of,
    spread_of,
    stray_of_candidate,
    strays,
)
from parity.judge.output_layouts import layout_of
from parity.judge.port_values import Written, judge_own_values
from parity.judge.result import Check, Level
from parity.judge.tensor_details import losses_of
from parity.mapping import Mapping, Pair, parse_transform
from parity.mapping.trace_map import Join
from parity.trace import jumps


def doubles(*values):
    return np.array(values, np.float64)


def singles(*values):
    return np.array(values, np.float32)


def followed(candidate, envelope=0.0, wandering=0.0, held_out=(0.0,), rounding=0.0):
    runs = [np.array(each, float).reshape(-1, 1) for each in ([envelope], held_out, [candidate], [wandering])]
    return Trajectories([Spot(0, "var/w", 10.0, rounding, None)], *runs)


@pytest.mark.parametrize("spread", [{"envelope": 2.0}, {"wandering": 2.0}, {"rounding": 2.0}])
def test_a_run_may_stray_32_times_as_far_as_rounding_leads(spread):
    def judge(off):
        [check] = judge_trajectory(followed(off, **spread))
        return check

    assert_limit(judge, 32 * 2.0)


def test_a_right_run_is_outside_beyond_32_times_the_spread():
    alarms = false_alarms(followed(0.0, envelope=2.0, held_out=[63.0, 64.0, 65.0, 700.0]))
    assert (alarms.outside, alarms.runs) == (2, 4)


def test_nothing_that_moves_leaves_a_spread_that_can_be_divided_by():
    assert spread_of(followed(0.0)).tolist() == [np.finfo(np.float64).tiny]
    assert judge_trajectory(followed(1e-300))[0].verdict == "different"


QUANTITIES = {
    "loss/0": True,
    "grad/w": True,
    "slot/m/w": True,
    "stat/w": True,
    "var/w": True,
    "ema/w": True,
    "metric/acc": True,
    "act/0/out": False,
    "tower_grad/0/w": False,
    "clip/w": False,
    "feed/0/x": False,
    "state/learning_rate": False,
}


def test_trajectories_are_followed_at_what_training_carries_on(tmp_path):
    tensors = {key: singles(3.0, 4.0) for key in QUANTITIES}
    start = {key: singles(3.0, 3.0) for key in QUANTITIES}
    reference = trace(tmp_path / "r", {**tensors, "metric/count": np.array([3, 4])}, init=start)
    found = {spot.key: spot for spot in spots_of(JOIN, reference, reference)}
    assert {key: key in found for key in QUANTITIES} == QUANTITIES and "metric/count" not in found
    assert {key: spot.size for key, spot in found.items()} == {
        key: 1.0 if key in ("var/w", "stat/w", "ema/w") else 5.0 for key in found
    }
    assert {spot.rounding for spot in found.values()} == {2.0**-24 * 5.0}
    racing = spots_of(JOIN, reference, reference, ["stat/w"])
    assert {spot.key for spot in racing} == found.keys() - {"stat/w"}


def test_runs_are_apart_by_how_far_they_have_come_since_their_starts(tmp_path):
    runs = [
        trace(
            tmp_path / str(n),
            {"var/w": singles(3.0, 4.0 + n), "grad/w": singles(0.0, n)},
            init={"var/w": singles(0.0, 2.0 * n)},
        )
        for n in range(2)
    ]
    spots = spots_of(JOIN, runs[0], runs[0])
    told = dict(zip([spot.key for spot in spots], apart(JOIN, spots, *runs, (False, True)), strict=True))
    assert told == {"grad/w": 1.0, "var/w": 1.0}  # 4 and 5 from 0 and 2: 4 and 3
    broken = trace(tmp_path / "broken", {"var/w": singles(np.nan, 4.0)}, init={"var/w": singles(0.0, 0.0)})
    told = dict(zip([spot.key for spot in spots], apart(JOIN, spots, runs[0], broken, (False, True)), strict=True))
    assert told == {"grad/w": np.inf, "var/w": np.inf}
    refused = Check("free", 0, "var/w", "incomparable")
    assert (
        apart(JOIN, [spot._replace(refused=refused) for spot in spots], *runs, (False, True)).tolist() == [np.inf] * 2
    )


def test_a_spot_that_one_side_breaks_down_at_is_told(tmp_path):
    sides = [trace(tmp_path / str(value), {"grad/w": singles(1.0, value)}) for value in (1.0, np.nan)]
    [spot] = spots_of(JOIN, *sides)
    assert spot.refused is not None and spot.refused.verdict == "different"


def test_a_value_of_the_ports_own_is_known_to_float32():
    def judge(off):
        [check] = judge_own_values([Written("stat/mean", ("mean",), "buffer", doubles(4.0, 0.0), doubles(4.0, off))])
        assert bool(check.note) == (check.verdict == "different")
        return check

    assert_limit(judge, 2.0**-22 * 4.0)
    larger = Written("stat/mean", ("mean",), "buffer", doubles(4.0), doubles(4.0 + 2.0**-20))
    assert judge_own_values([larger])[0].verdict == "same"  # of the larger of the two
    assert judge_own_values([larger._replace(expected=None)]) == judge_own_values([larger._replace(own=None)]) == []


@pytest.mark.parametrize(("off", "layout"), [(0.099, "ntc_to_tnc"), (0.101, "identity")])
def test_a_layout_is_taken_where_the_numbers_agree_to_a_tenth(off, layout):
    value = np.zeros((4, 4, 3))
    value[0, 1] = 1.0
    other = value.transpose(1, 0, 2).copy()
    other[3, 3] = off
    assert layout_of([(value, other)]) == layout


@pytest.mark.parametrize(("share", "layout"), [(0.9, "identity"), (1.1, "ntc_to_tnc")])
def test_a_layout_is_taken_where_it_is_twice_as_near_as_none(share, layout):
    value = np.zeros((2, 2, 1))
    value[0, 0], value[0, 1] = 100.0, 1.0
    other = value.transpose(1, 0, 2).copy()
    other[1, 1] = np.sqrt(2.0 / (4.0 * share**2 - 1.0))
    near, far = float(other[1, 1, 0]), float(np.sqrt(2.0 + other[1, 1, 0] ** 2))
    assert far / near == pytest.approx(2 * share)
    assert layout_of([(value, other)]) == layout


@pytest.mark.parametrize("key", ["loss/0", "tower_grad/0/w", "grad/w", "section/a/clip/w"])
@pytest.mark.parametrize(("off", "jumped"), [(0.99 * 2.0**-26, False), (1.01 * 2.0**-26, True)])
def test_what_moves_by_more_than_a_smooth_function_jumps(key, off, jumped):
    assert jumps({key: doubles(3.0, 4.0)}, {key: doubles(3.0, 4.0 + 5.0 * off)}) is jumped


@pytest.mark.parametrize(("off", "jumped"), [(0.99 * 2.0**-36, False), (1.01 * 2.0**-36, True)])
def test_a_faint_gradient_jumps_beside_all_of_its_kind(off, jumped):
    one = {"grad/w": doubles(5.0, 0.0), "grad/b": doubles(0.0), "loss/0": doubles(1e9)}
    assert jumps(one, {**one, "grad/b": doubles(5.0 * off)}) is jumped


@pytest.mark.parametrize("key", ["act/0/out", "var/w", "slot/m/w", "metric/acc"])
def test_only_losses_and_gradients_jump(key):
    assert not jumps({key: doubles(1.0)}, {key: doubles(2.0)})
    assert not jumps({"loss/0": np.array([1])}, {"loss/0": np.array([2])})
    assert jumps({"grad/w": doubles(1.0)}, {"grad/w": doubles(1.0, 1.0)})


def test_losses_are_means_over_towers_of_the_free_run_first(tmp_path):
    one = trace(tmp_path / "r", {"loss/0": doubles(1.0, 3.0), "loss/1": doubles(6.0), "loss/0/term": doubles(50.0)})
    other = trace(tmp_path / "c", {"grad/w": doubles(1.0)})
    checks = [Check(run, 0, f"loss/{n}", "same", allowed=1.0 + n) for run in ("lockstep", "free") for n in range(2)]
    level = Level("function", "same", "", checks)
    found = losses_of(level, {"lockstep": (one, one), "free": (one, other)})
    assert (found.run, found.steps, found.reference, found.allowed) == ("free", [0], [4.0], [1.5])
    assert np.isnan(found.candidate[0])
    assert losses_of(level, {"lockstep": (one, one)}).candidate == [4.0]
    assert losses_of(level, {}) is None and losses_of(Level("function", "same", ""), {"free": (one, one)}) is None


def test_the_candidates_way_is_measured_in_the_references_layout_and_in_float64(tmp_path):
    join = Join(Mapping([Pair("w", ("fc.weight",), parse_transform("transpose"), "", (1, 2))]), {}, ["m"])
    reference = trace(tmp_path / "r", {"var/w": singles([3.0, 4.0])}, init={"var/w": singles([0.0, 0.0])})
    candidate = trace(
        tmp_path / "c",
        {"var/fc.weight": singles([3.0], [4.0])},
        init={"var/fc.weight": singles([2.0**-30], [2.0**-30])},
    )
    spots = [Spot(0, "var/w", 5.0, 0.0, None)]
    told = apart(join, spots, reference, candidate, (False, True))
    assert told.tolist() == [pytest.approx(2.0**-29.5, rel=1e-12)]
    assert apart(join, spots, candidate, reference, (True, False)).tolist() == told.tolist()
    assert apart(join, spots, reference, reference, (False, False)).tolist() == [0.0]


@pytest.mark.parametrize("lacking", [{}, {"var/w": singles(1.0)}])
def test_what_a_run_of_the_candidate_lacks_is_infinitely_far(tmp_path, lacking):
    start = {"var/w": singles(0.0, 0.0)}
    whole = trace(tmp_path / "r", {"var/w": singles(3.0, 4.0), "loss/0": singles(1.0)}, init=start)
    other = trace(tmp_path / "c", {**lacking, "loss/0": singles(1.5)}, init=start)
    spots = [Spot(0, "var/w", 5.0, 0.0, None), Spot(0, "loss/0", 1.0, 0.0, None)]
    assert apart(JOIN, spots, whole, other, (False, True)).tolist() == [np.inf, 0.5]
    for candidates in ((True, False), (True, True)):
        assert apart(JOIN, spots, other, whole, candidates).tolist() == [np.inf, 0.5]
    assert apart(JOIN, spots, other, other, (True, True)).tolist() == [0.0 if lacking else np.inf, 0.0]


def test_spots_of_several_steps_are_each_read_in_their_own(tmp_path):
    runs = [trace(tmp_path / str(n), *({"loss/0": singles(n * step)} for step in (1.0, 2.0, 3.0))) for n in (0, 1)]
    spots = [Spot(step, "loss/0", 1.0, 0.0, None) for step in (0, 2, 2, 1)]
    assert apart(JOIN, spots, *runs, (False, True)).tolist() == [1.0, 3.0, 3.0, 2.0]


def test_each_spot_has_a_spread_and_a_stray_of_its_own():
    spots = [
        Spot(0, key, 1.0, 0.0, refused, True)
        for key, refused in (("var/w", None), ("var/b", Check("free", 0, "var/b", "different")))
    ]
    spots.append(Spot(0, "loss/0", 1.0, 0.0, None))
    runs = np.array([[1.0, 1.0, 4.0], [7.0, 1.0, 4.0]])
    made = Trajectories(spots, runs, 8 * runs, 2 * runs, 0 * runs)
    assert spread_of(made).tolist() == [5.0, 1.0, 4.0]
    assert strays(made, made.held_out).tolist() == [8.0, 56 / 5]
    assert stray_of_candidate(made) == 2.0
    assert [check.constant for check in judge_trajectory(made)] == [True, False, False]
    refused = [spot._replace(refused=spots[1].refused) for spot in spots]
    assert strays(made._replace(spots=refused), made.held_out).tolist() == [0.0, 0.0]


def test_without_runs_held_out_nothing_is_known_of_false_alarms():
    alarms = false_alarms(followed(0.0, held_out=[]))
    assert (alarms.outside, alarms.runs, alarms.low, alarms.high) == (0, 0, 0.0, 1.0)
    assert (alarms.of_verdict, alarms.of_verdict_at_most) == (1.0, 1.0)


def test_a_start_that_neither_side_has_anything_in_is_the_same():
    zero = Written("stat/mean", ("mean",), "buffer", doubles(0.0, 0.0), doubles(0.0, 0.0))
    assert judge_own_values([zero])[0].verdict == "same"
    assert judge_own_values([zero._replace(own=doubles(0.0, 1.0))])[0].verdict == "different"


def test_gradients_jump_beside_their_own_size_however_small_all_of_them_are():
    assert jumps({"grad/w": doubles(1e-12)}, {"grad/w": doubles(2e-12)})
    assert not jumps({"grad/w": doubles(1e-12)}, {"grad/w": doubles(1e-12)})
