"""Shares the stage among the tests of the lessons."""

import sys
from pathlib import Path

import pytest
from lesson_stage import Stage

sys.path.append(str(Path(__file__).parents[1] / "parity"))  # chromium.py, which drives the browser


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("lessons"))
    yield stage
    stage.close()
