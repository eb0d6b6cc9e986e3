"""Causes of what goes wrong in half precision, on numbers that are just inside and just outside each rule."""

import numpy as np
import pytest

from parity.diagnose.detectors.mixed_precision import find_mixed_causes
from parity.judge import Check, FirstDifference, Halves
from parity.trace import Trace, TraceWriter, parse_key

W = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
NEAR = W + np.float32(2.0**-12)  # no half


def trace(folder, steps):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({})
    for number, tensors in enumerate(steps):
        writer.step(number, {name: np.asarray(value, np.float32) for name, value in tensors.items()})
    writer.close()
    return Trace(folder)


def causes(tmp_path, key, full, mixed, states=({},), dtype="float16", opt_level="O2", run="lockstep", note=""):
    """Returns name and title of the causes of a first difference at `key`, steps being dicts of name to array."""
    made = [trace(tmp_path / name, steps) for name, steps in (("full", full), ("mixed", mixed), ("states", states))]
    halves = Halves(made[0], made[1], made[1], [], made[2], dtype, opt_level)
    parsed = parse_key(key)
    check = Check(run, 0, key, "different", 6.0, 2.0, 4.0, note=note)
    first = FirstDifference(check, parsed.quantity, parsed.name, parsed.tower, None)
    return find_mixed_causes(first, halves)


def named(found):
    return [(cause.name, cause.title) for cause in found]


@pytest.mark.parametrize(
    ("value", "words"), [(7e4, "reaches 70000, above float16's"), (6e4, "reaches 60000 itself; what leads to it")]
)
@pytest.mark.parametrize("key", ["act/0/out", "loss/0", "metric/acc"])
def test_a_value_beyond_the_largest_half_overflows(tmp_path, key, value, words):
    [cause] = causes(tmp_path, key, [{key: [1.0, value]}], [{key: [1.0, np.inf]}])
    assert (cause.name, cause.title) == ("overflow", f"{key} overflows in float16")
    assert words in cause.evidence and cause.evidence.startswith("1 of 2 values") and "65504" in cause.evidence


def test_what_is_finite_or_no_value_of_the_forward_pass_does_not_overflow(tmp_path):
    assert causes(tmp_path / "a", "act/0/out", [{"act/0/out": [1.0]}], [{"act/0/out": [2.0]}]) == []
    key = "ema/w"
    assert causes(tmp_path / "b", key, [{key: [1.0]}], [{key: [np.inf]}]) == []


def test_another_loss_scale_is_told_with_its_step(tmp_path):
    key, note = "state/loss_scale", "65536 where Apex's rule gives 32768"
    [cause] = causes(tmp_path, key, [{}], [{}], run="free", note=note)
    assert cause.name == "loss_scale_rule" and cause.evidence == f"{key} at step 0 of the free run is {note}"


@pytest.mark.parametrize(
    ("factor", "title"),
    [
        (1024.0, "the gradients still hold a loss scale of 1024"),
        (8.1, "the gradients still hold a loss scale of 8"),
        (7.9, None),
        (1.0, None),
        (-1024.0, "the gradients still hold a loss scale of 1"),
    ],
)
@pytest.mark.parametrize("key", ["tower_grad/0/w", "grad/w", "clip/w"])
def test_gradients_that_are_many_times_too_large_hold_a_loss_scale(tmp_path, key, factor, title):
    found = causes(tmp_path, key, [{key: W}], [{key: factor * W}])
    assert named(found) == ([("loss_scale_left", title)] if title else [])


@pytest.mark.parametrize(("noise", "is_named"), [(0.04, True), (0.07, False)])
def test_a_loss_scale_is_in_all_gradients_but_for_what_half_precision_rounds(tmp_path, noise, is_named):
    across = np.array([2.0, 1.0, 0.0, 0.0])  # at right angles to W
    other = 1024.0 * (W + noise * across * np.linalg.norm(W) / np.linalg.norm(across))
    found = causes(tmp_path, "grad/w", [{"grad/w": W}], [{"grad/w": other}])
    assert bool(found) is is_named


def test_gradients_that_overflowed_hold_nothing(tmp_path):
    assert causes(tmp_path, "grad/w", [{"grad/w": W}], [{"grad/w": [np.inf, 1, 1, 1]}]) == []


