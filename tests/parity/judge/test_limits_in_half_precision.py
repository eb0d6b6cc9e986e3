"""Where the limits of level 4 lie, beside what `tests/parity/judge/test_level4.py` has."""

import itertools

import numpy as np
import pytest
from made_pairs import assert_limit, trace

from parity.judge.levels.mixed import Halves, all_skipped, judge_mixed, judge_scale

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
TINIEST = {"float16": 2.0**-25, "bfloat16": 2.0**-134}


def doubles(*values):
    return np.array(values, np.float64)


def judged(tmp_path, key, size=3.0, draws=(), before=None, dtype="float16", opt_level="O1", state=None):
    """Returns a function of a difference to the check of a tensor of that norm that is off by so much in half precision."""
    count = itertools.count()

    def judge(off):
        folder = tmp_path / str(next(count))
        states = trace(folder / "states", before or {})
        full = trace(folder / "full", {key: doubles(size, 0.0)})
        mixed = trace(folder / "mixed", {key: doubles(size, off), **(state or {})})
        moved = [(trace(folder / f"d{n}", {key: doubles(size, each)}), states) for n, each in enumerate(draws)]
        [check] = judge_mixed(Halves(full, mixed, mixed, moved, states, dtype, opt_level))
        return check

    return judge


JUDGED = [
    "act/0/out",
    "loss/0",
    "metric/acc",
    "tower_grad/0/w",
    "grad/w",
    "clip/w",
    "slot/m/w",
    "stat/w",
    "var/w",
    "ema/w",
]


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("key", JUDGED)
def test_four_times_two_roundings_of_the_tensor_are_allowed(tmp_path, key, dtype):
    tiny = TINIEST[dtype] * 2**0.5
    assert_limit(judged(tmp_path, key, dtype=dtype), 4 * (2 * UNITS[dtype] * 3.0 + tiny))


def test_four_times_the_largest_of_the_draws_is_allowed(tmp_path):
    tiny = 2.0**-25 * 2**0.5
    assert_limit(judged(tmp_path, "grad/w", draws=(0.5, 0.25)), 4 * (0.5 + 2 * 2.0**-11 * 3.0 + tiny))


@pytest.mark.parametrize("key", ["var/w", "stat/w", "ema/w"])
@pytest.mark.parametrize("opt_level", ["O1", "O2", "O3"])
def test_what_is_updated_is_judged_by_its_update_and_at_o3_by_what_storing_it_costs(tmp_path, key, opt_level):
    before, tiny = {key: doubles(2.5, 0.0)}, 2.0**-25 * 2**0.5
    stored = 2 * 2.0**-11 * 2.5 if opt_level == "O3" else 0.0
    allowed = 4 * (2 * 2.0**-11 * 0.5 + tiny) + stored
    assert_limit(judged(tmp_path, key, before=before, opt_level=opt_level), allowed)


@pytest.mark.parametrize("dtype", UNITS)
def test_values_below_the_smallest_numbers_may_vanish(tmp_path, dtype):
    assert_limit(judged(tmp_path, "act/0/out", size=0.0, dtype=dtype), 4 * TINIEST[dtype] * 2**0.5)


@pytest.mark.parametrize(
    ("key", "scale"), [("grad/w", 1024.0), ("tower_grad/0/w", 1024.0), ("clip/w", 1024.0), ("act/0/out", 1.0)]
)
def test_of_gradients_they_are_smaller_by_the_loss_scale(tmp_path, key, scale):
    state = {"state/loss_scale": np.array(1024.0), "state/skipped": np.array(0.0)}
    assert_limit(judged(tmp_path, key, size=0.0, state=state), 4 * 2.0**-25 * 2**0.5 / scale)


@pytest.mark.parametrize("key", ["feed/0/x", "noise/0/x", "tower_clip/0/w", "state/global_step", "eval/train/out"])
def test_what_is_not_judged(tmp_path, key):
    one, other = (trace(tmp_path / name, {key: doubles(value)}) for name, value in (("full", 1.0), ("mixed", 2.0)))
    assert judge_mixed(Halves(one, other, other, [], one, "float16", "O1")) == []


def test_what_half_precision_lacks_or_breaks_is_told(tmp_path):
    full = trace(tmp_path / "full", {"loss/0": doubles(1.0, 2.0), "metric/acc": doubles(1.0, 2.0)})
    mixed = trace(tmp_path / "mixed", {"loss/0": doubles(1.0, np.nan)})
    found = judge_mixed(Halves(full, mixed, mixed, [], full, "float16", "O1"))
    assert {check.key: check.verdict for check in found} == {"loss/0": "different", "metric/acc": "incomparable"}


QUANTITIES = {
    "act/0/out": "same",
    "stat/w": "same",
    "loss/0": "same",
    "grad/w": "not_run",
    "clip/w": "not_run",
    "slot/m/w": "not_run",
    "var/w": "not_run",
    "ema/w": "not_run",
    "metric/acc": "same",
}


def test_of_a_skipped_step_nothing_behind_the_backward_pass_is_judged(tmp_path):
    tensors = {key: doubles(1.0, 2.0) for key in QUANTITIES}
    states = {"state/skipped": np.array(1.0), "state/loss_scale": np.array(65536.0)}
    full, mixed = trace(tmp_path / "full", tensors), trace(tmp_path / "mixed", {**tensors, **states})
    found = judge_mixed(Halves(full, mixed, mixed, [], full, "float16", "O1"))
    assert {check.key: check.verdict for check in found} == QUANTITIES


