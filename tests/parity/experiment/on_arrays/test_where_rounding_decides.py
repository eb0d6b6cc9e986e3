"""Ties, structurally zero gradients and rounded hyper-parameters, live and by a golden trace: what runs and what is said."""

import shutil

import numpy as np
import pytest
from support.made_sides import CASE, Habits, made_case, made_sides

from parity.experiment import run_case
from parity.experiment.rejudge.ill_conditioned import ZERO_GRADIENT_NOTE
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE, WITH_INPUTS
from parity.experiment.sides.golden_side import keep_golden
from parity.trace import Trace

OTHERWISE = Habits(backwards=True, last_of_equal=True)
OWN = CASE.replace('loss = "model_torch:loss"\n', 'loss = "model_torch:loss"\noptimizer = "model_torch:optimizer"\n')
ADAM = CASE.replace('"momentum"\nlearning_rate = 0.1\nmomentum = 0.9', '"adam"\nlearning_rate = 0.1')
ADAM = ADAM.replace("batch_size = 8", "batch_size = 64")
TIES = {
    "beside": (Habits(columns=True), NON_DIFFERENTIABLE_NOTE),
    "inputs-beside": (Habits(zeros=True), WITH_INPUTS),
}


def judged(folder, tf=None, torch=None, text=CASE, levels=("function",), **more):
    sides = made_sides(folder, tf, torch)
    return sides, run_case(made_case(folder / "case", text), sides, levels, folder / "out", **more)


def golden(folder, text=CASE):
    """Keeps what was recorded of a case below a folder."""
    keep_golden(made_case(folder / "case", text), folder / "out", folder / "golden")
    return {path.name for path in (folder / "golden" / "runs").iterdir()}


def judged_by_golden(folder, torch, text=CASE):
    sides = made_sides(folder, None, torch)
    sides.tf = sides.data = None
    case = made_case(folder / "case", text)
    return sides, run_case(case, sides, ("function",), folder / "again", golden=folder / "golden")


def noted(result, note):
    return {(check.run, check.step) for check in result.levels["function"].checks if check.note == note}


@pytest.mark.parametrize("moved", TIES)
def test_a_tie_that_a_port_breaks_otherwise_is_judged_where_both_sides_were_moved_alike(tmp_path, moved):
    reference, note = TIES[moved]
    sides, result = judged(tmp_path, reference, OTHERWISE)
    assert result.verdict == "same"
    assert noted(result, note) == {("lockstep", 0)}
    for side in (sides.tf, sides.torch):
        alone, every = side.runs[f"{moved}-0"], side.runs[moved]
        # The first step by itself comes first, for it is the cheapest answer; its counters are the states'.
        assert list(side.runs).index(f"{moved}-0") < list(side.runs).index(moved)
        assert (list(alone["steps"]), alone["recorded_counters"], "eval" in alone["quantities"]) == ([0], True, False)
        assert (list(every["steps"]), every["recorded_counters"], "eval" in every["quantities"]) == (
            [0, 1, 2, 3],
            False,
            True,
        )
    # The control: the port once more from where nobody moved anything.
    control = sides.torch.runs["once-more"]
    assert control["follow"] == str(tmp_path / "out" / "states" / "torch")
    assert control["quantities"] == sides.torch.runs["float64"]["quantities"]
    assert list(control["steps"]) == [0, 1, 2, 3]
    assert not [name for name in sides.tf.runs if name.startswith("free-")]


@pytest.mark.parametrize("moved", TIES)
def test_both_sides_are_moved_by_the_same_numbers_and_inputs_only_where_weights_do_not_help(tmp_path, moved):
    sides, _ = judged(tmp_path, TIES[moved][0], OTHERWISE)
    for name in (moved, f"{moved}-0"):
        (one, fed), (other, other_fed) = sides.tf.began[name], sides.torch.began[name]
        still, fed_still = sides.tf.began["float64"]
        np.testing.assert_array_equal(other["var/dense.weight"].T, one["var/dense/kernel"])
        np.testing.assert_array_equal(other["var/dense.bias"], one["var/dense/bias"])
        assert (one["var/dense/kernel"] != still["var/dense/kernel"]).all()
        np.testing.assert_allclose(one["var/dense/kernel"], still["var/dense/kernel"], rtol=2.0**-29)
        np.testing.assert_array_equal(other_fed["feed/x"], fed["feed/x"])
        assert (fed["feed/x"] != fed_still["feed/x"]).all() == (moved == "inputs-beside")
        assert (fed["feed/x"] == fed_still["feed/x"]).all() == (moved == "beside")


