"""Recorded scripts that rounding decides, at a tie or with an empty gradient: right ports are the same, bugs are found."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from parity.experiment.rejudge.ill_conditioned import ZERO_GRADIENT_NOTE as EMPTY
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE as KINK
from parity.experiment.rejudge.non_differentiable import WITH_INPUTS
from parity.trace import Trace, quantity_of, write_tensors

from .conftest import run

KERNEL, BIAS = "net/conv/kernel", "var/net/bias"


def noted(result, note):
    return [each for each in result["levels"]["function"]["notes"] if note in each]


def races(result):
    return [note for note in result["notes"] if "is not what its graph computes" in note]


@pytest.mark.slow
def test_a_shadow_keeps_the_steps_at_kinks_only_and_of_them_no_feeds(recorded):
    aside = Trace(recorded("mirrored_pool").out / "shadow" / "aside")
    assert aside.step_numbers == [0]  # the first update leaves the kernels without symmetry
    assert {quantity_of(name) for name in aside.step(0).names()} == {
        "loss",
        "tower_grad",
        "grad",
        "slot",
        "var",
        "state",
    }
    shadow = Trace(recorded("mirrored_pool").out / "shadow").step(0)
    for name, jumps in ((f"grad/{KERNEL}", True), ("grad/net/fc/weights", False)):
        apart = np.linalg.norm(aside.step(0).read(name) - shadow.read(name)) / np.linalg.norm(shadow.read(name))
        assert bool(apart > 2.0**-20) is jumps, name
    assert Trace(recorded("mirrored_pool").out / "shadow" / "aside" / "free").step_numbers == [0, 1, 2]


@pytest.mark.slow
def test_a_shadow_measures_empty_gradients_and_their_updates_only(recorded):
    empty = Trace(recorded("bias_before_norm").out / "shadow" / "empty")
    assert empty.step_numbers == [0, 1]
    gradients = ["tower_grad/0/net/bias", "tower_grad/1/net/bias", "grad/net/bias"]
    assert empty.step(0).names() == [*gradients, "slot/m/net/bias", "slot/v/net/bias", BIAS]
    assert 1e-9 < float(empty.step(0).read(BIAS)) < 1e-5  # of a learning rate of 1e-3
    assert Trace(recorded("bias_before_norm").out / "shadow" / "aside").step_numbers == []


def test_a_smooth_script_has_neither(recorded):
    shadow = recorded("monitored").out / "shadow"
    assert [Trace(shadow / name).step_numbers for name in ("aside", "aside_with_inputs", "empty")] == [[], [], []]
    assert not (shadow / "aside" / "free").exists() and not (shadow / "aside_with_inputs" / "free").exists()


@pytest.mark.slow
def test_a_right_port_of_a_pool_that_ties_is_the_same_and_said_to_be_at_a_kink(recorded, replayed):
    code, result = replayed(recorded("mirrored_pool").out, "mirrored_pool", "loss")
    assert code == 0, result["first_difference"]
    (note,) = noted(result, KINK)
    assert re.match(f"\\d tensors of step 0, tower_grad/[01]/{KERNEL} first, are at a non-differentiable point", note)
    assert result["levels"]["float32"]["verdict"] == "same"
    assert races(result) == []


@pytest.mark.slow
@pytest.mark.parametrize("model", ["Averages", "Overlaps"])
def test_another_pool_beside_a_tie_is_different(recorded, replayed, model):
    code, result = replayed(recorded("mirrored_pool").out, "mirrored_pool", "loss", model=model)
    assert (code, result["first_difference"]["key"]) == (1, "act/0/net/conv/MaxPool")
    assert noted(result, KINK) == []


@pytest.mark.slow
def test_another_momentum_beside_a_tie_is_found_and_named(recorded, replayed):
    own = "optimizer_with_another_momentum"
    code, result = replayed(recorded("mirrored_pool").out, "mirrored_pool", "loss", optimizer=own)
    first = result["first_difference"]
    assert (code, first["step"], first["quantity"]) == (1, 1, "slot")
    assert result["levels"]["function"]["causes"][0]["name"] == "momentum"
    assert len(noted(result, KINK)) == 1


@pytest.mark.slow
def test_a_right_port_with_a_bias_before_a_norm_is_the_same_and_said_to_be_empty(recorded, replayed):
    code, result = replayed(recorded("bias_before_norm").out, "bias_before_norm", "loss")
    assert code == 0, result["first_difference"]
    assert noted(result, EMPTY) == [f"{BIAS}: {EMPTY}"]
    assert races(result) == []


@pytest.mark.slow
def test_another_beta2_beside_an_empty_gradient_is_found_and_named(recorded, replayed):
    own = "optimizer_with_another_beta2"
    code, result = replayed(recorded("bias_before_norm").out, "bias_before_norm", "loss", optimizer=own)
    assert (code, result["first_difference"]["quantity"]) == (1, "slot")
    assert result["levels"]["function"]["causes"][0]["name"] == "adam_beta"


@pytest.mark.slow
def test_a_bias_with_an_empty_gradient_that_is_moved_by_something_else_is_found(recorded, replayed):
    own = "optimizer_that_nudges_the_bias"
    code, result = replayed(recorded("bias_before_norm").out, "bias_before_norm", "loss", optimizer=own)
    assert (code, result["first_difference"]["key"]) == (1, BIAS)
    different = {check["key"] for check in result["checks"] if check["verdict"] == "different"}
    assert different == {BIAS}


EVERY_STEP = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
import parity.trace.tie_breaking
parity.trace.tie_breaking.JUMP = -1.0
from tf_towers.shadow import make_shadow
make_shadow(sys.argv[1])
"""
LOSSES = {"two_optimizers": ("DAdam=d_loss", "GAdam=g_loss")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "optimizer", "note"),
    [
        ("two_optimizers", None, KINK),
        ("recurrent", None, KINK),
        ("ungated", "optimizer", KINK),
        ("two_optimizers", None, WITH_INPUTS),
        ("ungated", "optimizer", WITH_INPUTS),
    ],
)
def test_beside_a_kink_ports_of_every_kind_are_run_as_their_scripts_are(
    recorded, replayed, tf_python, tmp_path, name, optimizer, note
):
    """Gradients in the shadow are made wrong, as at a kink; beside it several losses, sparse ones, learning rates hold."""
    copy = tmp_path / "copy"
    shutil.copytree(recorded(name).out, copy)
    done = run(tf_python, ["-c", EVERY_STEP, str(copy)], tmp_path)
    assert done.returncode == 0, done.stderr
    for left in ("aside", "aside_with_inputs"):
        assert Trace(copy / "shadow" / left).step_numbers == Trace(copy, whole=False).step_numbers
    if note == WITH_INPUTS:
        shutil.rmtree(copy / "shadow" / "aside")
    for folder in (copy / "shadow", copy / "shadow" / "free"):
        step = Trace(folder).step(1)
        wrong = {text for text in step.names() if quantity_of(text) == "grad" and not text.endswith(".indices")}
        changed = {text: step.read(text) * (1.001 if text in wrong else 1) for text in step.names()}
        write_tensors(str(folder / "step-000001.safetensors"), changed)
    code, result = replayed(copy, name, *LOSSES.get(name, ("loss",)), optimizer=optimizer)
    assert code == 0, result["first_difference"]
    assert len(noted(result, note)) == 1  # of several optimizers the second one trains in this step


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [("mirrored_pool", "tower_grad"), ("bias_before_norm", "var")])
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "make it again with python -m tf_towers.shadow, where TensorFlow is"),
        ({"rounding": "it was not finished"}, "it was not finished"),
    ],
)
def test_with_a_shadow_of_before_no_such_rule_applies_and_the_report_says_so(
    recorded, replayed, tmp_path, name, first, told, said
):
    copy = tmp_path / "copy"
    shutil.copytree(recorded(name).out, copy)
    for left in ("aside", "aside_with_inputs", "empty"):
        shutil.rmtree(copy / "shadow" / left)
    (copy / "shadow.json").write_text(json.dumps({"made": True, "reason": "", "free": "", **told}))
    code, result = replayed(copy, name, "loss")
    assert (code, result["first_difference"]["quantity"]) == (1, first)
    (note,) = [note for note in result["levels"]["function"]["notes"] if "a right port may be called different" in note]
    assert note.endswith(said)
