"""The training that every other one here must equal to the bit."""

from pathlib import Path

import pytest
from trainer import OPTIONS, SCRIPT, STEPS, finish, start


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory, torch_python) -> Path:
    """The folder that a training on two ranks leaves, started by python, in forks, and never stopped."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    started = start([torch_python, SCRIPT, "--gpus", 2, "--out", "out", "--steps", STEPS, *OPTIONS], folder)
    [log] = finish(started)
    assert (folder / "out" / "result.json").exists(), log
    return folder / "out"