def test_a_bug_beside_a_tie_stays_different_and_costs_one_step(tmp_path):
    sides, result = judged(tmp_path, Habits(columns=True), Habits(backwards=True, last_of_equal=True, loss=1.001))
    assert result.verdict == "different"
    assert noted(result, NON_DIFFERENTIABLE_NOTE) == noted(result, WITH_INPUTS) == set()
    assert "beside-0" in sides.torch.runs and "beside" not in sides.torch.runs


def test_a_port_that_does_not_repeat_itself_has_no_tie(tmp_path):
    _, result = judged(tmp_path, None, Habits(backwards=True, wandering=1e-6))
    assert result.verdict == "different"
    assert noted(result, NON_DIFFERENTIABLE_NOTE) == set()


@pytest.mark.parametrize("moved", TIES)
def test_a_golden_trace_keeps_the_moves_that_its_own_steps_need(tmp_path, moved):
    reference, note = TIES[moved]
    sides, _ = judged(tmp_path, reference, blessing=True)
    kept = golden(tmp_path)
    wanted = {moved, f"free-{moved}", *(f"free-{moved}-replica-{number}" for number in range(3))}
    assert wanted <= kept
    # Weights that move leave the zeros of the inputs' case where they are.
    assert ("beside" in kept) == (moved == "beside")
    assert {"empty", "forward"} <= kept and not {name for name in kept if name.endswith("-back") or name == "again"}
    (there, fed), (back, fed_back) = sides.tf.began[moved], sides.tf.began[f"{moved}-back"]
    (still, fed_still) = sides.tf.began["float64"]
    for one, other, between in ((there, back, still), (fed, fed_back, fed_still)):
        for text, value in between.items():
            if not text.startswith("state"):
                np.testing.assert_allclose(one[text] - value, value - other[text], atol=1e-15)
    for name in (moved, f"{moved}-back", f"free-{moved}"):
        asked = sides.tf.runs[name]
        assert list(asked["steps"]) == [0, 1, 2, 3] and "eval" in asked["quantities"]
        assert (asked["follow"] is None) == name.startswith("free")
    assert ("act" in sides.tf.runs[moved]["quantities"], "act" in sides.tf.runs[f"free-{moved}"]["quantities"]) == (
        True,
        False,
    )
    again, result = judged_by_golden(tmp_path, OTHERWISE)
    assert (result.verdict, noted(result, note)) == ("same", {("lockstep", 0)})
    np.testing.assert_array_equal(again.torch.began[moved][0]["var/dense.weight"].T, there["var/dense/kernel"])


def test_without_a_tie_a_golden_trace_keeps_no_moved_runs(tmp_path):
    sides, _ = judged(tmp_path, blessing=True)
    kept = golden(tmp_path)
    assert not {name for name in kept if "beside" in name}
    assert {"beside", "beside-back", "inputs-beside", "inputs-beside-back"} <= set(sides.tf.runs)
    assert not [name for name in sides.tf.runs if name.startswith("free-")]
    [passed] = [asked for request, asked in sides.tf.asked if request == "forward"]
    assert (passed["step"], passed["tower"], passed["gradients"], passed["most"]) == (0, "0", False, 2**24)


def test_a_golden_trace_that_lacks_a_moved_run_says_that_right_ports_may_be_called_different(tmp_path):
    judged(tmp_path, Habits(columns=True), blessing=True)
    golden(tmp_path)
    _, plain = judged_by_golden(tmp_path, OTHERWISE)
    for name in ("free-beside-replica-2", "inputs-beside", "empty"):
        shutil.rmtree(tmp_path / "golden" / "runs" / name)
    _, result = judged_by_golden(tmp_path, OTHERWISE)
    assert [any("Bless the case again" in note for note in each.notes) for each in (plain, result)] == [False, True]
    # One run less, and the whole move cannot be had.
    assert result.verdict == "different"


