"""Where the limits of level 2 lie, and what tells a side that computes in less than float32."""

import itertools

import numpy as np
import pytest
from made_pairs import JOIN, assert_limit, lockstep, trace

from parity.judge.levels.float32 import Accuracy, judge_accuracy, judge_float32, spread_kinds
from parity.judge.levels.function import Lockstep
from parity.mapping import Mapping, Pair, parse_transform
from parity.mapping.trace_map import Join

UNIT = 2.0**-24


def singles(*values):
    return np.array(values, np.float32)


def doubles(*values):
    return np.array(values, np.float64)


def judged(tmp_path, key, rough=(0.0, 0.0), draws=(), before=None):
    """Returns a function of a difference to the check of a tensor of norm 3 in float32 that is off by so much."""
    count = itertools.count()

    def judge(off):
        folder = tmp_path / str(next(count))
        found = lockstep(
            folder,
            {key: doubles(3.0, rough[0])},
            {key: doubles(3.0, off + rough[1])},
            {key: singles(3.0, 0.0)},
            {key: singles(3.0, off)},
            before=before,
        )
        others = [trace(folder / f"draw{place}", {key: singles(3.0, moved)}) for place, moved in enumerate(draws)]
        [check] = judge_float32(JOIN, found, others, [0])
        return check

    return judge


EVERY = ["grad/w", "tower_grad/1/w", "slot/m/w", "act/0/out", "loss/0", "metric/acc", "var/w", "stat/w"]


@pytest.mark.parametrize("key", EVERY)
def test_a_few_roundings_of_the_tensor_are_allowed(tmp_path, key):
    assert_limit(judged(tmp_path, key), 3 * 2 * UNIT * 3.0)


@pytest.mark.parametrize("rough", [(2.0**-10, 2.0**-12), (2.0**-12, 2.0**-10)])
def test_three_times_the_larger_distance_from_float64_is_allowed(tmp_path, rough):
    assert_limit(judged(tmp_path, "grad/w", rough), 3 * (2.0**-10 + 2 * UNIT * 3.0))


@pytest.mark.parametrize("key", ["grad/w", "loss/0", "var/w", "stat/w"])
def test_three_times_the_largest_of_the_draws_is_allowed(tmp_path, key):
    assert_limit(judged(tmp_path, key, draws=(2.0**-12, 2.0**-10)), 3 * (2.0**-10 + 2 * UNIT * 3.0))


def test_what_belongs_to_single_examples_moves_with_their_order_and_is_not_measured_by_draws(tmp_path):
    assert_limit(judged(tmp_path, "act/0/out", draws=(2.0**-10,)), 3 * 2 * UNIT * 3.0)


def test_a_draw_that_is_not_finite_measures_nothing(tmp_path):
    assert_limit(judged(tmp_path, "grad/w", draws=(np.inf, 2.0**-10)), 3 * (2.0**-10 + 2 * UNIT * 3.0))


@pytest.mark.parametrize("key", ["var/w", "stat/w", "ema/w"])
def test_what_is_updated_is_judged_by_its_update(tmp_path, key):
    before = {key: singles(3.0 - 2.0**-4, 0.0)}
    assert_limit(judged(tmp_path, key, before=before), 3 * 2 * UNIT * 2.0**-4)


def test_a_slot_is_judged_by_its_size_whatever_it_was(tmp_path):
    assert_limit(judged(tmp_path, "slot/m/w", before={"slot/m/w": singles(3.0 - 2.0**-4, 0.0)}), 3 * 2 * UNIT * 3.0)


def test_the_figures_of_a_check_are_those_of_the_pair(tmp_path):
    check = judged(tmp_path, "grad/w", rough=(0.5, 0.0))(0.25)
    assert (check.run, check.step, check.difference, check.size, check.constant) == ("lockstep", 0, 0.25, 3.0, False)
    assert check.scale == pytest.approx(0.5 / UNIT + 3.0)


