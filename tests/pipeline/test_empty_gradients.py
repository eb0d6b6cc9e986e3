"""A bias in front of a batch norm has a gradient of nothing but rounding, of which Adam makes an update all the same."""

import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case
from parity.experiment.rejudge.ill_conditioned import ZERO_GRADIENT_NOTE

EXAMPLES = Path(__file__).parents[2] / "examples"
BIAS = "var/layer1/conv/bias"

NUDGED = """

from torch_ddp.like_tf import Adam


def optimizer(model):
    made = Adam(model.parameters(), lr=1e-3)
    made.register_step_post_hook(lambda *_: nudge(model.layer1.conv.bias))
    return made


def nudge(bias):
    with torch.no_grad():
        bias.add_(1e-6)
"""


@pytest.fixture
def large(tmp_path):
    """Returns a function that makes the convolutional net with large shards and empty slots, and more in its port."""

    def make(more="", **torch):
        shutil.copy(EXAMPLES / "digits.py", tmp_path)
        shutil.copytree(EXAMPLES / "digits_convnet", tmp_path / "case")
        port = tmp_path / "case" / "model_torch.py"
        port.write_text(port.read_text() + more)
        case = load_case(tmp_path / "case", towers=1, steps=1, batch_size=256, init="model")
        return case.model_copy(update={"torch": case.torch.model_copy(update=torch)})

    return make


@pytest.mark.slow
def test_a_right_port_is_the_same_where_adam_makes_large_updates_of_rounding(large, tf2_sides):
    result = run_case(large(), tf2_sides)
    assert result.verdict == "same", result.first_difference
    function = result.levels["function"]
    assert [check.key for check in function.checks if check.note == ZERO_GRADIENT_NOTE] == [BIAS]
    assert f"{BIAS}: {ZERO_GRADIENT_NOTE}" in function.notes


@pytest.mark.slow
def test_a_bias_that_moves_by_itself_is_different_though_its_gradient_is_rounding(large, tf2_sides):
    result = run_case(large(NUDGED, optimizer="model_torch:optimizer"), tf2_sides, levels=("function",))
    assert result.verdict == "different"
    assert result.first_difference.check.key == BIAS
    assert result.first_difference.check.difference > 1e-6
