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
