"""Bugs planted in right ports: each is found, at the right quantity and tensor, and called by its name."""

import shutil
from pathlib import Path

import pytest

from parity.case import Adagrad, Adam, Sgd, load_case
from parity.experiment import run_case
from parity.mapping import MappingEntry

ROOT = Path(__file__).parents[2]
SQUARE = Path(__file__).parents[1] / "cases" / "square"
ADAM = Adam(name="adam", learning_rate=1e-3)
SGD = Sgd(name="sgd", learning_rate=0.05)

BIASED = """class Biased(BatchNorm2d):
    def forward(self, x):
        self.count = x.numel() // x.shape[1]
        return super().forward(x)

    def _move(self, mean, variance):
        super()._move(mean, variance * ((self.count - 1) / self.count))


"""


@pytest.fixture
def example(tmp_path):
    """Loads a copy of an example, its port's text changed by pairs of old and new."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    def load(name, *changes):
        port = tmp_path / "examples" / name / "model_torch.py"
        for old, new in changes:
            text = port.read_text()
            assert old in text
            port.write_text(text.replace(old, new))
        return load_case(port.parent, steps=3, batch_size=24)

    return load


def mapped(case, entries):
    tables = {name: MappingEntry.model_validate(value) for name, value in entries.items()}
    return case.model_copy(update={"mapping": tables})


def trained_by(case, optimizer, native):
    """The towers train by `optimizer`, the port by one of torch's own."""
    (case.directory / "native.py").write_text(f"import torch\n\n\ndef make(model):\n    return torch.optim.{native}\n")
    port = case.torch.model_copy(update={"optimizer": "native:make"})
    return case.model_copy(update={"optimizer": optimizer, "torch": port})


def first_of(result):
    assert result.exit_code == 1, result.verdict
    check = result.first_difference.check
    return check.run, check.step, check.key


def test_the_square_port_is_right_before_anything_is_planted(tf2_sides):
    assert run_case(load_case(SQUARE), tf2_sides).verdict == "same"


def test_variables_swapped_in_the_mapping_show_in_the_first_layer_that_uses_one(tf2_sides):
    swapped = {
        f"{layer}/{part}": f"{other}.{name}"
        for layer, other in (("first", "second"), ("second", "first"))
        for part, name in (("kernel", "weight"), ("bias", "bias"))
    }
    result = run_case(mapped(load_case(SQUARE), swapped), tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 0, "act/0/first")
    assert result.causes[0].name == "swapped_variables"
    assert result.causes[0].title == "the layers first and second stand for each other"


def test_a_square_kernel_carried_over_untransposed_shows_in_its_own_layer(tf2_sides):
    untransposed = {"second/kernel": {"to": "second.weight", "transform": "identity"}}
    result = run_case(mapped(load_case(SQUARE), untransposed), tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 0, "act/0/second")
    assert result.causes[0].title == "the square kernel second.weight is used transposed"


def test_another_epsilon_of_adam_is_named_with_both_values(tf2_sides, example):
    case = trained_by(example("digits_mlp"), ADAM, "Adam(model.parameters(), lr=1e-3, eps=1e-6)")
    result = run_case(case, tf2_sides, levels=("function",))
    run, step, key = first_of(result)
    assert (run, step, key.split("/")[0]) == ("lockstep", 0, "var")
    assert result.causes[0].name == "adam_epsilon"
    assert result.causes[0].title == "Adam's epsilon is 1e-06 where the reference has 1e-08"


@pytest.mark.slow
def test_plain_adam_of_torch_is_reported_for_what_it_is_with_the_size_of_the_effect(tf2_sides, example):
    case = trained_by(example("digits_mlp"), ADAM, "Adam(model.parameters(), lr=1e-3)")
    result = run_case(case, tf2_sides)
    run, step, key = first_of(result)
    assert (run, step, key.split("/")[0]) == ("lockstep", 0, "var")
    assert result.causes[0].name == "adam_epsilon_placement"
    assert "Size of the effect at step 0: up to" in result.causes[0].evidence
    assert result.causes[0].fix == "use torch_ddp.like_tf.Adam, whose epsilon is TensorFlow's"
    assert any("up to float32 hyper-parameters" in note for note in result.levels["function"].notes)


def test_plain_sgd_of_torch_is_the_same_up_to_float32_hyper_parameters(tf2_sides, example):
    result = run_case(trained_by(example("digits_mlp"), SGD, "SGD(model.parameters(), lr=0.05)"), tf2_sides)
    assert result.verdict == "same"
    assert any("up to float32 hyper-parameters" in note for note in result.levels["function"].notes)
    assert [(repeat.side, repeat.unequal) for repeat in result.repeats] == [("reference", 0), ("candidate", 0)]