@pytest.mark.parametrize(("key", "told"), [("slot/m/w", True), ("var/w", True), ("stat/w", False), ("grad/w", False)])
def test_a_skipped_step_leaves_weights_and_slots_to_the_bit_as_they_were(tmp_path, key, told):
    states = {"state/skipped": np.array(1.0), "state/loss_scale": np.array(65536.0), "grad/b": doubles(np.inf)}
    start = {key: doubles(1.0, 2.0)}
    for name, moved, verdict in (("same", 0.0, "same"), ("moved", 2.0**-52, "different")):
        free = trace(tmp_path / name, {**states, key: doubles(1.0 + moved, 2.0)}, init=start)
        lockstep = trace(tmp_path / f"{name}-lockstep", states)
        found = judge_scale(Halves(lockstep, lockstep, free, [], lockstep, "float16", "O1"))
        assert [check.verdict for check in found if check.key == key] == ([verdict] if told else [])


def test_every_step_is_skipped_only_where_all_are(tmp_path):
    skipped, made = {"state/skipped": np.array(1.0)}, {"state/skipped": np.array(0.0)}
    assert all_skipped(trace(tmp_path / "a", skipped, skipped))
    assert not all_skipped(trace(tmp_path / "b", skipped, made)) and not all_skipped(trace(tmp_path / "c", {}))


def test_what_a_draw_moves_counts_from_the_weights_that_it_starts_from(tmp_path):
    start, rounded = {"var/w": doubles(2.0, 0.0)}, {"var/w": doubles(2.0, 0.25)}
    moved = [
        trace(tmp_path / name, {"var/w": each["var/w"] + [1.0, 0.125]}) for name, each in (("f", start), ("d", rounded))
    ]
    states = [trace(tmp_path / name, each) for name, each in (("s", start), ("t", rounded))]
    further = trace(tmp_path / "g", {"var/w": rounded["var/w"] + [1.0, 0.625]})
    for draws, predicted in (([(moved[1], states[1])], 0.0), ([(further, states[1]), (moved[1], states[1])], 0.5)):
        [check] = judge_mixed(Halves(moved[0], moved[0], moved[0], draws, states[0], "float16", "O1"))
        size = float(np.hypot(1.0, 0.125))
        assert check.allowed == pytest.approx(4 * (predicted + 2 * 2.0**-11 * size + 2.0**-25 * 2**0.5), rel=1e-12)


def test_tensors_are_judged_in_the_order_in_which_a_step_computes_them(tmp_path):
    names = ["grad/a", "grad/b", "var/a", "var/b", "act/0/a", "act/0/b", "loss/0"]
    full = trace(tmp_path / "full", {name: doubles(1.0, 2.0) for name in names})
    found = judge_mixed(Halves(full, full, full, [], full, "float16", "O1"))
    assert [check.key for check in found] == ["act/0/a", "act/0/b", "loss/0", "grad/b", "grad/a", "var/a", "var/b"]


def test_what_is_not_judged_of_a_skipped_step_is_off_by_nothing(tmp_path):
    states = {"state/skipped": np.array(1.0), "state/loss_scale": np.array(65536.0)}
    full, mixed = (trace(tmp_path / n, {"grad/w": doubles(v), **states}) for n, v in (("full", 1.0), ("mixed", np.inf)))
    [check] = judge_mixed(Halves(full, mixed, mixed, [], full, "float16", "O1"))
    assert (check.verdict, check.difference) == ("not_run", 0.0) and "the gradients overflowed" in check.note


@pytest.mark.parametrize(
    ("gradients", "scale", "skipped", "wrong"),
    [
        ({"grad/a": doubles(1.0), "grad/b": doubles(np.inf)}, 65536.0, 1.0, {}),
        ({"grad/a": doubles(np.nan), "grad/b": doubles(1.0)}, 65536.0, 1.0, {}),
        ({"grad/a": doubles(1.0)}, 65536.0, 0.0, {}),
        (
            {"grad/a": doubles(1.0)},
            32768.0,
            0.0,
            {"state/loss_scale": ("32768 where Apex's rule gives 65536", 32768.0)},
        ),
        ({"grad/a": doubles(1.0)}, 65536.0, 1.0, {"state/skipped": ("1 where Apex's rule gives 0", 1.0)}),
        ({"grad/a": doubles(np.inf)}, 65536.0, 0.0, {"state/skipped": ("0 where Apex's rule gives 1", 1.0)}),
    ],
)
def test_a_step_is_skipped_where_a_gradient_overflows_and_nowhere_else(tmp_path, gradients, scale, skipped, wrong):
    state = {"state/loss_scale": np.array(scale), "state/skipped": np.array(skipped)}
    mixed = trace(tmp_path / "mixed", {**gradients, **state})
    found = judge_scale(Halves(mixed, mixed, mixed, [], mixed, "float16", "O1"))
    told = {check.key: (check.note, check.difference) for check in found if check.verdict == "different"}
    assert told == wrong and len(found) == 4
    assert {(check.allowed, check.note) for check in found if check.verdict == "same"} == {(0.0, "")}


def test_how_far_a_skipped_step_moved_a_weight_is_told(tmp_path):
    state = {"state/skipped": np.array(1.0), "state/loss_scale": np.array(65536.0), "grad/w": doubles(np.inf)}
    free = trace(
        tmp_path / "f",
        {**state, "var/w": doubles(1.5), "var/b": doubles(1.0)},
        init={"var/w": doubles(1.0), "var/b": doubles(1.0)},
    )
    found = judge_scale(Halves(free, free, free, [], free, "float16", "O1"))
    told = {check.key: (check.verdict, check.difference, check.note) for check in found if check.key.startswith("var")}
    assert told == {"var/w": ("different", 0.5, "a skipped step moved it"), "var/b": ("same", 0.0, "")}
