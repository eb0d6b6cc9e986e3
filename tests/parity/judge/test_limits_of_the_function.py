"""Where the limits of level 1 lie: just inside and just outside each, by numbers that stand here and not in the code."""

import itertools

import numpy as np
import pytest
from made_pairs import JOIN, assert_limit, lockstep, trace

from parity.judge.levels.function import judge_free, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.result import Check
from parity.judge.spread import MeasuredSpread, Replicas

UNIT = 2.0**-53


def doubles(*values):
    return np.array(values, np.float64)


def singles(*values):
    return np.array(values, np.float32)


def judged(tmp_path, key, rough=(0.0, 0.0), **settings):
    """Returns a function of a difference to the check of a tensor of norm 3 in lockstep that is off by so much."""
    count = itertools.count()

    def judge(off):
        found = lockstep(
            tmp_path / str(next(count)),
            {key: doubles(3.0, 0.0)},
            {key: doubles(3.0, off)},
            {key: singles(3.0, rough[0])},
            {key: singles(3.0, off + rough[1])},
            **settings,
        )
        [check] = judge_lockstep(JOIN, found, [0])
        return check

    return judge


@pytest.mark.parametrize("key", ["grad/w", "tower_grad/1/w", "slot/m/w", "act/0/out", "loss/0", "metric/acc", "var/w"])
def test_in_float64_a_few_roundings_of_the_tensor_are_allowed(tmp_path, key):
    assert_limit(judged(tmp_path, key), 64 * 4 * UNIT * 3.0)


def test_what_float32_rounds_on_both_sides_is_allowed_by_the_ratio_of_the_precisions(tmp_path):
    assert_limit(judged(tmp_path, "grad/w", rough=(2.0**-12, 2.0**-11)), 64 * 2.0**-29 * (2.0**-12 + 2.0**-11))


@pytest.mark.parametrize("key", ["var/w", "stat/w", "ema/w"])
def test_what_is_updated_is_judged_by_its_update_and_what_storing_it_rounds(tmp_path, key):
    before = {key: doubles(3.0 - 2.0**-8, 0.0)}
    assert_limit(judged(tmp_path, key, before=before), 64 * 4 * UNIT * 2.0**-8 + 2 * UNIT * 3.0)


@pytest.mark.parametrize("key", ["slot/m/w", "grad/w"])
def test_what_is_not_updated_is_judged_by_its_size_whatever_it_was(tmp_path, key):
    assert_limit(judged(tmp_path, key, before={key: doubles(3.0 - 2.0**-8, 0.0)}), 64 * 4 * UNIT * 3.0)


@pytest.mark.parametrize("key", ["loss/0", "metric/acc"])
def test_losses_of_a_graph_in_float32_are_allowed_what_float32_rounds(tmp_path, key):
    settings = {"reference_facts": {"float32_in_float64": ["model.py:3"]}}
    assert_limit(judged(tmp_path / "exact", key, **settings), 3 * 2 * 2.0**-24 * 3.0)
    assert_limit(judged(tmp_path / "rough", key, (2.0**-12, 2.0**-11), **settings), 3 * 1.5 * 2.0**-11)


def test_gradients_of_a_graph_in_float32_are_not(tmp_path):
    settings = {"reference_facts": {"float32_in_float64": ["model.py:3"]}}
    assert_limit(judged(tmp_path, "grad/w", **settings), 64 * 4 * UNIT * 3.0)


def test_what_float32_cannot_hold_on_one_side_is_allowed_the_others_rounding(tmp_path):
    assert_limit(judged(tmp_path, "grad/w", rough=(np.inf, 2.0**-11)), 64 * 2.0**-29 * 2.0**-11)


