"""Where two values tie there is no gradient: the sides are judged beside it, and bugs are found all the same."""

import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.tiny_case import write_texts

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case
from parity.experiment.rejudge.non_differentiable import WITH_INPUTS

TIED = Path(__file__).parents[1] / "cases" / "tied"
NOTE = (
    "at a non-differentiable point: two values are equal up to rounding; re-run from weights perturbed by up to 2^-30 of "
    "themselves"
)


@pytest.fixture
def tied(tmp_path):
    """Returns a function that makes the case with a text of its port changed."""

    def make(old="", new=""):
        shutil.copytree(TIED, tmp_path / "tied")
        port = tmp_path / "tied" / "model_torch.py"
        assert old in port.read_text()
        port.write_text(port.read_text().replace(old, new) if old else port.read_text())
        return load_case(tmp_path / "tied")

    return make


def kinks_of(result, level="function"):
    return [(check.run, check.step, check.key) for check in result.levels[level].checks if check.note == NOTE]


def test_a_tie_that_is_broken_otherwise_is_judged_beside_it_and_said(tied, tf2_sides):
    result = run_case(tied(), tf2_sides)
    assert result.verdict == "same", result.first_difference
    found = kinks_of(result)
    assert ("lockstep", 0, "tower_grad/0/weights") in found and ("lockstep", 0, "grad/weights") in found
    assert {step for run, step, _ in found if run == "lockstep"} == {0}
    [note] = [note for note in result.levels["function"].notes if NOTE in note]
    assert note.startswith(f"{len(found)} tensors of step")
    assert all(check.multiple < 0.5 for check in result.levels["function"].checks)


def test_where_ties_are_broken_alike_nothing_is_judged_beside_them(tied, tf2_sides):
    result = run_case(tied("one >= other", "one > other"), tf2_sides)
    assert (result.verdict, kinks_of(result)) == ("same", [])
    assert not any("kink" in note for note in result.levels["function"].notes)


FORGETFUL = """

from torch_ddp.like_tf import Adam


class Forgetful(Adam):
    def _finish(self, group):
        pass


def optimizer(model):
    return Forgetful(model.parameters(), lr=0.1)


def loss("""


def test_counters_that_the_port_forgets_are_its_own_beside_a_tie_too(tied, tf2_sides):
    case = tied("\n\ndef loss(", FORGETFUL)
    adam = TypeAdapter(AnyOptimizer).validate_python({"name": "adam", "learning_rate": 0.1})
    own = case.torch.model_copy(update={"optimizer": "model_torch:optimizer"})
    result = run_case(case.model_copy(update={"optimizer": adam, "torch": own}), tf2_sides, levels=("function",))
    first = result.first_difference
    assert (result.verdict, first.check.step, first.quantity) == ("different", 1, "state")
    assert {(step, key.rpartition("/")[2]) for _, step, key in kinks_of(result)} == {(0, "weights")}


ANOTHER_MOMENTUM = """

from torch_ddp.like_tf import Momentum


def optimizer(model):
    return Momentum(model.parameters(), lr=0.1, momentum=0.8)


def loss("""


@pytest.mark.parametrize(
    ("old", "new", "first", "at_kinks"),
    [
        ("x.relu()", "torch.where(x >= 0, x, torch.zeros_like(x))", "tower_grad/0/zeros", {"weights"}),
        (".square().mean()", ".square().mean() * 1.0001", "loss/0", set()),
        ("torch.where(one >= other, one, other)", "(one + other) / 2", "act/0/larger", set()),
    ],
)
def test_a_bug_beside_a_tie_or_at_one_that_no_move_breaks_is_different(tied, tf2_sides, old, new, first, at_kinks):
    result = run_case(tied(old, new), tf2_sides, levels=("function",))
    assert (result.verdict, result.first_difference.check.key) == ("different", first)
    assert {key.rpartition("/")[2] for _, _, key in kinks_of(result)} == at_kinks


def test_a_bug_beside_a_tie_is_named(tied, tf2_sides):
    case = tied("\n\ndef loss(", ANOTHER_MOMENTUM)
    momentum = {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9}
    described = TypeAdapter(AnyOptimizer).validate_python(momentum)
    own = case.torch.model_copy(update={"optimizer": "model_torch:optimizer"})
    result = run_case(case.model_copy(update={"optimizer": described, "torch": own}), tf2_sides, levels=("function",))
    assert (result.verdict, result.first_difference.check.key) == ("different", "slot/momentum/weights")
    assert result.levels["function"].causes[0].name == "momentum"
    assert {step for _, step, _ in kinks_of(result)} == {0}


DATA = """import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        features = np.round(8 * random.standard_normal((batch_size, 4))) / 8
        features[::2, 2] = features[::2, 0]
        yield {"features": features.astype("float32"), "targets": np.ones(batch_size, "float32")}
"""


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("", "", "same"),
        ("torch.where(one >= other, one, other)", "torch.where(one >= other, one, other + 1)", "different"),
    ],
)
def test_a_tie_of_what_zeros_are_multiplied_with_is_judged_with_zeros_and_inputs_moved(
    tied, tf2_sides, old, new, verdict
):
    case = tied(old, new)
    tower = case.directory / "model_tf.py"
    weights = "tf.constant_initializer(0.5)"
    assert weights in tower.read_text()
    tower.write_text(tower.read_text().replace(weights, "tf.constant_initializer([0.5, 0.0])"))
    (case.directory / "data.py").write_text(DATA)
    result = run_case(case, tf2_sides)
    assert result.verdict == verdict, result.first_difference
    found = {check.key for check in result.levels["function"].checks if check.note == WITH_INPUTS}
    assert ("tower_grad/0/weights" in found) is (verdict == "same")


CLASSES = """
import numpy as np


def batches(steps, batch_size, seed):
    draw = np.random.RandomState(seed)
    for _ in range(steps):
        yield {"x": draw.randn(batch_size, 3).astype("float32"), "event": (draw.rand(batch_size) < 0.5).astype("float32")}
"""
COMPARED = """
import tensorflow.compat.v1 as tf


def tower(x, event):
    y = tf.squeeze(tf.layers.dense(x, 1, name="dense"), 1)
    return tf.reduce_mean(tf.square(y)) + tf.reduce_mean(tf.cast(tf.equal(event, 1.0), x.dtype) * tf.exp(y))
"""
DETACHED = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 1)

    def forward(self, x):
        return self.dense(x).squeeze(1)


def loss(model, x, event):
    y = model(x)
    return y.square().mean() + ((event == 1).to(y.dtype) * y.detach().exp()).mean()
"""


@pytest.mark.parametrize(("port", "verdict"), [(DETACHED, "different"), (DETACHED.replace(".detach()", ""), "same")])
def test_a_term_that_moved_labels_lose_is_not_judged_where_it_is_lost(tf2_sides, tmp_path, port, verdict):
    """Beside where they were no label is 1: both sides lack the term there, and the bug in it."""
    case = load_case(write_texts(tmp_path / "case", data=CLASSES, tf=COMPARED, torch=port))
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.verdict == verdict
    if verdict == "different":
        assert result.first_difference.quantity == "tower_grad"
        assert [cause.name for cause in result.levels["function"].causes][:1] == ["detached"]
