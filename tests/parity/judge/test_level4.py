import numpy as np
import pytest

from parity.diagnose.detectors.mixed_precision import _share_that_fits
from parity.judge.levels.mixed import Halves, judge_mixed, judge_scale, scales
from parity.trace import Trace, TraceWriter
from torch_ddp.amp.loss_scaler import LossScaler

SEED = 7


@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-2, 0.5])  # without overflow the scale reaches its largest value
def test_the_scales_are_those_of_amp(rate):
    overflows = np.random.default_rng(SEED).random(20_000) < rate
    scaler, found = LossScaler(), []
    for overflowed in overflows:
        found.append(scaler.loss_scale)
        scaler.update(bool(overflowed))
    assert scales(list(overflows)) == found


def trace(folder, **steps):
    writer = TraceWriter(folder, {"package": "test"})
    writer.init({"var/w": np.zeros(4, np.float32)})
    for number, tensors in enumerate(steps.values()):
        arrays = {"grad/w": np.ones(4), "loss/0": np.array(1.0), "var/w": np.zeros(4), **tensors}
        writer.step(number, {name.replace("__", "/"): np.asarray(value, np.float32) for name, value in arrays.items()})
    writer.close()
    return Trace(folder)


def halves(tmp_path, full, mixed, free=None, draws=(), opt_level="O2", dtype="float16"):
    states = trace(tmp_path / "states", a={}, b={})
    pairs = [(trace(tmp_path / f"draw{number}", **draw), states) for number, draw in enumerate(draws)]
    mixed = trace(tmp_path / "mixed", **mixed)
    free = trace(tmp_path / "free", **free) if free else mixed
    return Halves(trace(tmp_path / "full", **full), mixed, free, pairs, states, dtype, opt_level)


def verdicts(checks):
    return {(check.step, check.key): check.verdict for check in checks}


@pytest.mark.parametrize(("off", "verdict"), [(7e-4, "same"), (5e-3, "different")])
def test_without_spread_a_few_roundings_are_allowed(tmp_path, off, verdict):
    found = halves(tmp_path, {"a": {}}, {"a": {"loss__0": 1.0 + off}})
    assert verdicts(judge_mixed(found))[0, "loss/0"] == verdict


def test_what_a_draw_moves_is_allowed_four_times(tmp_path):
    for name, off, verdict in (("near", 0.35, "same"), ("far", 0.45, "different")):
        found = halves(tmp_path / name, {"a": {}}, {"a": {"loss__0": 1.0 + off}}, draws=[{"a": {"loss__0": 1.1}}])
        assert verdicts(judge_mixed(found))[0, "loss/0"] == verdict


def test_weights_are_judged_by_their_update_but_for_what_o3_stores(tmp_path):
    writer = TraceWriter(tmp_path / "large", {"package": "test"})
    writer.init({})
    writer.step(0, {"var/w": np.full(4, 1000.0, np.float32)})
    writer.close()
    moved, rounded = {"a": {"var__w": np.full(4, 1000.25)}}, {"a": {"var__w": np.full(4, 1000.0)}}
    for level, verdict in (("O2", "different"), ("O3", "same")):
        found = halves(tmp_path / level, moved, rounded, opt_level=level)._replace(states=Trace(tmp_path / "large"))
        assert verdicts(judge_mixed(found))[0, "var/w"] == verdict


def test_a_skipped_step_is_judged_by_its_forward_pass_alone(tmp_path):
    skipped = {"state__skipped": 1.0, "state__loss_scale": 65536.0, "grad__w": np.full(4, np.inf)}
    found = verdicts(judge_mixed(halves(tmp_path, {"a": {}}, {"a": skipped})))
    assert found == {(0, "loss/0"): "same", (0, "grad/w"): "not_run", (0, "var/w"): "not_run"}


def test_the_loss_scale_and_what_a_skipped_step_leaves_are_judged_in_the_free_run(tmp_path):
    overflow = {"state__skipped": 1.0, "state__loss_scale": 65536.0, "grad__w": np.full(4, np.inf)}
    clean = {"state__skipped": 0.0, "state__loss_scale": 32768.0}
    right = halves(tmp_path / "right", {"a": {}, "b": {}}, {"a": overflow, "b": clean})
    assert {check.verdict for check in judge_scale(right)} == {"same"}
    wrong = {"a": {**overflow, "var__w": np.ones(4)}, "b": {**clean, "state__loss_scale": 65536.0}}
    found = judge_scale(halves(tmp_path / "wrong", {"a": {}, "b": {}}, {"a": overflow, "b": clean}, wrong))
    bad = {(check.run, check.step, check.key): check.note for check in found if check.verdict == "different"}
    assert bad == {
        ("free", 1, "state/loss_scale"): "65536 where Apex's rule gives 32768",
        ("free", 0, "var/w"): "a skipped step moved it",
    }


def test_a_gradient_of_which_one_element_overflows_has_the_step_skipped(tmp_path):
    overflow = {"state__skipped": 1.0, "state__loss_scale": 65536.0, "grad__w": np.array([1.0, 1.0, np.inf, 1.0])}
    found = judge_scale(halves(tmp_path, {"a": {}}, {"a": overflow}))
    assert found and {check.verdict for check in found} == {"same"}


def test_a_slot_that_the_first_step_makes_is_none_that_a_skipped_step_moves(tmp_path):
    skipped = {"state__skipped": 1.0, "state__loss_scale": 65536.0, "grad__w": np.full(4, np.inf)}
    found = judge_scale(halves(tmp_path, {"a": {}}, {"a": {**skipped, "slot__m__w": np.ones(4)}}))
    assert [check.key for check in found if check.key.startswith(("slot", "var"))] == ["var/w"]


@pytest.mark.parametrize(
    ("one", "other", "verdict", "note"),
    [
        (1.0, np.inf, "different", "values that are not finite in the candidate"),
        (np.nan, 1.0, "different", "values that are not finite in the reference"),
        (np.inf, np.inf, "incomparable", "1 of 1 values are not finite, on both sides"),
    ],
)
def test_what_is_not_finite_though_no_step_was_skipped_is_told_by_its_side(tmp_path, one, other, verdict, note):
    found = judge_mixed(halves(tmp_path, {"a": {"loss__0": one}}, {"a": {"loss__0": other}}))
    assert [(check.verdict, check.note) for check in found if check.key == "loss/0"] == [(verdict, note)]


def test_a_constant_loss_scale_is_no_matter_of_the_rule(tmp_path):
    assert judge_scale(halves(tmp_path, {"a": {}}, {"a": {}})) == []


@pytest.mark.parametrize(("dtype", "fits"), [("float16", 1.0), ("bfloat16", 0.5)])
def test_what_fits_a_half_type_is_told_by_its_bits(dtype, fits):
    values = np.array([1.0, 1.0 + 2.0**-10, -0.75, 3.0 + 2.0**-9], np.float32)
    assert _share_that_fits(values, dtype) == fits
    assert _share_that_fits(np.float32([0.1, 1 / 3]), dtype) == 0.0
