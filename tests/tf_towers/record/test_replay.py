"""Recorded scripts replayed on their torch ports under DDP: right ports are the same, planted bugs are found and named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from parity.cli import main
from parity.experiment.replay.script import parts_of
from parity.experiment.replay.session import Port, replay
from parity.report.html.page import as_html
from parity.report.markdown import as_markdown
from parity.trace import Trace, TraceError, TraceWriter

from .conftest import PORTS, SCRIPTS, run_recorded

STEPS = range(4)
ONLY_TF1 = {"clones"}  # TensorFlow 2 has no contrib
OPTIMIZERS = {
    "hand_written_adam": "optimizer",
    "monitored": "optimizer",
    "ungated": "optimizer",
    "nesterov": "optimizer",
}
LOSSES = {"two_optimizers": ("DAdam=d_loss", "GAdam=g_loss")}
PORTED = (
    "split_sum",
    "monitored",
    "two_optimizers",
    "recurrent",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "placeholder_slices",
            "queue_fed",
            "hand_written_adam",
            "clones",
            "ungated",
            "dropout_wrapper",
            "resource_loop",
            "nesterov",
        )
    ),
)


def skip_where_it_cannot_run(request, name):
    if name in ONLY_TF1 and "tf2" in request.node.name:
        pytest.skip(f"{name} uses tf.contrib, which only TensorFlow 1.15 has: run the tf1 leg")


@pytest.mark.parametrize("name", PORTED)
def test_a_recorded_script_and_its_port_are_the_same_at_levels_1_and_2(request, recorded, replayed, name):
    skip_where_it_cannot_run(request, name)
    code, result = replayed(recorded(name).out, name, *LOSSES.get(name, ("loss",)), optimizer=OPTIMIZERS.get(name))
    assert code == 0, result["first_difference"]
    assert result["levels"]["function"]["verdict"] == "same"
    assert result["levels"]["float32"]["verdict"] == "same"
    judged = {check["key"] for check in result["checks"]}
    freely = {check["key"] for check in result["checks"] if check["run"] == "free"}
    parts = {"two_optimizers": ("section/DAdam/", "section/GAdam/")}.get(name, ("",))
    for prefix in parts:
        for quantity in ("feed/1/", "loss/1", "tower_grad/1/", "grad/", "var/"):
            assert any(each.startswith(prefix + quantity) for each in judged), prefix + quantity
        for quantity in ("loss/1", "grad/", "var/"):
            assert any(each.startswith(prefix + quantity) for each in freely), prefix + quantity
    if name != "queue_fed":  # plain gradient descent keeps no slot
        assert any("slot/" in each for each in judged)


@pytest.mark.parametrize(
    ("name", "losses", "optimizer", "first", "cause"),
    [
        pytest.param("placeholder_slices", ("wrong_loss",), None, "loss", "loss_reduction", marks=pytest.mark.slow),
        ("split_sum", ("loss_with_half_the_decay",), None, "loss", "weight_decay"),
        pytest.param("queue_fed", ("loss_without_decay",), None, "loss", "weight_decay", marks=pytest.mark.slow),
        ("monitored", ("loss",), "optimizer_without_clipping", "clip", "clipping"),
        pytest.param(
            "two_optimizers",
            ("DAdam=d_loss", "GAdam=doubled_g_loss"),
            None,
            "loss",
            "gradient_factor",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "hand_written_adam", ("loss",), "optimizer_with_another_beta", "slot", "adam_beta", marks=pytest.mark.slow
        ),
        pytest.param(
            "clones", ("loss_with_decay_in_every_rank",), None, "loss", "weight_decay", marks=pytest.mark.slow
        ),
        pytest.param("recurrent", ("sum_instead_of_mean",), None, "loss", "loss_reduction", marks=pytest.mark.slow),
        pytest.param("dropout_wrapper", ("summed",), None, "loss", "loss_reduction", marks=pytest.mark.slow),
        pytest.param("resource_loop", ("summed",), None, "loss", "loss_reduction", marks=pytest.mark.slow),
        # The script adds its sparse gradients up and averages the others: what DDP does not do by itself is found.
        pytest.param("ungated", ("loss",), None, "grad", "sum_instead_of_mean", marks=pytest.mark.slow),
        pytest.param(
            "ungated", ("loss",), "optimizer_that_sums_all", "grad", "sum_instead_of_mean", marks=pytest.mark.slow
        ),
        # Slots are empty in the first step, where the update is off by one factor: no learning rate has it in the second.
        ("nesterov", ("loss",), "optimizer_that_does_not_look_ahead", "var", "nesterov"),
    ],
)
def test_a_bug_in_a_port_is_found_and_named(request, recorded, replayed, name, losses, optimizer, first, cause):
    skip_where_it_cannot_run(request, name)
    code, result = replayed(recorded(name).out, name, *losses, optimizer=optimizer)
    assert code == 1
    function = result["levels"]["function"]
    assert function["verdict"] == "different"
    assert f"{first}/" in function["first_difference"]["key"] or function["first_difference"]["quantity"] == first
    assert function["causes"][0]["name"] == cause


def test_the_layer_of_a_bug_in_the_forward_pass_is_found_by_the_pass_that_the_shadow_has(recorded, replayed):
    code, result = replayed(recorded("placeholder_slices").out, "placeholder_slices", "loss", model="Leaky")
    function = result["levels"]["function"]
    first = function["first_difference"]
    assert (code, first["key"]) == (1, "act/0/net/b1/Relu")
    assert (
        "in the port outside of any module (leaky_relu), before out; its inputs and weights are the same"
        in first["where"]
    )
    assert function["causes"][0]["title"].startswith(
        "net/b1/Relu goes through leaky ReLU of slope 0.01 in the candidate"
    )


def test_a_bug_that_no_step_alone_shows_is_found_where_nobody_resets_the_port(recorded, replayed):
    trace = recorded("placeholder_slices").out
    code, result = replayed(trace, "placeholder_slices", "loss", optimizer="optimizer_that_has_counted")
    assert code == 1
    function = result["levels"]["function"]
    assert {check["run"] for check in result["checks"] if check["verdict"] == "different"} == {"free"}
    assert (function["first_difference"]["step"], function["first_difference"]["quantity"]) == (0, "var")
    assert [cause["name"] for cause in function["causes"]] == ["step_count"]
    assert (
        "beta1_power is 0.810000002 before the candidate's first step, 0.899999976" in function["causes"][0]["evidence"]
    )
    assert any(note.startswith("each step alone, from the recorded state, is the same") for note in function["notes"])
    assert result["levels"]["float32"]["verdict"] == "same"


@pytest.mark.slow
def test_a_port_may_clip_inside_its_optimizers_step(recorded, replayed):
    code, result = replayed(
        recorded("monitored").out, "monitored", "loss", optimizer="optimizer_that_clips_in_its_step"
    )
    assert code == 0, result["first_difference"]
    assert any(check["key"].startswith("clip/") for check in result["checks"])


@pytest.mark.slow
def test_hyper_parameters_in_float64_are_a_fact_and_no_bug(recorded, replayed):
    code, result = replayed(recorded("queue_fed").out, "queue_fed", "loss", optimizer="native_optimizer")
    assert code == 0, result["first_difference"]
    note = next(note for note in result["levels"]["function"]["notes"] if note.startswith("up to float32"))
    assert "the port does not, which alone makes differences of" in note
    assert "(first in var/softmax_linear/weights)" in note


@pytest.mark.slow
def test_another_learning_rate_is_no_rounding(recorded, replayed):
    port = "native_optimizer_with_another_rate"
    code, result = replayed(recorded("queue_fed").out, "queue_fed", "loss", optimizer=port)
    assert code == 1
    assert result["levels"]["function"]["causes"][0]["name"] == "learning_rate"


@pytest.mark.slow
def test_losses_and_histograms_are_kept_for_reports_that_show_them(recorded, monkeypatch, tmp_path):
    monkeypatch.chdir(PORTS)
    losses = {"DAdam": "two_optimizers_torch:d_loss", "GAdam": "two_optimizers_torch:doubled_g_loss"}
    told = []
    port = Port("two_optimizers_torch:Model", losses, {}, [str(PORTS)], 120.0)
    trace = recorded("two_optimizers").out
    tick = lambda what, done, total: told.append((what, done, total))  # noqa: E731
    result = replay(trace, port, PORTS / "two_optimizers.toml", tmp_path, tick, in_detail=True)
    assert {(each.level, each.run, each.section) for each in result.losses} == {
        (level, run, section)
        for level, run in (("function", "free"), ("float32", "lockstep"))
        for section in ("DAdam", "GAdam")
    }
    known = {
        (level.name, check.run, check.step, check.key) for level in result.levels.values() for check in level.checks
    }
    assert {(each.level, each.run, each.step, each.key) for each in result.closer} <= known
    assert any(each.key == "section/GAdam/loss/0" and each.worst for each in result.closer)
    for shown in (as_html(result, "two"), as_markdown(result, "two")):
        assert "inference was not judged, for training steps hold none of it" in " ".join(shown.split())
        assert "a replay decides levels 1 and 2: this one needs a case" in " ".join(shown.split())
    page = as_html(result, "two")
    assert "level 1 function, free run, GAdam" in page
    for part in ("DAdam", "GAdam"):
        for run in ("float32", "float64", "free"):
            assert (f"torch {part} {run}", 2, 2) in told


@pytest.mark.slow
def test_what_an_optimizer_begins_with_is_not_judged_where_the_recording_starts_later(tf_python, replayed, tmp_path):
    script = SCRIPTS / "placeholder_slices.py"
    trace = run_recorded(tf_python, script, options=("--skip", "2"), cwd=tmp_path).out
    code, result = replayed(trace, "placeholder_slices", "loss", optimizer="optimizer_that_has_counted")
    assert code == 0
    assert any(check["run"] == "free" and check["key"] == "var/net/w1" for check in result["checks"])
    (note,) = [note for note in result["levels"]["function"]["notes"] if note.startswith("in lockstep")]
    assert note.endswith("what the port's optimizer begins with was not judged")


@pytest.mark.slow
def test_a_free_run_that_ends_elsewhere_is_found(recorded, replayed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(recorded("split_sum").out, copy)
    _change(copy / "shadow" / "free", 2, "var/model/fc/weights", 1e-12)
    code, result = replayed(copy, "split_sum", "loss")
    assert code == 1
    wrong = {(check["run"], check["key"]) for check in result["checks"] if check["verdict"] == "different"}
    assert wrong == {("free", "var/model/fc/weights")}


def _change(folder: Path, number: int, name: str, part: float) -> None:
    """Multiplies one tensor of a step of a trace."""
    trace = Trace(folder)
    steps = {each: {text: trace.step(each).read(text).copy() for text in trace.step(each).names()} for each in STEPS}
    steps[number][name] *= 1 + part
    start = {text: trace.init().read(text).copy() for text in trace.init().names()}
    writer = TraceWriter(folder, trace.producer, trace.facts, trace.variables)
    writer.init(start)
    for each, tensors in steps.items():
        writer.step(each, tensors)
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "its float64 shadow has none: make it again with python -m tf_towers.shadow, where TensorFlow is"),
        ({"free": "the script writes variables between its steps"}, "the script writes variables between its steps"),
    ],
)
def test_a_shadow_without_a_free_run_is_judged_in_lockstep_and_the_report_says_so(
    recorded, replayed, tmp_path, told, said
):
    copy = tmp_path / "copy"
    shutil.copytree(recorded("placeholder_slices").out, copy)
    shutil.rmtree(copy / "shadow" / "free")
    (copy / "shadow.json").write_text(json.dumps({"made": True, "reason": "", **told}))
    code, result = replayed(copy, "placeholder_slices", "loss")
    assert code == 0
    assert not any(check["run"] == "free" and "slot" in check["key"] for check in result["checks"])
    assert f"no free run, only lockstep: {said}" in result["levels"]["function"]["notes"]


def test_what_a_replay_does_not_judge_is_said(recorded, replayed):
    _, result = replayed(recorded("placeholder_slices").out, "placeholder_slices", "loss")
    assert any(
        note.startswith("inference was not judged, for training steps hold none of it") for note in result["notes"]
    )
    for name, needs in (("trajectory", "needs the script to train from other weights"), ("mixed", "needs a case")):
        assert result["levels"][name]["verdict"] == "not_run"
        assert needs in result["levels"][name]["reason"]


@pytest.mark.slow
def test_a_port_may_draw_for_all_time_steps_at_once(recorded, replayed):
    code, result = replayed(recorded("dropout_wrapper").out, "dropout_wrapper", "loss", model="AllAtOnce")
    assert (code, result["levels"]["function"]["verdict"]) == (0, "same")


@pytest.mark.slow
def test_a_port_that_drops_what_the_wrapper_leaves_whole_is_found(recorded, replayed):
    code, result = replayed(recorded("dropout_wrapper").out, "dropout_wrapper", "loss", model="DropsTheState")
    assert (code, result["first_difference"]["quantity"]) == (1, "act")


@pytest.mark.slow
def test_a_script_that_races_is_said_to(recorded, replayed):
    _, result = replayed(recorded("ungated").out, "ungated", "loss")
    assert any(note.startswith("the script's own slot is not what its graph computes") for note in result["notes"])


@pytest.mark.slow
def test_a_port_that_draws_less_often_than_the_script_differs_from_what_the_draw_goes_into(recorded, replayed):
    code, result = replayed(recorded("queue_fed").out, "queue_fed", "loss", model="without_dropout")
    first = result["first_difference"]
    assert (code, first["key"]) == (1, "act/0/softmax_linear")
    assert "tower_0/softmax_linear/dropout/" in first["where"]


def test_without_a_shadow_level_2_only_is_judged_which_is_no_success_unless_it_was_asked_for(
    recorded, replayed, tmp_path, capsys
):
    copy = tmp_path / "copy"
    shutil.copytree(recorded("placeholder_slices").out, copy)
    shutil.rmtree(copy / "shadow")
    (copy / "shadow.json").write_text(json.dumps({"made": False, "reason": "shadow: expected float64, got an op."}))
    code, result = replayed(copy, "placeholder_slices", "loss")
    assert (code, result["verdict"]) == (2, "same")
    assert "verdict: same (only float32 was judged" in capsys.readouterr().out
    function = result["levels"]["function"]
    assert (function["verdict"], function["reason"]) == ("not_run", "shadow: expected float64, got an op.")
    assert result["levels"]["float32"]["verdict"] == "same"
    code, result = replayed(copy, "placeholder_slices", "loss", levels="2")
    assert code == 0
    assert result["levels"]["function"]["reason"] == "it was not requested"
    assert "only float32" not in capsys.readouterr().out


def test_every_optimizer_needs_its_loss(recorded, capsys):
    assert main(["replay", str(recorded("two_optimizers").out), "--torch", "m:M", "--loss", "DAdam=m:l"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "expected a loss for the optimizer 'GAdam', got DAdam. Add --loss GAdam=MODULE:FUNCTION." in said


def test_a_loss_that_is_no_function_of_a_module_is_refused(recorded, capsys):
    assert main(["replay", str(recorded("two_optimizers").out), "--torch", "m:M", "--loss", "loss"]) == 2
    assert "expected [OPTIMIZER=]MODULE:FUNCTION, once for each, got loss" in " ".join(capsys.readouterr().err.split())


def test_clipped_gradients_need_the_ports_own_optimizer(recorded, capsys):
    assert main(["replay", str(recorded("monitored").out), "--torch", "m:M", "--loss", "m:l"]) == 2
    assert "Name an optimizer that clips with --optimizer MODULE:FUNCTION" in capsys.readouterr().err


def test_a_trace_without_steps_is_refused(tmp_path, capsys):
    writer = TraceWriter(tmp_path / "empty", {"package": "test"}, {"combine": "mean"})
    writer.init({})
    writer.close()
    assert main(["replay", str(tmp_path / "empty"), "--torch", "m:M", "--loss", "m:l"]) == 2
    assert "expected recorded steps" in capsys.readouterr().err


def test_shards_of_different_sizes_are_refused(tmp_path, capsys, replayed):
    variables = {name: {"shape": shape, "dtype": "float32", "kind": "weight"} for name, shape in SHAPES.items()}
    facts = {"combine": "mean", "towers": 2, "precision": "float32", "optimizer": {"name": "GradientDescentOptimizer"}}
    writer = TraceWriter(tmp_path / "uneven", {"package": "test"}, facts, variables)
    weights = {f"var/{name}": np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    writer.init(weights)
    feeds = {f"feed/{tower}/X": np.zeros((tower + 1, 5), np.float32) for tower in range(2)}
    writer.step(0, {**feeds, **weights})
    writer.close()
    words = ["replay", str(tmp_path / "uneven"), "--torch", "placeholder_slices_torch:Model"]
    words += ["--loss", "placeholder_slices_torch:loss", "--map", "placeholder_slices.toml"]
    assert main(words) == 2
    assert "expected equal shards of 'X' for 2 towers in step 0, got (1, 5), (2, 5)" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(
    ("slot", "counted", "skipped", "begins"),
    [([1.0, 1.0], 0, 0, True), ([1.0, 0.5], 0, 0, False), ([1.0, 1.0], 3, 0, False), ([1.0, 1.0], 0, 2, False)],
)
def test_a_recording_that_starts_later_or_from_a_checkpoint_does_not_begin_the_training(
    tmp_path, slot, counted, skipped, begins
):
    facts = {"combine": "mean", "towers": 1, "precision": "float32", "skipped_steps": skipped, "optimizer": {}}
    writer = TraceWriter(tmp_path / "trace", {"package": "test"}, facts, {"w": {"shape": [2], "kind": "weight"}})
    state = {"var/w": np.zeros(2, np.float32), "slot/accumulator/w": np.array(slot, np.float32)}
    writer.init(state)
    writer.step(0, {"state/global_step": np.int64(counted), "grad/w": np.zeros(2, np.float32), **state})
    writer.close()
    (part,) = parts_of(Trace(tmp_path / "trace"))
    assert part.begins is begins


def test_a_count_of_steps_that_is_no_number_is_refused(tmp_path):
    facts = {"combine": "mean", "towers": 1, "precision": "float32", "optimizer": {}}
    writer = TraceWriter(tmp_path, {"package": "test"}, facts, {"w": {"shape": [2], "kind": "weight"}})
    writer.init({"var/w": np.zeros(2, np.float32)})
    writer.step(0, {"state/global_step": np.zeros(2, np.int64), "grad/w": np.zeros(2, np.float32)})
    writer.close()
    (part,) = parts_of(Trace(tmp_path))
    with pytest.raises(TraceError, match=r"expected one number as the state.global_step"):
        _ = part.begins


def test_an_update_that_a_script_writes_itself_is_recorded(recorded):
    trace: Trace = recorded("hand_written_adam").trace
    assert trace.facts["optimizer"] == {"name": "HandWritten"}
    assert (trace.facts["combine"], trace.facts["towers"], trace.facts["clipped"]) == ("mean", 2, False)
    step, before = trace.step(1), trace.step(0)
    gradient = step.read("grad/model/w1").astype(np.float64)
    both = [step.read(f"tower_grad/{tower}/model/w1") for tower in range(2)]
    np.testing.assert_allclose(gradient, (both[0] + both[1]) / 2, rtol=1e-6)
    wanted = 0.9 * before.read("slot/m/model/w1") + 0.1 * gradient
    np.testing.assert_allclose(step.read("slot/m/model/w1"), wanted, rtol=1e-4, atol=1e-8)


SHAPES = {"net/w1": [5, 4], "net/b1": [4], "net/w2": [4, 3], "net/b2": [3]}