def clipped(limits, scales, skipped=(0.0, 0.0), factor=0.05):
    steps = []
    for limit, scale, left_out in zip(limits, scales, skipped, strict=True):
        after = limit / scale
        size = after / factor
        steps.append(
            {
                "grad/w": size * W / np.linalg.norm(W),
                "clip/w": after * W / np.linalg.norm(W),
                "state/loss_scale": scale,
                "state/skipped": left_out,
            }
        )
    return steps


@pytest.mark.parametrize(
    ("steps", "is_named"),
    [
        (clipped((1.0, 1.0), (1024.0, 512.0)), True),
        (clipped((1.0, 1.009), (1024.0, 512.0)), True),
        (clipped((1.0, 1.011), (1024.0, 512.0)), False),  # no limit
        (clipped((1.0, 1.0), (1024.0, 512.0), factor=0.099), True),
        (clipped((1.0, 1.0), (1024.0, 512.0), factor=0.11), False),  # hardly clipped
        (clipped((1.0, 1.0), (1024.0, 512.0), (0.0, 1.0)), False),  # one step alone
        (clipped((1.0,), (1024.0,), (0.0,)), False),
    ],
)
def test_a_limit_that_is_reached_times_the_loss_scale_clips_what_is_not_unscaled(tmp_path, steps, is_named):
    full = [{"clip/w": step["grad/w"]} for step in steps]
    found = causes(tmp_path, "clip/w", full, steps)
    assert [name for name, _ in named(found)] == ["loss_scale_in_clipping"] * is_named
    if is_named:
        assert "times the loss scale it is 1 at all 2 steps: the limit" in found[0].evidence


@pytest.mark.parametrize(
    ("mixed", "opt_level", "is_named"),
    [(W, "O2", True), (W, "O3", False), (NEAR, "O2", False), (0 * W, "O2", False)],
)
def test_statistics_that_are_halves_are_kept_in_half(tmp_path, mixed, opt_level, is_named):
    found = causes(tmp_path, "stat/m", [{"stat/m": NEAR}], [{"stat/m": mixed}], opt_level=opt_level)
    assert named(found) == [("batch_norm_in_half", "batch norm runs in float16: m is kept in it")] * is_named
    assert (
        not is_named
        or "all 4 values of stat/m fit float16 exactly after step 0, of the float32 run's 0%" in found[0].evidence
    )


@pytest.mark.parametrize(
    ("full", "mixed", "opt_level", "names", "words"),
    [
        (NEAR, W, "O2", ["master_weights"], "stays as it was to the bit at step 0, float32 moves 4 values"),
        (NEAR, [1.0, -1.0, 0.5, 3.0], "O1", ["master_weights"], "fit float16 exactly after step 0; 75% of the values"),
        (NEAR, NEAR + 1, "O2", [], ""),
        (NEAR, W, "O3", ["half_optimizer"], "var/w is 3 times what storing it in float16 explains"),
    ],
)
def test_weights_that_stay_or_are_halves_have_no_masters(tmp_path, full, mixed, opt_level, names, words):
    found = causes(tmp_path, "var/w", [{"var/w": full}], [{"var/w": mixed}], [{"var/w": W}], opt_level=opt_level)
    assert [cause.name for cause in found] == names
    assert not found or words in found[0].evidence


def test_a_slot_at_o3_is_half_and_a_gradient_is_not_the_optimizers(tmp_path):
    for key, names in (("slot/m/w", ["half_optimizer"]), ("grad/w", [])):
        found = causes(tmp_path / key, key, [{key: W}], [{key: 2 * W}], opt_level="O3")
        assert [cause.name for cause in found] == names


@pytest.mark.parametrize(("skipped", "is_named"), [((1.0, 1.0), True), ((1.0, 0.0), False)])
def test_where_every_step_is_skipped_the_gradients_overflow_at_every_scale(tmp_path, skipped, is_named):
    steps = [{"state/skipped": each, "state/loss_scale": 8.0 / (1 + n)} for n, each in enumerate(skipped)]
    mixed = trace(tmp_path, steps)
    found = find_mixed_causes(None, Halves(mixed, mixed, mixed, [], mixed, "float16", "O2"))
    assert named(found) == [("overflow", "the gradients overflow at every loss scale")] * is_named
    assert not is_named or "all 2 steps were skipped, the last one at a scale of 4" in found[0].evidence