def test_the_figures_of_a_check_are_those_of_the_pair(tmp_path):
    check = judged(tmp_path, "grad/w", rough=(0.5, 0.25))(0.25)
    assert (check.run, check.step, check.key, check.verdict) == ("lockstep", 0, "grad/w", "different")
    assert (check.difference, check.size, check.constant) == (0.25, 3.0, False)
    assert check.allowed == pytest.approx(64 * (2.0**-29 * 0.75 + 4 * UNIT * 3.0))
    assert check.scale == pytest.approx(0.75 * 2.0**24 + 3.0)
    assert check.multiple == pytest.approx(0.25 / check.allowed) and check.of_scale == pytest.approx(0.25 / check.scale)


def test_feeds_and_integers_are_equal_or_different(tmp_path):
    one = {"feed/0/x": doubles(1.0, 2.0), "act/0/ids": np.array([1, 2])}
    for other, verdicts in (
        (one, ["same", "same"]),
        ({"feed/0/x": doubles(1.0, 2.0 + 2.0**-51), "act/0/ids": np.array([1, 3])}, ["different", "different"]),
    ):
        found = judge_lockstep(JOIN, lockstep(tmp_path / verdicts[0], one, other), [0])
        assert [check.verdict for check in found] == verdicts


NAN = np.nan


@pytest.mark.parametrize(
    ("one", "other", "verdict", "note"),
    [
        ([1.0, 2.0], [1.0, NAN], "different", "values that are not finite in the candidate"),
        ([1.0, np.inf], [1.0, 2.0], "different", "values that are not finite in the reference"),
        ([NAN, 2.0], [1.0, NAN], "different", "values that are not finite in both sides, at different places"),
        ([1.0, NAN], [1.0, NAN], "incomparable", "1 of 2 values are not finite, on both sides"),
        ([1.0, NAN], [5.0, NAN], "incomparable", "1 of 2 values are not finite, on both sides"),
        ([1.0, 2.0], [[1.0, 2.0]], "different", "shape (1, 2) where (2,) is expected"),
        ([1.0, 2.0], None, "incomparable", "the candidate has no such tensor"),
    ],
)
def test_what_cannot_be_measured_is_told(tmp_path, one, other, verdict, note):
    one, other = {"act/0/out": np.array(one)}, {"act/0/out": np.array(other)} if other is not None else {}
    [check] = judge_lockstep(JOIN, lockstep(tmp_path, one, other, one, other), [0])
    assert (check.verdict, check.note, check.difference) == (verdict, note, np.inf)


def test_what_the_candidate_has_beyond_the_reference_cannot_be_compared(tmp_path):
    one = {"grad/w": doubles(1.0, 2.0)}
    found = judge_lockstep(JOIN, lockstep(tmp_path, one, {**one, "grad/b": doubles(1.0, 1.0)}), [0])
    told = {check.key: (check.verdict, check.note, check.difference) for check in found}
    assert told == {"grad/b": ("incomparable", "the reference has no such tensor", 0.0), "grad/w": ("same", "", 0.0)}


def test_what_the_ports_own_step_does_not_show_is_not_judged(tmp_path):
    found = lockstep(tmp_path, {"clip/w": doubles(1.0, 2.0)}, {}, candidate_facts={"unobserved": ["clip"]})
    assert [check.verdict for check in judge_lockstep(JOIN, found, [0])] == ["not_run"]


def test_a_counter_is_judged_as_float32_holds_it_and_may_be_missing(tmp_path):
    for name, other, verdict in (("a", 0.1 + 1e-12, "same"), ("b", 0.1 + 1e-7, "different"), ("c", None, "not_run")):
        candidate = {} if other is None else {"state/learning_rate": np.array(other)}
        found = lockstep(tmp_path / name, {"state/learning_rate": np.array(0.1)}, candidate)
        assert [check.verdict for check in judge_lockstep(JOIN, found, [0])] == [verdict]


@pytest.mark.parametrize("key", ["var/w", "stat/w", "ema/w", "slot/m/w"])
def test_a_loaded_state_may_be_off_by_two_roundings_of_its_size(tmp_path, key):
    reference = trace(tmp_path / "r", init={key: doubles(3.0, 0.0), "state/global_step": np.array(1)})

    def judge(off):
        [check] = judge_init(JOIN, reference.init(), trace(tmp_path / f"{off}", init={key: doubles(3.0, off)}).init())
        return check

    assert_limit(judge, 4 * UNIT * 3.0)