@pytest.mark.slow
def test_a_wrong_variance_shows_only_in_the_moving_variance_and_is_named(tf2_sides, example):
    case = example("digits_convnet", ("= BatchNorm2d(", "= Biased("), ("class Block", BIASED + "class Block"))
    result = run_case(case, tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 0, "stat/layer1/norm/moving_variance")
    assert result.causes[0].name == "batch_norm_variance"
    assert result.causes[0].title == "batch norm's moving variance takes the biased variance (n)"
    moving = {"stat/layer1/norm/moving_variance", "stat/layer2/norm/moving_variance"}
    wrong = {(check.run, check.key) for check in result.levels["function"].checks if check.verdict != "same"}
    assert {key for run, key in wrong if run == "lockstep"} == moving
    # What nobody resets ends with another variance, which is what inference runs on.
    assert {key for run, key in wrong if run == "free"} - moving == {
        "eval/layer1",
        "eval/layer2",
        "eval/logits",
        "eval/loss",
    }


@pytest.mark.slow
def test_a_learning_rate_off_by_a_factor_is_named_with_the_factor(tf2_sides, example):
    result = run_case(
        trained_by(example("digits_mlp"), SGD, "SGD(model.parameters(), lr=0.04)"), tf2_sides, levels=("function",)
    )
    assert first_of(result) == ("lockstep", 0, "state/learning_rate")
    assert result.causes[0].name == "learning_rate"
    assert result.causes[0].title == "learning rate off by the factor 0.8"


@pytest.mark.slow
def test_batch_norm_with_torchs_meaning_of_momentum_is_named(tf2_sides, example):
    case = example(
        "digits_convnet",
        ("self.norm = BatchNorm2d(channels)", "self.norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.1)"),
    )
    result = run_case(case, tf2_sides)
    assert first_of(result)[2].startswith("stat/layer1/norm/moving_")
    assert result.causes[0].name == "batch_norm_momentum"


@pytest.mark.slow
def test_a_flatten_in_the_other_order_is_named_with_the_mapping_that_mends_it(tf2_sides, example):
    straight = {"logits/kernel": {"to": "logits.weight", "transform": "transpose"}}
    result = run_case(mapped(example("digits_convnet"), straight), tf2_sides)
    assert first_of(result) == ("lockstep", 0, "act/0/logits")
    assert result.causes[0].name == "flatten_order"
    assert 'transform = "flatten_hwc(7, 7, 32)"' in result.causes[0].fix


def test_another_initial_value_of_a_slot_is_found_although_the_slots_are_overwritten(tf2_sides, example):
    case = example("digits_mlp")
    (case.directory / "own.py").write_text(
        "from torch_ddp.like_tf import Adagrad\n\n\ndef make(model):\n"
        "    return Adagrad(model.parameters(), lr=0.01, initial_accumulator_value=0.5)\n"
    )
    adagrad = Adagrad(name="adagrad", learning_rate=0.01)
    port = case.torch.model_copy(update={"optimizer": "own:make"})
    result = run_case(case.model_copy(update={"optimizer": adagrad, "torch": port}), tf2_sides, levels=("function",))
    assert first_of(result) == ("fresh", 0, "slot/accumulator/hidden/kernel")
    assert result.first_difference.check.note == "starts at 0.5 where the reference's starts at 0.1"
    assert result.causes[0].name == "slot_initial_value"
    wrong = {check.run for check in result.levels["function"].checks if check.verdict != "same"}
    assert wrong == {"fresh"}


@pytest.mark.slow
def test_a_port_in_tensorfloat_32_is_told_by_its_accuracy_alone(tf2_sides, example):
    # Rounded to ten bits of mantissa as the hardware does, and only where the port runs in float32.
    rounded = (
        "self.norm(self.conv(x))",
        "self.norm(self.conv(x) if x.dtype is torch.float64 else self.conv(tf32(x)))",
    )
    function = (
        "class Block",
        "def tf32(x):\n    shifted = x.view(torch.int32) + 0x1000\n"
        "    return x + ((shifted & ~0x1FFF).view(torch.float32) - x).detach()\n\n\nclass Block",
    )
    result = run_case(example("digits_convnet", rounded, function), tf2_sides)
    assert result.levels["function"].verdict == "same"
    assert result.levels["float32"].verdict == "different"
    assert "computes in less than float32" in result.levels["float32"].reason


def test_a_port_that_does_not_take_what_an_experiment_tries_keeps_its_verdict(tf2_sides, tmp_path):
    shutil.copytree(SQUARE, tmp_path / "square")
    port = tmp_path / "square" / "model_torch.py"
    picky = "assert features.max() < 7, 'out of range'\n        features = features + features**3 / 8\n        first ="
    port.write_text(port.read_text().replace("first = self.first(features)", picky + " self.first(features)"))
    assert "out of range" in port.read_text()
    result = run_case(load_case(tmp_path / "square"), tf2_sides, levels=("function",))
    assert first_of(result) == ("lockstep", 0, "act/0/first")
    assert [cause.name for cause in result.causes] == ["other_operation"]
