"""Where the limits lie between two traces that came without float64 shadows."""

import itertools

import numpy as np
import pytest
from made_pairs import JOIN, assert_limit, trace

from parity.judge.levels.fixed_tolerance import judge_plain, starts_apart

UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def judged(tmp_path, key, dtype=np.float32, init=None, beside=None, steps=1):
    """Returns a function of a difference to the last check of a tensor of norm 3 that is off by so much in every step."""
    count = itertools.count()

    def judge(off):
        folder = tmp_path / str(next(count))
        one = [{key: np.array([3.0, 0.0], dtype), **(beside or {})}] * steps
        other = [{key: np.array([3.0, off], dtype), **(beside or {})}] * steps
        start = {name: np.asarray(value, dtype) for name, value in (init or {}).items()}
        sides = trace(folder / "reference", *one, init=start), trace(folder / "candidate", *other, init=start)
        return [check for check in judge_plain(JOIN, *sides, range(steps)) if check.key == key][-1]

    return judge


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("key", ["loss/0", "act/0/out", "grad/w", "tower_grad/1/w", "slot/m/w", "metric/acc", "var/w"])
def test_what_is_allowed_goes_with_the_roundoff_of_the_dtype(tmp_path, key, dtype):
    assert_limit(judged(tmp_path, key, dtype), 2.0**16 * UNITS[dtype] * 3.0)


def test_every_step_made_so_far_is_allowed_as_much_once_more(tmp_path):
    assert_limit(judged(tmp_path, "loss/0", steps=3), 3 * 2.0**-8 * 3.0)


@pytest.mark.parametrize("key", ["var/w", "stat/w", "ema/w"])
def test_what_is_updated_is_judged_by_its_update_and_what_storing_it_rounds(tmp_path, key):
    init = {key: [3.0 - 2.0**-8, 0.0]}
    assert_limit(judged(tmp_path, key, init=init), 2.0**-8 * 2.0**-8 + 4 * 2.0**-24 * 3.0)


def test_a_slot_is_judged_by_its_size_whatever_it_was(tmp_path):
    assert_limit(judged(tmp_path, "slot/m/w", init={"slot/m/w": [3.0 - 2.0**-8, 0.0]}), 2.0**-8 * 3.0)


@pytest.mark.parametrize("key", ["grad/w", "tower_grad/0/w", "clip/w", "tower_clip/0/w"])
def test_a_faint_gradient_is_judged_by_a_thousandth_of_all(tmp_path, key):
    beside = {"grad/b": np.array([1e5, 0.0], np.float32)}
    assert_limit(judged(tmp_path, key, beside=beside), 2.0**-8 * 1e-3 * 1e5)


@pytest.mark.parametrize("own", [1.0, 10.0, 1e3])
def test_what_is_made_of_a_faint_gradient_is_allowed_as_often_its_size_as_the_gradient_is(tmp_path, own):
    beside = {name: np.array([size, 0.0], np.float32) for name, size in (("grad/b", 1e5), ("grad/w", own))}
    raised = max(1.0, 1e-3 * float(np.hypot(1e5, own)) / own)
    assert_limit(judged(tmp_path, "slot/m/w", beside=beside), 2.0**-8 * 3.0 * raised)
    init = {"var/w": [3.0 - 2.0**-8, 0.0]}
    assert_limit(judged(tmp_path, "var/w", init=init, beside=beside), 2.0**-16 * raised + 4 * 2.0**-24 * 3.0)
    for key in ("slot/m/b", "loss/0", "act/0/w", "stat/w"):  # of others' gradients nothing is raised
        assert_limit(judged(tmp_path, key, beside=beside), 2.0**-8 * 3.0)


def test_nothing_but_gradients_is_judged_by_all_gradients(tmp_path):
    assert_limit(judged(tmp_path, "loss/0", beside={"grad/b": np.array([1e5, 0.0], np.float32)}), 2.0**-8 * 3.0)