@pytest.mark.parametrize(("other", "verdict"), [([3.0, NAN], "different"), (None, "incomparable")])
def test_a_state_that_was_not_loaded_is_told(tmp_path, other, verdict):
    reference = trace(tmp_path / "r", init={"var/w": doubles(3.0, 0.0)})
    candidate = trace(tmp_path / "c", init={} if other is None else {"var/w": np.array(other)})
    assert [check.verdict for check in judge_init(JOIN, reference.init(), candidate.init())] == [verdict]


def test_what_an_optimizer_starts_with_is_known_to_float32():
    def judge(off):
        [check] = judge_initial_slots(JOIN, {"slot/m/w": [0.0, 4.0]}, {"slot/m/w": [off, 4.0]})
        assert bool(check.note) == (check.verdict == "different")
        return check

    assert_limit(judge, 2.0**-22 * 4.0)
    assert judge_initial_slots(JOIN, {"slot/m/w": [0.1, 0.1]}, {"slot/m/b": [0.0, 0.0]}) == []


class MadeSpread:
    """Replicas whose distances are written here, by step."""

    def __init__(self, distances, ulp=1.0):
        self.ulp, self._distances = ulp, distances

    def at(self, step, text, reference):
        return self._distances[step]


def freely(tmp_path, key="var/w", spread=(0.0,), ulp=1.0, lockstep=()):
    """Returns a function of a difference to the last check of a free run whose every step is off by so much."""
    steps = len(spread)
    reference = trace(tmp_path / "reference", *[{key: doubles(3.0, 0.0)}] * steps)

    def judge(off):
        candidate = trace(tmp_path / f"{off}", *[{key: doubles(3.0, off)}] * steps)
        return judge_free(JOIN, reference, candidate, MadeSpread(spread, ulp), lockstep)[-1]

    return judge


FREE = ["loss/0", "grad/w", "clip/w", "slot/m/w", "stat/w", "var/w", "ema/w", "metric/acc", "eval/train/out"]


@pytest.mark.parametrize("key", FREE)
def test_a_free_run_is_allowed_a_few_roundings_where_no_ulp_carries(tmp_path, key):
    assert_limit(freely(tmp_path, key), 64 * 2.0**-50 * 3.0)


@pytest.mark.parametrize("key", ["act/0/out", "tower_grad/0/w", "tower_clip/0/w", "feed/0/x", "noise/0/x"])
def test_what_a_free_run_is_not_judged_by(tmp_path, key):
    one, other = (trace(tmp_path / name, {key: doubles(value, 0.0)}) for name, value in (("r", 1.0), ("c", 2.0)))
    assert judge_free(JOIN, one, other, MadeSpread([0.0])) == []


@pytest.mark.parametrize("spread", [(2.0**-30,), (2.0**-30, 2.0**-40), (2.0**-30, np.inf), (0.0, 2.0**-30)])
def test_a_free_run_may_stray_as_far_as_an_ulp_has_carried_so_far(tmp_path, spread):
    assert_limit(freely(tmp_path, spread=spread), 64 * 2.0**-30)


def test_a_free_run_is_allowed_what_the_step_itself_is(tmp_path):
    known = [Check("lockstep", 0, "var/w", "same", allowed=2.0**-20), Check("init", 0, "var/w", "same", allowed=1.0)]
    assert_limit(freely(tmp_path, lockstep=known, ulp=0.0), 2.0**-20 + 64 * 2.0**-50 * 3.0)