# Distances of the reference's bias under rounding in four steps, 7e-11, 4e-11, 1.5e-11 and 7e-11, of which 64 times is
# allowed beside 3.3e-9, 2.0e-9, 1.9e-9 and 1.5e-9.
@pytest.mark.parametrize(
    ("nudge", "verdict", "steps"), [(0.0, "same", set()), (1.9e-9, "same", {1, 2, 3}), (4e-9, "different", {0, 3})]
)
def test_updates_by_structurally_zero_gradients_may_move_as_far_as_rounding_moves_them(tmp_path, nudge, verdict, steps):
    port = Habits(centred=True, backwards=True, nudge=nudge)
    sides, result = judged(tmp_path, Habits(centred=True), port, ADAM, blessing=True)
    found = result.levels["function"]
    assert (result.verdict, {step for _, step in noted(result, ZERO_GRADIENT_NOTE)}) == (verdict, steps)
    assert [note for note in found.notes if "structurally zero" in note] == (
        [f"var/dense/bias: {ZERO_GRADIENT_NOTE}"] if steps else []
    )
    golden(tmp_path, ADAM)
    _, by_golden = judged_by_golden(tmp_path, port, ADAM)
    assert (by_golden.verdict, noted(by_golden, ZERO_GRADIENT_NOTE)) == (verdict, noted(result, ZERO_GRADIENT_NOTE))
    drawn = [sides.tf.runs[f"empty-{draw}"] for draw in range(3)]
    for draw, asked in enumerate(drawn):
        assert (asked["precision"], asked["recorded_counters"], set(asked["quantities"])) == (
            "float64",
            True,
            {"slot", "var", "ema", "grad", "tower_grad", "clip", "tower_clip"},
        )
        told = [
            (each["kind"], each["quantity"], each["seed"], each["seed_per_step"]) for each in asked["perturbations"]
        ]
        assert told == [("ulp", "var", draw, 3), ("ulp", "feed", draw, 3), ("sample_order", "feed", draw, 3)]
        # An ulp of the bias itself would be far more than what rounding makes of its update.
        assert asked["perturbations"][0]["but"] == ("dense/bias",)
    assert "empty-3" not in sides.tf.runs


# Of the first twelve seeds these are four of the six in which float32 makes a gradient 0 on both sides and float64 does not.
@pytest.mark.parametrize("seed", [3, 4, 6, 8])
def test_a_gradient_that_float32_cancels_on_both_sides_is_no_difference(tmp_path, seed):
    text = ADAM.replace("batch_size = 64", f"batch_size = 6\nseed = {seed}")
    port = Habits(centred=True, backwards=True)
    _, result = judged(tmp_path, Habits(centred=True), port, text, blessing=True)
    assert result.verdict == "same" and noted(result, ZERO_GRADIENT_NOTE)
    golden(tmp_path, text)
    _, by_golden = judged_by_golden(tmp_path, port, text)
    assert by_golden.verdict == "same"
    assert noted(by_golden, ZERO_GRADIENT_NOTE) == noted(result, ZERO_GRADIENT_NOTE)


def test_what_rounding_does_to_empty_gradients_is_kept_as_one_number_a_tensor(tmp_path):
    judged(tmp_path, Habits(centred=True), Habits(centred=True, backwards=True), ADAM, blessing=True)
    golden(tmp_path, ADAM)
    runs = tmp_path / "golden" / "runs"
    empty, exact = Trace(runs / "empty"), Trace(runs / "float64")
    drawn = [Trace(tmp_path / "out" / "tf" / f"empty-{draw}") for draw in range(3)]
    assert list(empty.step_numbers) == [0, 1, 2, 3]
    for step in range(4):
        kinds = ("slot/m", "slot/v", "var", "grad", "tower_grad/0", "tower_grad/1")
        assert set(empty.step(step).names()) == {f"{what}/dense/bias" for what in kinds}
        for text in empty.step(step).names():
            apart = [np.linalg.norm(each.step(step).read(text) - exact.step(step).read(text)) for each in drawn]
            assert empty.step(step).read(text) == pytest.approx(max(apart))


@pytest.mark.parametrize("levels", [("function",), ("function", "float32")])
def test_a_port_whose_hyper_parameters_are_doubles_is_recorded_once_more_with_rounded_ones(tmp_path, levels):
    sides, result = judged(tmp_path, None, Habits(double_rate=True, backwards=True), OWN, levels)
    [note] = [note for note in result.levels["function"].notes if note.startswith("up to float32 hyper-parameters: ")]
    assert "differences of 9e-09 of the scale (first in var/dense/kernel)" in note
    assert result.verdict == "same"
    prepared = [
        (asked["precision"], asked["round_hyper_parameters"]) for what, asked in sides.torch.asked if what == "prepare"
    ]
    assert prepared == [("float32", False), ("float64", False), ("float64", True), ("float32", True)]
    again = tmp_path / "out" / "torch-rounded"
    assert {path.name for path in again.iterdir()} == {"free", "float64", "float32", "again"}


def test_a_rate_that_is_off_by_more_than_rounding_is_not_set_aside(tmp_path):
    port = Habits(double_rate=True, rate=1.0001, backwards=True)
    _, result = judged(tmp_path, None, port, OWN)
    assert result.verdict == "different" and not result.levels["function"].notes
    assert result.causes[0].name == "learning_rate"