@pytest.mark.parametrize(
    ("size", "key", "verdict"),
    [
        (0.9e-8, "slot/m/w", "not_run"),
        (0.9e-8, "var/w", "not_run"),
        (0.9e-8, "ema/w", "not_run"),
        (0.9e-8, "stat/w", "different"),
        (1.2e-8, "slot/m/w", "different"),
        (1.2e-8, "var/w", "different"),
        (1.2e-8, "stat/w", "different"),
        (1.2e-2, "slot/m/w", "different"),
    ],
)
def test_what_is_made_of_a_gradient_of_nothing_but_rounding_is_not_judged(tmp_path, size, key, verdict):
    beside = {"grad/b": np.array([1.0, 0.0], np.float32), "grad/w": np.array([size, 0.0], np.float32)}
    check = judged(tmp_path / "other", key, beside=beside)(1e4)
    assert check.verdict == verdict
    assert check.note == ("not judged: its gradient is structurally zero" if verdict == "not_run" else "")
    assert judged(tmp_path / "same", key, beside=beside)(0.0).verdict == "same"


def test_what_is_made_of_a_faint_gradient_is_judged_all_the_same(tmp_path):
    beside = {"grad/b": np.array([1.0, 0.0], np.float32), "grad/w": np.array([1.2e-8, 0.0], np.float32)}
    # 1e-3 / 1.2e-8 times 2^-8 of its size
    assert_limit(judged(tmp_path, "slot/m/w", beside=beside), 2.0**-8 * 3.0 * 1e-3 / 1.2e-8)


@pytest.mark.parametrize(
    "lacking", [{}, {"grad/w": np.ones(3, np.float32)}, {"grad/w": np.full(2, np.nan, np.float32)}]
)
def test_what_is_made_of_a_gradient_that_was_not_measured_is_judged(tmp_path, lacking):
    one = {"grad/w": singles(1, 1), "grad/b": singles(1, 1), "var/w": singles(1, 2)}
    other = {"grad/b": singles(1, 1), "var/w": singles(1, 3), **lacking}
    found = judge_plain(JOIN, trace(tmp_path / "r", one), trace(tmp_path / "c", other), [0])
    assert [check.verdict for check in found if check.key == "var/w"] == ["different"]


@pytest.mark.parametrize("key", ["slot/m/w", "var/w", "ema/w"])
def test_what_one_tower_has_no_gradient_for_is_judged(tmp_path, key):
    beside = {"tower_grad/1/w": np.zeros(2, np.float32), "grad/w": np.array([1.0, 0.0], np.float32)}
    assert judged(tmp_path, key, beside=beside)(1.0).verdict == "different"


def singles(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (singles(1, 2), singles(1, np.nan), "different"),
        (singles(1, np.nan), singles(1, 2), "different"),
        (singles(1, np.nan), singles(1, np.nan), "incomparable"),
        (singles(1, 2), singles(1, np.inf), "different"),
        (singles(1, np.inf), singles(1, np.inf), "incomparable"),
        (singles(1, 2), singles(1, 2, 3), "different"),
        (singles(1, 2), np.array([1.0, 2.0]), "different"),
        (singles(1, 2), np.array([1, 2]), "different"),
        (singles(1, 2), None, "incomparable"),
    ],
)
def test_what_cannot_be_measured_is_told(tmp_path, one, other, verdict):
    candidate = {} if other is None else {"grad/w": other}
    sides = trace(tmp_path / "r", {"grad/w": one}), trace(tmp_path / "c", candidate)
    assert [check.verdict for check in judge_plain(JOIN, *sides, [0])] == [verdict]


def test_what_one_side_alone_has_feeds_and_counters(tmp_path):
    one = {"feed/0/x": singles(1, 2), "state/global_step": np.array(3), "act/0/ids": np.array([1, 2])}
    other = {
        "feed/0/x": singles(1, 2 + 2.0**-22),
        "act/0/ids": np.array([1, 2]),
        "grad/b": singles(1, 1),
        "grad/w": singles(1, 1),
    }
    found = judge_plain(JOIN, trace(tmp_path / "r", one), trace(tmp_path / "c", other), [0])
    assert [check.note for check in found if check.key in ("grad/b", "grad/w")] == [
        "the reference has no such tensor"
    ] * 2
    assert {check.key: check.verdict for check in found} == {
        "grad/b": "incomparable",
        "grad/w": "incomparable",
        "state/global_step": "not_run",
        "feed/0/x": "different",
        "act/0/ids": "same",
    }


