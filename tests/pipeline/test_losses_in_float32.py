"""Towers whose loss is one of tf.losses, which computes in float32 whatever it is fed; and recurrent ones, which do not."""

import shutil
from pathlib import Path

import pytest
from support.tiny_case import write_case

from parity.case import load_case
from parity.experiment import run_case

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def case(tmp_path):
    """Returns a case whose port multiplies the loss of each example by a number."""

    def made(scale):
        weighted = f"like_tf.compute_weighted_loss((model(x) - y).square().sum(1) * {scale})"
        return load_case(
            write_case(
                tmp_path / f"case{scale}",
                tf="1.0 * tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y)) -> "
                "tf.losses.compute_weighted_loss(tf.reduce_sum(tf.square(tf.matmul(x, kernel) + bias - y), 1))",
                torch=f"return 1.0 * (model(x) - y).square().mean() -> "
                f"from torch_ddp import like_tf\n\n    return {weighted}",
            )
        )

    return made


def test_a_right_port_is_the_same_and_the_report_says_where_the_graph_is_float32(tf2_sides, case):
    result = run_case(case(1.0), tf2_sides)
    assert result.verdict == "same", result.first_difference
    (note,) = [note for note in result.levels["function"].notes if "float32 though it is fed float64" in note]
    assert "model_tf.py:7: " in note


def test_a_loss_off_by_a_thousandth_is_still_found(tf2_sides, case):
    result = run_case(case(1.001), tf2_sides, levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.quantity == "loss"
    assert [(cause.name, cause.title) for cause in result.causes] == [
        ("gradient_factor", "the loss is off by the factor 1.001")
    ]


def test_a_sum_over_examples_is_named_though_the_graph_computes_its_mean_in_float32(tf2_sides, case):
    result = run_case(case(4.0), tf2_sides, levels=["function"])
    assert [cause.name for cause in result.causes] == ["loss_reduction"]


def test_a_loss_off_by_less_than_float32_sees_is_found_in_its_gradient(tf2_sides, case):
    result = run_case(case(1.00000001), tf2_sides, levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.quantity == "tower_grad"


OFFSET = """
import model_torch


def loss(model, **inputs):
    found, outputs = model_torch.loss(model, **inputs)
    return found + 3e-7, outputs
"""


@pytest.mark.parametrize("sides", ["tf2_sides", pytest.param("tf1_sides", marks=pytest.mark.tf1)])
def test_a_recurrent_tower_s_loss_is_judged_in_float64(request, sides, tmp_path):
    shutil.copy(EXAMPLES / "text_lstm" / "text.py", tmp_path)
    shutil.copytree(EXAMPLES / "text_lstm", tmp_path / "case", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "case" / "offset.py").write_text(OFFSET.lstrip())
    case = load_case(tmp_path / "case", steps=1, batch_size=4)
    changed = case.model_copy(update={"torch": case.torch.model_copy(update={"loss": "offset:loss"})})
    result = run_case(changed, request.getfixturevalue(sides), levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.check.key == "loss/0"
