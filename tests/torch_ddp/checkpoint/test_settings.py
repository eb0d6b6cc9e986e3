"""A resume asks what the checkpoint was made with."""

import pytest
import torch
from torch import nn

from torch_ddp import CheckpointError, Checkpoints, Progress, Rank

ALONE = Rank(0, 0, 1)
SAVED = {"--batch-size": 64, "--seed": 0, "--learning-rate": 0.05}


def checkpoints(folder, settings, **more):
    return Checkpoints(folder, ALONE, {"model": nn.Linear(1, 1)}, settings=settings, **more)


@pytest.fixture
def saved(tmp_path):
    checkpoints(tmp_path, SAVED).save(Progress(3, 0, 3))
    return tmp_path


@pytest.mark.parametrize("other", [{"--batch-size": 32}, {"--seed": 1}, {"--learning-rate": 0.050001}])
def test_another_setting_is_refused_and_nothing_loaded(saved, other):
    [(name, value)] = other.items()
    resumed = checkpoints(saved, {**SAVED, **other})
    before = resumed._parts["model"].weight.clone()
    with pytest.raises(CheckpointError) as error:
        resumed.resume()
    assert str(error.value) == (
        f"checkpoint: expected {name} {SAVED[name]}, as it was saved with, got {name} {value}. "
        "Resume with the same, override it knowingly, or begin anew in another folder."
    )
    assert torch.equal(resumed._parts["model"].weight, before)


def test_an_override_goes_on_and_says_so(saved):
    resumed = checkpoints(saved, {**SAVED, "--seed": 1}, override=True)
    with pytest.warns(UserWarning, match=r"^checkpoint: saved with --seed 0; goes on with --seed 1\.$"):
        assert resumed.resume() == Progress(3, 0, 3)
    assert resumed.overridden == {"--seed": (0, 1)}


@pytest.mark.parametrize("settings", [SAVED, {**SAVED, "--new": 1}, {}])
def test_the_same_settings_and_ones_that_were_not_there_are_no_difference(saved, settings):
    assert checkpoints(saved, settings).resume() == Progress(3, 0, 3)
