"""Inference after training: judged in right ports, and bugs that only it shows are found there and called by their names."""

import json
import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import keep_golden, run_case
from parity.trace import Trace, read_json
from parity.worker.failures import SideFailed

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parents[1] / "cases"
ALWAYS_TRAINING = """class Forgetful(BatchNorm1d):
    def forward(self, x):
        mode, self.training = self.training, True
        try:
            return super().forward(x)
        finally:
            self.training = mode


"""
NO_MODE = (
    "inference was not judged, for the tower has no inference mode: write def tower(..., training=True), and return with "
    "training=False what the model computes after training"
)


@pytest.fixture
def planted(tmp_path):
    """Loads a copy of a case, texts of its files changed by triples of file, old and new."""

    def load(folder, *changes, steps=2, batch_size=None):
        shutil.copytree(folder.parent, tmp_path / folder.parent.name)
        copy = tmp_path / folder.parent.name / folder.name
        for file, old, new in changes:
            text = (copy / file).read_text()
            assert old in text
            (copy / file).write_text(text.replace(old, new))
        return load_case(copy, steps=steps, **({"batch_size": batch_size} if batch_size else {}))

    return load


def evaluated(result, level="function"):
    return {
        (check.run, check.key): check.verdict
        for check in result.levels[level].checks
        if check.key.startswith("eval/") and check.verdict != "not_run"
    }


def first_of(result):
    assert result.exit_code == 1, result.verdict
    check = result.first_difference.check
    return check.run, check.step, check.key


def names_of(result):
    return [cause.name for cause in result.causes]


