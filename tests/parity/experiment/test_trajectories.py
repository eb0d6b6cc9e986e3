"""Level 3's arithmetic, on numbers that are known."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.trajectories import Seen, _drawn, level_of, told
from parity.judge.binomial import at_least, most_of, rate_interval
from parity.judge.levels.trajectory import (
    Spot,
    Trajectories,
    false_alarms,
    judge_trajectory,
    spread_of,
    stray_of_candidate,
    strays,
)
from parity.judge.result import Check
from parity.mapping.states import read_all
from parity.trace import Trace, TraceWriter, perturb

LIMIT, ROUNDING = 32.0, 1e-9


def trajectories(candidate, envelope=1.0, held_out=1.0, wandering=1.0, refused=(None, None)):
    """Two spots; every run of a kind is as far away as the number says, or the list of one number for each run."""

    def runs(value, count):
        return np.tile(np.broadcast_to(np.asarray(value, float), (count,))[:, None], (1, 2))

    spots = [Spot(step, "var/w", 10.0, ROUNDING, refused[step]) for step in (0, 1)]
    return Trajectories(spots, runs(envelope, 20), runs(held_out, 20), runs(candidate, 9), runs(wandering, 8))


def test_what_strays_as_rounding_does_is_the_same_and_beyond_the_limit_it_is_different():
    assert [check.verdict for check in judge_trajectory(trajectories(LIMIT))] == ["same", "same"]
    found = judge_trajectory(trajectories(LIMIT * 1.01))
    assert [check.verdict for check in found] == ["different", "different"]
    assert found[0].multiple == pytest.approx(1.01)
    assert stray_of_candidate(trajectories(LIMIT * 1.01)) == pytest.approx(LIMIT * 1.01)


def test_a_lone_branch_flip_in_fewer_than_half_of_the_candidates_runs_is_no_difference():
    flips = [1000.0] * 4 + [1.0] * 5
    assert level_of(judge_trajectory(trajectories(flips)), trajectories(flips)).verdict == "same"
    most = [1000.0] * 5 + [1.0] * 4
    assert level_of(judge_trajectory(trajectories(most)), trajectories(most)).verdict == "different"


def test_the_spread_is_the_larger_of_both_sides_and_never_less_than_storing_loses():
    assert spread_of(trajectories(0.0, envelope=3.0, wandering=4.0)).tolist() == [4.0, 4.0]
    assert spread_of(trajectories(0.0, envelope=0.0, wandering=0.0)).tolist() == [ROUNDING, ROUNDING]
    assert spread_of(trajectories(0.0, envelope=[0.0] * 19 + [20.0**0.5], wandering=0.0)) == pytest.approx(1.0)


def test_runs_are_judged_by_their_largest_distance_anywhere():
    found = trajectories(1.0)
    runs = np.array([[1.0, 2.0], [7.0, 3.0]])
    assert strays(found, runs).tolist() == [2.0, 7.0]


def test_a_candidate_that_is_not_finite_is_different_and_a_reference_that_is_not_is_incomparable():
    broken = judge_trajectory(trajectories(np.inf))
    assert {check.verdict for check in broken} == {"different"}
    lost = judge_trajectory(trajectories(1.0, envelope=[1.0] * 19 + [np.inf]))
    assert {check.verdict for check in lost} == {"incomparable"}
    assert lost[0].note == "a perturbed run is not finite here, so that nothing can be said"


def test_what_cannot_be_compared_is_told_as_it_was_refused():
    refused = Check("free", 1, "var/w", "incomparable", note="the candidate has no such tensor")
    found = judge_trajectory(trajectories([np.inf] * 9, refused=(refused, refused)))
    assert found == [refused, refused]
    assert stray_of_candidate(trajectories([np.inf] * 9, refused=(refused, refused))) == 0.0


def test_held_out_runs_say_how_often_a_right_port_is_called_different():
    clean = false_alarms(trajectories(1.0))
    assert (clean.outside, clean.runs, clean.low, clean.of_verdict) == (0, 20, 0.0, 0.0)
    assert clean.high == pytest.approx(0.1684, abs=1e-4)
    assert clean.of_verdict_at_most == pytest.approx(0.0093, abs=1e-4)
    one = false_alarms(trajectories(1.0, held_out=[1000.0] + [1.0] * 19))
    assert (one.outside, one.of_verdict < 1e-4) == (1, True)


def test_where_the_reference_strays_from_itself_nothing_is_said_about_the_port():
    wild = trajectories(1000.0, held_out=[1000.0] * 8 + [1.0] * 12)
    level = level_of(judge_trajectory(wild), wild)
    assert level.verdict == "incomparable"
    assert level.reason == (
        "the reference deviates from itself: 8 of 20 held-out runs of the reference deviate beyond the limit "
        "(40%, 95% interval 19.1% to 63.9%), so that 1e+03 is no evidence about the port"
    )


def test_the_level_says_what_it_rests_on_its_false_alarms_and_its_power():
    found = trajectories(2.0)
    level = level_of(judge_trajectory(found), found)
    assert level.reason == (
        "training deviates 2 times as far as rounding does (limit 32), by 20 perturbed runs over 2 tensors"
    )
    assert level.notes == [
        "false alarms: 0 of 20 held-out runs of the reference deviate beyond the limit (0%, 95% interval 0.0% to 16.8%); "
        "the verdict takes the median of 9 runs, which by that rate calls 0.00% of right ports different (at most 0.94%)"
    ]
    assert told([Seen("a learning rate off by 1%", 8123.0, True), Seen("stale moving statistics", 3.0, False)]) == [
        "power: would have seen a learning rate off by 1% (8,123, limit 32)",
        "power: would not have seen stale moving statistics (3, limit 32)",
    ]


@pytest.mark.parametrize(
    ("found", "tried", "low", "high"), [(0, 20, 0.0, 0.16843), (1, 20, 0.00127, 0.24873), (20, 20, 0.83157, 1.0)]
)
def test_the_interval_of_a_rate_is_clopper_and_pearsons(found, tried, low, high):
    # Figures: Clopper and Pearson's tables, as every statistics package gives them.
    assert rate_interval(found, tried) == pytest.approx((low, high), abs=1e-5)


def test_rates_of_thousands_of_trials_are_known_too():
    low, high = rate_interval(12, 3600)
    assert low == pytest.approx(0.00172, abs=2e-5) and high == pytest.approx(0.00582, abs=2e-5)
    assert (at_least(1, 5000, 0.0), at_least(0, 5000, 0.0), at_least(5000, 5000, 1.0)) == (0.0, 1.0, 1.0)


def test_of_nothing_tried_nothing_is_known():
    assert rate_interval(0, 0) == (0.0, 1.0)


def test_a_median_is_outside_where_more_than_half_of_the_runs_are():
    assert most_of(3, 0.5) == pytest.approx(0.5)
    assert most_of(9, 0.1) == pytest.approx(sum(at_least(k, 9, 0.1) - at_least(k + 1, 9, 0.1) for k in range(5, 10)))
    assert at_least(0, 4, 0.3) == pytest.approx(1.0)
    assert all(at_least(0, tried, rate / 10) <= 1.0 for tried in (1, 5, 20, 100) for rate in range(1, 10))


@pytest.mark.parametrize(("uneven", "shards"), [("sizes", [3, 2, 2]), ("drop", [2, 2, 2, 1]), ("refuse", [2, 2, 2, 1])])
def test_examples_change_places_within_their_towers_shard_alone(tmp_path, uneven, shards):
    writer = TraceWriter(tmp_path, {}, {}, {})
    writer.init({})
    writer.step(0, {"feed/x": np.arange(7.0)})
    writer.close()
    playing = SimpleNamespace(
        start=SimpleNamespace(tf=tmp_path), feeds=SimpleNamespace(tf=tmp_path), steps=[0], shards=3, uneven=uneven
    )
    batch = read_all(Trace(tmp_path).step(0))
    orders = [np.round(perturb(batch, _drawn(playing, draw).perturbations)["feed/x"]) for draw in range(20)]
    of_shards = np.repeat(np.arange(len(shards)), shards)
    assert all((of_shards[order.astype(int)] == of_shards).all() for order in orders)
    assert len({tuple(order) for order in orders}) > 5
