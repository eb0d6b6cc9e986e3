"""The first difference of a bug in the forward pass is its layer, though no output is declared."""

import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case

EXAMPLES = Path(__file__).parents[2] / "examples"
OUTPUTS = ', {"layer1": layer1, "layer2": layer2, "logits": logits}'


@pytest.fixture
def undeclared(tmp_path):
    """Loads a copy of the convolutional net whose sides return their losses alone, the port changed."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")

    def load(old="", new=""):
        folder = tmp_path / "examples" / "digits_convnet"
        for name in ("model_tf.py", "model_torch.py"):
            text = (folder / name).read_text()
            assert OUTPUTS in text
            text = text.replace(OUTPUTS, "")
            if name == "model_torch.py":
                assert old in text
                text = text.replace(old, new)
            (folder / name).write_text(text)
        return load_case(folder, steps=2, batch_size=16)

    return load


@pytest.mark.parametrize(
    ("old", "new", "key", "cause", "words"),
    [
        ("F.relu(", "F.leaky_relu(", "act/0/layer1", "activation_function", "tower_0/layer1/Relu (Relu)"),
        pytest.param(
            "layer2.flatten(1)",
            "layer2.flatten(1) * 2",
            "act/0/logits",
            None,
            "the same before it: layer1/conv",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "labels.long())",
            "labels.long()) * 1.5",
            "loss/0",
            "gradient_factor",
            "behind all layers, in the loss",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_layer_is_found_by_itself(tf2_sides, undeclared, old, new, key, cause, words):
    result = run_case(undeclared(old, new), tf2_sides, levels=("function",))
    assert (result.verdict, result.first_difference.check.key) == ("different", key)
    assert words in result.first_difference.where
    if cause:
        assert result.causes[0].name == cause
    assert old in EXAMPLES.joinpath("digits_convnet", "model_torch.py").read_text()
    assert new in result.first_difference.lines[1].text  # the planted line, by itself
    assert result.first_difference.lines[0].file == "model_tf.py"


@pytest.mark.slow
def test_tracebacks_of_tensorflow_1_tell_the_line_too(tf1_sides, undeclared):
    result = run_case(undeclared("F.relu(", "F.leaky_relu("), tf1_sides, levels=("function",))
    first = result.first_difference
    assert first.lines[0].text == 'x = tf.nn.relu(batch_norm(x, "norm", training=training))'
    assert (first.lines[0].file, first.lines[0].function, first.lines[0].callers[0][2]) == (
        "model_tf.py",
        "block",
        "tower",
    )
    assert "F.leaky_relu(" in first.lines[1].text and (first.module, first.next_module) == ("layer1", "layer2.conv")


@pytest.mark.slow
def test_a_declared_output_keeps_its_name(tf2_sides, tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    port = tmp_path / "examples" / "digits_convnet" / "model_torch.py"
    port.write_text(port.read_text().replace("F.relu(", "F.leaky_relu("))
    result = run_case(load_case(port.parent, steps=2, batch_size=16), tf2_sides, levels=("function",))
    assert result.first_difference.check.key == "act/0/layer1"
    assert "in the layer layer1" in result.first_difference.where


@pytest.mark.slow
def test_a_port_that_cannot_be_watched_keeps_its_verdict_and_runs_on(tf2_sides, undeclared):
    case = undeclared("layer2.flatten(1)", "watched(layer2.flatten(1)) * 2")
    port = case.directory / "model_torch.py"
    port.write_text(
        port.read_text()
        + "\n\ndef watched(x):\n    modes = torch.overrides._get_current_function_mode_stack()\n"
        + "    if any(type(each).__name__ == 'ForwardWatch' for each in modes):\n"
        + "        raise RuntimeError('nobody may watch this')\n    return x\n"
    )
    result = run_case(case, tf2_sides, levels=("function", "trajectory"))
    assert {name: level.verdict for name, level in result.levels.items()} == {
        "function": "different",
        "float32": "not_run",
        "trajectory": "different",
        "mixed": "not_run",
    }
    assert result.first_difference.where == ""