@pytest.mark.parametrize(
    ("one", "other", "verdicts"),
    [
        ({"feed/0/x": singles(1, 2)}, {"feed/0/x": singles(1, 2)}, ["same"]),
        ({"feed/0/x": singles(1, 2)}, {"feed/0/x": singles(1, 2 + 2.0**-22)}, ["different"]),
        ({"noise/0/x": np.array([1, 2])}, {"noise/0/x": np.array([1, 3])}, ["different"]),
        ({"act/0/ids": np.array([1, 2])}, {"act/0/ids": np.array([1, 3])}, []),  # rounding may decide it
        ({"grad/w": singles(1, 2)}, {"grad/w": singles(1, np.nan)}, ["different"]),
        ({"grad/w": singles(1, np.nan)}, {"grad/w": singles(1, np.nan)}, ["incomparable"]),
        ({"grad/w": singles(1, 2)}, {}, ["incomparable"]),
        ({"state/global_step": np.array(3)}, {"state/global_step": np.array(4)}, ["different"]),
        ({"state/global_step": np.array(3)}, {}, ["not_run"]),
    ],
)
def test_what_is_not_measured(tmp_path, one, other, verdicts):
    found = judge_float32(JOIN, lockstep(tmp_path, one, other), [], [0])
    assert [check.verdict for check in found] == verdicts


@pytest.mark.parametrize(
    ("candidate", "forward", "holds"),
    [(64.0, 1.0, True), (64.1, 1.0, False), (1e9, 2.0**-13, True), (1e9, 1.01 * 2.0**-13, False)],
)
def test_a_side_computes_in_less_than_float32_where_gradients_and_activations_say_so(candidate, forward, holds):
    assert Accuracy(candidate, 1.0, (0,), forward).holds is holds


def accuracy(tmp_path, rough, draws=((), ()), forward=0.0, join=JOIN):
    found = lockstep(
        tmp_path,
        {"grad/w": doubles(3.0, rough[0]), "act/0/out": doubles(3.0, 0.0)},
        {"grad/w": doubles(3.0, rough[1]), "act/0/out": doubles(3.0, forward)},
        {"grad/w": singles(3.0, 0.0), "act/0/out": singles(3.0, 0.0)},
        {"grad/w": singles(3.0, 0.0), "act/0/out": singles(3.0, 0.0)},
    )
    made = [
        [trace(tmp_path / f"{side}{place}", {"grad/w": singles(3.0, off)}) for place, off in enumerate(each)]
        for side, each in zip("rc", draws, strict=True)
    ]
    return judge_accuracy(join, found, *made)


def test_the_accuracy_of_a_side_is_its_distance_from_float64_over_the_others_or_what_an_ulp_makes_of_it(tmp_path):
    floor = 2 * UNIT * 3.0
    found = accuracy(tmp_path / "a", (2.0**-20, 2.0**-14), draws=((0.0,), ()))
    assert found.candidate == pytest.approx(2.0**-14 / (2.0**-20 + floor))
    assert found.reference == pytest.approx(2.0**-20 / (2.0**-14 + floor))
    found = accuracy(tmp_path / "b", (2.0**-14, 2.0**-14), draws=((2.0**-12, 2.0**-16), (2.0**-10,)))
    assert found.candidate == pytest.approx(2.0**-14 / (2.0**-12 + floor))
    assert found.reference == pytest.approx(2.0**-14 / (2.0**-10 + floor))
    assert found.states == (0,)


def test_gradients_of_a_variable_without_counterpart_tell_no_accuracy(tmp_path):
    gone = Join(Mapping([Pair("w", (), parse_transform("identity"), "", (2,))]), {}, [])
    assert accuracy(tmp_path, (0.0, 1.0), draws=((0.0,), ()), join=gone) == Accuracy(0.0, 0.0, ())


def test_the_accuracy_of_activations_is_their_distance_from_float64_over_their_size(tmp_path):
    found = accuracy(tmp_path, (0.0, 2.0**-10), draws=((0.0,), ()), forward=2.0**-10)
    assert found.forward == pytest.approx(2.0**-10 / 3.0)


def test_without_draws_nothing_is_known_of_accuracy(tmp_path):
    assert accuracy(tmp_path, (0.0, 1.0)) == Accuracy(0.0, 0.0, ())


def test_a_draw_need_not_have_every_step_and_every_tensor(tmp_path):
    steps = [{"grad/w": doubles(3.0, 0.0)}] * 2
    sides = {name: trace(tmp_path / name, *steps) for name in ("a", "b", "c", "d", "e")}
    draws = [
        trace(tmp_path / "short", {"grad/w": doubles(3.0, 1.0)}),
        trace(tmp_path / "other", {"grad/b": doubles(1.0)}),
    ]
    found = judge_float32(JOIN, Lockstep(*sides.values()), draws, [0, 1])
    assert [check.allowed for check in found] == pytest.approx([3 * (1.0 + 2 * UNIT * 3.0), 3 * 2 * UNIT * 3.0])


