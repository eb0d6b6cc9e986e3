"""The examples with the parts that real tower code is made of: right as they stand, and found out where they are not."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment import run_case
from parity.mapping import MappingEntry

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each example is there to show; the ninth step is the first on the second stair of a rate that decays.
SHOWN = {
    "video_moe": {"clip", "stat", "slot"},
    "image_lrn": {"ema"},
    "text_lstm": {"clip", "slot"},
}


def data_of(name):
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def explain(result):
    return "\n".join(f"{level.name}: {level.reason} {level.first_difference}" for level in result.levels.values())


def first_of(result):
    assert result.exit_code == 1, result.verdict
    check = result.first_difference.check
    return check.run, check.step, check.key


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


@pytest.fixture
def planted(tmp_path):
    """Loads a copy of an example, its port's text changed from old to new."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")

    def load(name, old="", new=""):
        port = tmp_path / "examples" / name / "model_torch.py"
        text = port.read_text()
        assert old in text
        port.write_text(text.replace(old, new) if old else text)
        return load_case(port.parent, towers=2, steps=2, batch_size=12)

    return load


@pytest.mark.slow
@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", SHOWN)
def test_an_example_is_the_same_over_four_towers(sides, name):
    result = run_case(load_case(EXAMPLES / name, towers=4, steps=9, batch_size=12), sides)
    assert result.verdict == "same", explain(result)
    judged = [check for check in result.levels["function"].checks if check.verdict == "same"]
    assert {check.step for check in judged} == set(range(9))
    assert {check.key.split("/")[0] for check in judged} >= SHOWN[name] | {"act", "loss", "tower_grad", "grad", "var"}


@pytest.mark.slow
def test_regularisation_that_the_port_leaves_out_is_named_with_its_size(tf2_sides, planted):
    case = planted("video_moe", "return outputs, self.regularization()", "return outputs, torch.zeros(())")
    result = run_case(case, tf2_sides)
    assert first_of(result) == ("lockstep", 0, "loss/0")
    assert result.causes[0].name == "weight_decay"
    assert result.causes[0].title == "weight decay of 0.0001 in the reference that the candidate does not have"
    for kernel in ("clusters", "hidden", "gates", "experts"):
        assert f"{kernel}/kernel" in result.causes[0].evidence
    assert "bias" not in result.causes[0].evidence


@pytest.mark.slow
def test_gates_that_mix_up_classes_and_mixtures_are_found_at_the_gates(tf2_sides, planted):
    mixed_up = "reshape(-1, MIXTURES + 1, CLASSES).transpose(1, 2).reshape(-1, MIXTURES + 1).softmax"
    result = run_case(planted("video_moe", "reshape(-1, MIXTURES + 1).softmax", mixed_up), tf2_sides)
    assert first_of(result) == ("lockstep", 0, "act/0/gates")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("local_response_normalization(x, depth_radius=2, bias", "F.local_response_norm(x, 5, k"),
        ('max_pool(x, 3, 2, "SAME")', "F.max_pool2d(x, 3, 2, padding=1)"),
    ],
    ids=["alpha of the mean", "padding on both sides"],
)
def test_a_layer_of_torch_with_another_rule_is_found_at_that_layer(tf2_sides, planted, old, new):
    result = run_case(planted("image_lrn", old, new), tf2_sides)
    assert first_of(result) == ("lockstep", 0, "act/0/norm1")


@pytest.mark.slow
def test_a_forget_bias_that_is_missing_is_found_in_the_lstm(tf2_sides, planted):
    case = planted("text_lstm")
    bias = "rnn/basic_lstm_cell/bias"
    without = MappingEntry(to=("lstm.bias_ih_l0", "lstm.bias_hh_l0"), transform="lstm_bias(0.0)")
    result = run_case(case.model_copy(update={"mapping": {bias: without}}), tf2_sides)
    assert first_of(result) == ("fresh", 0, f"var/{bias}")  # the port's own constant is judged before it is overwritten


@pytest.mark.slow
def test_a_second_bias_that_trains_as_well_is_found_where_the_global_norm_counts_it(tf2_sides, planted):
    result = run_case(
        planted(
            "text_lstm",
            "        self.logits = nn",
            "        forget_bias.requires_grad_(True)\n        self.logits = nn",
        ),
        tf2_sides,
    )
    run, step, key = first_of(result)
    assert (run, step) == ("lockstep", 0) and key.split("/")[0] == "clip"


def test_videos_are_the_same_for_a_seed_and_show_what_their_labels_say():
    videos = data_of("video_moe/videos")
    one, again = (next(videos.batches(steps=1, batch_size=40, seed=3)) for _ in range(2))
    assert all(np.array_equal(one[name], again[name]) for name in ("frames", "labels"))
    assert one["frames"].shape == (40, 5, 24) and np.abs(one["frames"]).max() == 2.0
    prototypes = np.clip(np.random.default_rng(videos.WORLD).standard_normal((10, 24)), -2, 2)
    distances = np.linalg.norm(one["frames"][:, :, None] - prototypes, axis=-1)
    nearest = distances.argmin(axis=-1)
    assert np.take_along_axis(one["labels"], nearest, axis=1).all()
    assert set(one["labels"].sum(axis=1)) == {1.0, 2.0, 3.0}


def test_characters_are_windows_of_the_text_and_count_up_to_the_end_of_the_line():
    text = data_of("text_lstm/text")
    assert text.encode("a ~\n\u00e9").tolist() == [65, 0, 94, 95, 31]
    symbols = bytes(text.encode(text.load()).astype(np.uint8))
    (batch,) = text.batches(steps=1, batch_size=60, seed=0)
    ends = 0
    for characters, following, weights in zip(*batch.values(), strict=True):
        assert bytes(np.append(characters, following[-1]).astype(np.uint8)) in symbols
        np.testing.assert_array_equal(characters[1:], following[:-1])
        line = characters.tolist().index(text.END) if text.END in characters else text.LENGTH
        assert line > 0
        np.testing.assert_array_equal(weights, np.arange(text.LENGTH) < line)
        ends += line < text.LENGTH
    assert 0 < ends < 60