@pytest.mark.parametrize("off", [0.0, 1.0, 1e30])
def test_an_update_from_a_start_that_is_not_finite_proves_nothing(tmp_path, off):
    check = judged(tmp_path, "var/w", init={"var/w": [np.inf, 0.0]})(off)
    assert (check.verdict, check.size) == ("incomparable", 3.0)
    assert check.difference == np.float32(off) and check.note == "what rounding does to it is not finite"


@pytest.mark.parametrize(("one", "other"), [(2.0, np.inf), (np.inf, 2.0), (2.0, np.nan), (np.nan, 2.0)])
def test_what_is_not_finite_after_an_update_on_one_side_is_different(tmp_path, one, other):
    starts = {"var/w": singles(1, 1)}
    sides = [trace(tmp_path / n, {"var/w": singles(1, v)}, init=starts) for n, v in (("r", one), ("c", other))]
    [check] = judge_plain(JOIN, *sides, [0])
    whose = "the candidate" if np.isfinite(one) else "the reference"
    assert (check.verdict, check.note) == ("different", f"values that are not finite in {whose}")


@pytest.mark.parametrize("key", ["var/w", "stat/w"])
@pytest.mark.parametrize("dtype", UNITS)
def test_starts_are_apart_beyond_what_a_first_step_is_allowed(tmp_path, key, dtype):
    allowed = 2.0**16 * UNITS[dtype] * 3.0
    reference = trace(tmp_path / "r", init={key: np.array([3.0, 0.0], dtype)})
    for off, apart in ((0.99 * allowed, []), (1.01 * allowed, ["w"]), (np.nan, ["w"])):
        candidate = trace(tmp_path / f"{off}", init={key: np.array([3.0, off], dtype)})
        assert starts_apart(JOIN, reference, candidate) == apart


def test_only_weights_and_statistics_start_apart(tmp_path):
    sides = [trace(tmp_path / name, init={"slot/m/w": singles(value, 1)}) for name, value in (("r", 1), ("c", 2))]
    assert starts_apart(JOIN, *sides) == []


def test_where_no_gradient_is_anything_but_zero_nothing_is_set_aside(tmp_path):
    beside = {"grad/w": np.zeros(2, np.float32)}
    assert judged(tmp_path, "var/w", beside=beside)(1.0).verdict == "different"


def test_each_step_is_told_once_it_is_judged(tmp_path):
    told = []
    sides = [trace(tmp_path / name, *[{"loss/0": singles(1, 2)}] * 3) for name in "rc"]
    found = judge_plain(JOIN, *sides, [0, 2], told.append)
    assert told == [1, 2] and [check.step for check in found] == [0, 2]


@pytest.mark.parametrize("start", [None, [2.0, 2.0], [np.inf, 2.0]])
def test_a_tensor_of_one_number_is_told_as_constant(tmp_path, start):
    init = {} if start is None else {"var/w": np.array(start, np.float32)}
    for number, values in enumerate(([3, 3], [3, 4])):
        sides = [trace(tmp_path / f"{name}{number}", {"var/w": singles(*values)}, init=init) for name in "rc"]
        assert [check.constant for check in judge_plain(JOIN, *sides, [0])] == [number == 0]


def test_weights_of_two_types_start_apart_by_what_the_coarser_one_rounds(tmp_path):
    sides = [
        trace(tmp_path / np.dtype(dtype).name, init={"var/w": np.array([3.0, off], dtype)})
        for dtype, off in ((np.float32, 0.0), (np.float64, 1e-6))
    ]
    assert starts_apart(JOIN, *sides) == starts_apart(JOIN, *sides[::-1]) == []


@pytest.mark.parametrize("before", [np.ones(7, np.float32), np.ones((2, 2), np.float32)])
def test_a_weight_of_another_shape_in_the_step_before_is_judged_by_its_size(tmp_path, before):
    one = {"var/w": np.array([3.0, 0.0], np.float32)}
    sides = [trace(tmp_path / side, one, init={"var/w": before}) for side in ("reference", "candidate")]
    assert [check.verdict for check in judge_plain(JOIN, *sides, [0])] == ["same"]


def test_weights_that_start_as_integers_on_one_side_start_from_others(tmp_path):
    starts = np.ones(2, np.float32), np.ones(2, np.int16)
    sides = [trace(tmp_path / str(start.dtype), {}, init={"var/w": start}) for start in starts]
    assert starts_apart(JOIN, *sides) == ["w"]