def test_louder_rounding_carries_further_than_an_ulp(tmp_path):
    known = [Check("lockstep", step, "var/w", "same", allowed=64 * 2.0**-38) for step in (0, 1)]
    louder = freely(tmp_path / "a", spread=(0.0, 2.0**-30), ulp=2.0**-40, lockstep=known)
    assert_limit(louder, 64 * 2.0**-38 + 64 * (4 * 2**0.5) * 2.0**-30)
    others = [check._replace(key="grad/w") for check in known]
    assert_limit(freely(tmp_path / "b", spread=(0.0, 2.0**-30), ulp=2.0**-40, lockstep=others), 64 * 2.0**-30)
    softer = freely(tmp_path / "c", spread=(0.0, 2.0**-30), ulp=2.0**-30, lockstep=known)
    assert_limit(softer, 64 * 2.0**-38 + 64 * 2.0**-30)


def test_a_free_run_that_breaks_down_on_one_side_is_different(tmp_path):
    assert freely(tmp_path)(np.nan).verdict == "different"


def test_the_spread_of_replicas_is_the_largest_and_their_ulp_the_smallest(tmp_path):
    reference = trace(
        tmp_path / "r", {"var/w": doubles(1.0, 1.0)}, init={"var/w": doubles(1.0, 1.0), "slot/m/w": doubles(0, 0)}
    )
    replicas = [
        trace(
            tmp_path / str(moved),
            {"var/w": doubles(1.0, 1.0 + 8 * moved)},
            init={"var/w": doubles(1.0 + moved, 1.0), "slot/m/w": doubles(9, 9)},
        )
        for moved in (2.0**-40, 2.0**-42)
    ]
    spread = Replicas(reference, replicas)
    assert spread.ulp == 2.0**-42 and spread.at(0, "var/w", doubles(1.0, 1.0)) == 2.0**-37
    assert Replicas(reference, []).ulp == Replicas(reference, []).at(0, "var/w", doubles(1.0, 1.0)) == 0.0


def test_a_spread_that_was_measured_is_read_under_the_optimizers_name_or_under_none(tmp_path):
    measured = {"section/a/var/w": np.array(0.5), "loss/0": np.array(0.25)}
    spread = MeasuredSpread(trace(tmp_path, measured, ulp=2.0**-40), "section/a/")
    assert [spread.at(0, text, doubles(1.0)) for text in ("var/w", "loss/0", "grad/w")] == [0.5, 0.25, 0.0]
    assert spread.ulp == 2.0**-40


@pytest.mark.parametrize(
    ("one", "other", "note"),
    [
        ([0.5, 0.5], [1.0, 1.0], "starts at 1 where the reference's starts at 0.5"),
        ([0.0, 4.0], [0.0, 0.1], "starts at 0 to 0.1 where the reference's starts at 0 to 4"),
        ([0.1, 0.1], [np.float32(0.1)] * 2, ""),
    ],
)
def test_a_slot_that_starts_elsewhere_is_told_by_its_range(one, other, note):
    [check] = judge_initial_slots(JOIN, {"slot/m/w": one}, {"slot/m/w": other})
    assert (check.note, check.step, check.run, check.key) == (note, 0, "fresh", "slot/m/w")


def test_what_a_loaded_state_is_and_lacks_belongs_to_no_step_but_the_start(tmp_path):
    reference = trace(tmp_path / "r", init={"var/w": doubles(3.0, 0.0), "var/b": doubles(1.0, 1.0)})
    candidate = trace(tmp_path / "c", init={"var/w": doubles(3.0, 0.0)})
    found = judge_init(JOIN, reference.init(), candidate.init())
    assert {(check.key, check.step) for check in found} == {("var/w", 0), ("var/b", 0)}


@pytest.mark.parametrize(("facts", "verdict"), [({}, "incomparable"), ({"unobserved": ["clip"]}, "not_run")])
def test_what_a_free_run_of_the_candidate_lacks_is_told(tmp_path, facts, verdict):
    tensors = {"grad/w": doubles(3.0, 0.0)}
    one, other = (
        trace(tmp_path / "r", {**tensors, "clip/w": doubles(1.0, 1.0)}),
        trace(tmp_path / "c", tensors, **facts),
    )
    found = judge_free(JOIN, one, other, MadeSpread([0.0]))
    assert {check.key: check.verdict for check in found} == {"clip/w": verdict, "grad/w": "same"}