def test_what_the_ports_own_step_does_not_show_is_not_judged(tmp_path):
    found = lockstep(tmp_path, {"clip/w": doubles(1.0, 2.0)}, {}, candidate_facts={"unobserved": ["clip"]})
    assert [check.verdict for check in judge_float32(JOIN, found, [], [0])] == ["not_run"]


@pytest.mark.parametrize(
    ("exact", "rough", "forward"),
    [
        ({"loss/0": doubles(2.0)}, {"loss/0": singles(2.5)}, 0.25),
        ({"loss/0": doubles(0.5)}, {"loss/0": singles(0.25)}, 0.5),
        (
            {"loss/0": doubles(2.0), "act/0/zeros": doubles(0.0)},
            {"loss/0": singles(2.5), "act/0/zeros": singles(1.0)},
            0.25,
        ),
        (
            {"loss/0": doubles(2.0), "act/0/ids": np.array([1])},
            {"loss/0": singles(2.5), "act/0/ids": np.array([9])},
            0.25,
        ),
        ({"loss/0": doubles(2.0)}, {"loss/0": singles(2.5), "act/0/out": singles(9.0)}, 0.25),
        (
            {"loss/0": doubles(2.0), "act/0/out": doubles(1.0)},
            {"loss/0": singles(2.5), "act/0/out": singles(9, 9)},
            0.25,
        ),
        ({"loss/0": doubles(np.inf)}, {"loss/0": singles(1.0)}, 0.0),
        (
            {"loss/0": doubles(2.0), "act/0/out": doubles(1.0)},
            {"loss/0": singles(2.5), "act/0/out": singles(np.inf)},
            0.0,
        ),
        ({"metric/acc": doubles(2.0)}, {"metric/acc": singles(1.0)}, 0.0),
    ],
)
def test_the_accuracy_of_the_forward_pass_is_that_of_its_finite_float_outputs_and_losses(
    tmp_path, exact, rough, forward
):
    gradient = {"grad/w": singles(3.0, 0.0)}
    found = lockstep(tmp_path, gradient, {**gradient, **exact}, gradient, {**gradient, **rough})
    draws = [trace(tmp_path / "draw", gradient)]
    assert judge_accuracy(JOIN, found, draws, []) == Accuracy(0.0, 0.0, (0,), forward)


@pytest.mark.parametrize(
    "gradients",
    [
        {"one64": doubles(0.0, 0.0)},
        {"one": singles(np.inf, 0.0)},
        {"one64": doubles(np.nan, 0.0)},
        {"other": singles(np.nan, 0.0)},
        {"other64": doubles(np.inf, 0.0)},
        {"other": singles(3.0), "other64": doubles(3.0)},
        {"other": None},
        {"other64": None},
    ],
)
def test_a_gradient_that_is_zero_or_not_finite_or_not_there_tells_no_accuracy(tmp_path, gradients):
    told = {
        "one": singles(3.0, 0.0),
        "one64": doubles(3.0, 1.0),
        "other": singles(3.0, 0.0),
        "other64": doubles(3.0, 1.0),
    }
    made = [{} if each is None else {"grad/w": each} for each in {**told, **gradients}.values()]
    found = lockstep(tmp_path, made[1], made[3], made[0], made[2])
    draws = [trace(tmp_path / "draw", {"grad/w": singles(3.0, 0.0)})]
    assert judge_accuracy(JOIN, found, draws, [trace(tmp_path / "none", {})]) == Accuracy(0.0, 0.0, ())


def test_a_draw_of_the_candidate_that_lacks_a_gradient_tells_nothing_of_it(tmp_path):
    whole = [{"grad/w": singles(3.0, 0.0)}, {"grad/w": doubles(3.0, 2.0**-14)}]
    found = lockstep(tmp_path, whole[1], whole[1], whole[0], whole[0])
    draws = [[trace(tmp_path / "draw", whole[0])], [trace(tmp_path / "none", {})]]
    floor = 2 * UNIT * 3.0
    assert judge_accuracy(JOIN, found, *draws).reference == pytest.approx(2.0**-14 / (2.0**-14 + floor))


def test_draws_are_counted_by_their_kind():
    assert spread_kinds({"one-ulp": [None, None], "sample-order": [None]}) == "2 one-ulp, 1 sample-order"