@pytest.mark.parametrize("sides", ["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def test_a_right_port_is_the_same_after_training_too_with_averages_and_without(request, sides, tmp_path):
    result = run_case(
        load_case(CASES / "served", steps=3), request.getfixturevalue(f"{sides}_sides"), out=tmp_path / "o"
    )
    assert result.verdict == "same", result.levels["function"].reason
    keys = [f"eval/{averages}{name}" for averages in ("", "ema/") for name in ("first", "second", "loss")]
    assert evaluated(result) == {(run, key): "same" for run in ("lockstep", "free") for key in keys}
    assert evaluated(result, "float32") == {("lockstep", key): "same" for key in keys}
    assert not any("inference" in note for note in result.notes)
    for run in ("tf/float64", "torch/float64", "torch/free"):
        trace = Trace(tmp_path / "o" / run)
        assert [step for step in range(3) if "eval/loss" in trace.step(step)] == [2]
        assert [name for name in trace.step(2).names() if name.startswith("eval/")] == keys
        assert trace.step(2).shape("eval/second") == (8, 2)


def test_both_sides_evaluate_the_same_state_in_lockstep(tf2_sides, tmp_path):
    result = run_case(load_case(CASES / "served", steps=2), tf2_sides, out=tmp_path / "o")
    assert result.verdict == "same"
    rough, states = Trace(tmp_path / "o" / "tf" / "float32").step(1), Trace(tmp_path / "o" / "states" / "tf").step(2)
    assert sorted(states.names()) == sorted(
        n for n in rough.names() if n.split("/")[0] in ("var", "stat", "slot", "ema")
    )
    assert all((states.read(name) == rough.read(name)).all() for name in states.names())


def test_a_tower_that_says_nothing_of_inference_is_told_how_in_the_report(tf2_sides, tmp_path, capsys):
    from parity.report import report

    result = run_case(load_case(CASES / "square", steps=2), tf2_sides)
    assert result.verdict == "same"
    assert result.notes == [NO_MODE]
    assert evaluated(result) == {}
    report(result, "square")
    assert "inference was not judged" in capsys.readouterr().out


@pytest.mark.slow
def test_a_golden_trace_without_inference_says_so_and_one_with_it_judges_it(tf2_sides, planted, tmp_path):
    case = planted(CASES / "served")
    run_case(case, tf2_sides, out=tmp_path / "o")
    keep_golden(case, tmp_path / "o", tmp_path / "golden")
    judged = run_case(case, tf2_sides, golden=tmp_path / "golden")
    assert judged.verdict == "same"
    assert evaluated(judged)["free", "eval/ema/loss"] == "same"
    described = tmp_path / "golden" / "golden.json"
    known = read_json(str(described))
    del known["prepared"]["inference"]
    described.write_text(json.dumps(known))
    older = run_case(case, tf2_sides, golden=tmp_path / "golden")
    assert "inference was not judged, for the golden trace has none of it: bless it again" in older.notes


def test_batch_norm_that_never_leaves_training_is_found_and_named(tf2_sides, planted):
    port = "model_torch.py"
    case = planted(
        CASES / "served",
        (port, "class Model", ALWAYS_TRAINING + "class Model"),
        (port, "self.norm = BatchNorm1d(", "self.norm = Forgetful("),
    )
    result = run_case(case, tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 1, "eval/second")
    assert names_of(result) == ["batch_statistics_in_evaluation", "train_mode_in_evaluation"]
    assert result.causes[0].title == "batch statistics instead of moving statistics in evaluation: norm"
    assert "with the moving statistics of norm changed" in result.causes[0].evidence
    wrong = {check.key for check in result.levels["function"].checks if check.verdict != "same"}
    assert wrong == {"eval/second", "eval/loss", "eval/ema/second", "eval/ema/loss"}


@pytest.mark.slow
def test_one_layer_of_two_that_keeps_its_batchs_statistics_is_named_alone(tf2_sides, planted):
    changes = (
        ("model_torch.py", "class Block", ALWAYS_TRAINING.replace("1d", "2d") + "class Block"),
        ("model_torch.py", "self.logits =", "self.layer2.norm.__class__ = Forgetful\n        self.logits ="),
    )
    result = run_case(
        planted(ROOT / "examples" / "digits_convnet", *changes, batch_size=24), tf2_sides, levels=("function",)
    )
    assert first_of(result) == ("lockstep", 1, "eval/layer2")
    assert names_of(result) == ["batch_statistics_in_evaluation"]
    assert result.causes[0].title.endswith("in evaluation: layer2.norm")
    assert "those of 1 other layers count" in result.causes[0].evidence


def test_dropout_that_is_active_after_training_is_found_and_named(tf2_sides, planted):
    dropping = "F.dropout(self.norm(first).tanh(), 0.5, training=not self.training)"
    changes = (
        ("model_torch.py", "self.norm(first).tanh()", dropping),
        ("model_torch.py", "from torch import nn", "from torch import nn\nfrom torch.nn import functional as F"),
    )
    result = run_case(planted(CASES / "served", *changes), tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 1, "eval/second")
    assert names_of(result) == ["train_mode_in_evaluation"]
    assert result.causes[0].title == "train mode in evaluation: the port draws random numbers"
    assert result.causes[0].fix == "hand self.training on to dropout: F.dropout(x, p, training=self.training)"


def test_a_port_that_forgets_what_inference_leaves_out_is_in_train_mode(tf2_sides, planted):
    changes = (
        ("model_tf.py", "def tower(features, targets):", "def tower(features, targets, training=True):"),
        ("model_tf.py", "second = tf.tanh", "second = (1.0 if training else 0.9) * tf.tanh"),
    )
    result = run_case(planted(CASES / "square", *changes), tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 1, "eval/second")
    assert names_of(result) == ["train_mode_in_evaluation"]
    assert result.causes[0].title == "train mode in evaluation: model.eval() changes nothing in the port"


@pytest.mark.slow
def test_averages_that_a_copy_made_by_eval_keeps_out_are_named(tf2_sides, planted):
    copying = (
        "def train(self, mode=True):\n        super().train(mode)\n"
        "        self.copies = [] if mode else [copy.deepcopy(self)]\n        return self\n\n"
        "    def forward(self, x):\n        return (self.copies or [self])[0].computed(x)\n\n    def computed(self, x):"
    )
    changes = (
        ("model_torch.py", "def forward(self, x):", copying),
        ("model_torch.py", "super().__init__()", "super().__init__()\n        self.copies = []"),
        ("model_torch.py", "from torch import nn", "import copy\n\nfrom torch import nn"),
    )
    result = run_case(planted(CASES / "served", *changes), tf2_sides)
    assert first_of(result) == ("lockstep", 1, "eval/ema/first")
    wrong = {check.key for check in result.levels["function"].checks if check.verdict != "same"}
    assert wrong == {"eval/ema/first", "eval/ema/second", "eval/ema/loss"}
    assert names_of(result) == ["averages_not_used"]
    assert "3 outputs of the candidate are what they are with the weights themselves" in result.causes[0].evidence


@pytest.mark.slow
def test_towers_that_ignore_the_mode_are_named_rather_than_the_port(tf2_sides, planted):
    case = planted(CASES / "served", ("model_tf.py", "0.9, training=training)", "0.9)"))
    result = run_case(case, tf2_sides)
    assert first_of(result) == ("lockstep", 1, "eval/second")
    assert names_of(result) == ["towers_in_train_mode"]
    assert result.causes[0].fix == "hand the tower's training=False on to its batch norm"


def test_a_port_that_fails_in_evaluation_says_where(tf2_sides, planted):
    failing = "first = self.first(x)\n        assert self.training, 'only training is ported'"
    with pytest.raises(SideFailed) as failed:
        run_case(planted(CASES / "served", ("model_torch.py", "first = self.first(x)", failing)), tf2_sides)
    assert "only training is ported (model_torch.py, line" in str(failed.value)
