"""Level 3 on real towers and real ranks: right ports, and bugs that no step of lockstep would forgive either."""

from pathlib import Path

import pytest
from support.tiers import few

from parity.case import Sgd, load_case
from parity.experiment import Recorder, run_case
from parity.experiment.power import Planted, plant
from parity.experiment.trajectories import GROWN, measure_power, record_trajectories
from parity.judge.levels.trajectory import stray_of_candidate

SQUARE = Path(__file__).parents[1] / "cases" / "square"
CONVNET = Path(__file__).parents[2] / "examples" / "digits_convnet"


def small(path, **changes):
    case = load_case(path, steps=3, towers=2, batch_size=8)
    return case.model_copy(update={"optimizer": Sgd(name="sgd", learning_rate=0.05), **changes})


def test_a_right_port_goes_the_same_way_and_the_level_says_what_it_would_have_seen(tf2_sides):
    result = run_case(small(SQUARE), tf2_sides, levels=("trajectory",))
    assert result.verdict == "same"
    assert [result.levels[name].verdict for name in ("function", "float32", "mixed")] == ["not_run"] * 3
    level = result.levels["trajectory"]
    assert level.verdict == "same" and level.reason.endswith(f"by 20 perturbed runs over {len(level.checks)} tensors")
    assert level.notes[0].startswith("false alarms: 0 of 20 held-out runs")
    assert "a learning rate off by 1%" in level.notes[1] and "gradients reduced in float16" in level.notes[1]
    assert "stale" not in level.notes[1]  # this net keeps no statistics
    assert {check.key.split("/")[0] for check in level.checks} >= {"loss", "grad", "var"}
    assert {check.step for check in level.checks} == {0, 1, 2}


def test_levels_stand_beside_each_other_and_the_other_levels_figures_do_not_change(tf2_sides):
    result = run_case(small(SQUARE), tf2_sides, levels=("function", "float32", "trajectory"))
    assert [level.verdict for level in result.levels.values()] == ["same", "same", "same", "not_run"]
    assert {check.run for check in result.levels["trajectory"].checks} == {"free"}


@pytest.mark.parametrize(
    ("mutation", "size"),
    few([("another_learning_rate", 0.05), ("gradients_travel_in_float16", 1.0), ("statistics_never_move", 1.0)]),
)
def test_a_bug_leads_training_out_of_the_envelope(tf2_sides, tmp_path, mutation, size):
    case = small(CONVNET)
    planted = plant(case, Planted(mutation, size), tmp_path / "p" / "port", mutation == "another_learning_rate")
    result = run_case(planted, tf2_sides, levels=("trajectory",))
    level = result.levels["trajectory"]
    assert level.verdict == "different" and result.exit_code == 1
    first = level.first_difference
    expected = {"statistics_never_move": "stat", "gradients_travel_in_float16": "grad", "another_learning_rate": "var"}
    assert (first.check.step, first.quantity) == (0, expected[mutation])
    assert first.worst is not None and first.check.multiple > 1.0
    assert not any(note.startswith("power") for note in level.notes)


@pytest.mark.slow
def test_power_is_measured_with_the_ports_own_optimizer_too_and_leaves_the_sides_ready(tf2_sides, tmp_path):
    import shutil

    shutil.copytree(SQUARE, tmp_path / "square")
    (tmp_path / "square" / "own.py").write_text(
        "from torch_ddp.like_tf import GradientDescent\n\n\ndef make(model):\n"
        "    return GradientDescent(model.parameters(), lr=0.05)\n"
    )
    case = small(tmp_path / "square")
    case = case.model_copy(update={"torch": case.torch.model_copy(update={"optimizer": "own:make"})})
    recorder = Recorder(case, tf2_sides, tmp_path / "out", spread=False)
    begun = recorder.begin()
    reference = begun.reference.result()
    _, found = record_trajectories(recorder.playing, begun.join, reference)
    assert stray_of_candidate(found) < 32.0 / 4
    seen = measure_power(case, recorder.playing, begun.join, reference, found, GROWN[:1])
    assert [(each.words, each.seen) for each in seen] == [("a learning rate off by 1%", True)]
    assert not (tmp_path / "out" / "planted" / "another_learning_rate-0.01").exists()
    _, again = record_trajectories(recorder.playing, begun.join, reference)
    assert (again.candidate == found.candidate).all()  # nothing planted is left, and draws are the same every time
    assert not list((tmp_path / "out" / "feeds").glob("*drawn*")) and not list((tmp_path / "out" / "tf").glob("drawn*"))


def test_a_golden_trace_holds_no_perturbed_runs(tf2_sides, tmp_path):
    from parity.experiment import keep_golden

    case = small(SQUARE)
    run_case(case, tf2_sides, out=tmp_path / "run")
    keep_golden(case, tmp_path / "run", tmp_path / "golden")
    result = run_case(case, tf2_sides, levels=("function", "trajectory"), golden=tmp_path / "golden")
    assert result.levels["function"].verdict == "same"
    assert result.levels["trajectory"].verdict == "not_run"
    assert "a golden trace holds no perturbed runs" in result.levels["trajectory"].reason
