"""Shares the stage among the tests of the lessons."""

import importlib.util

import pytest
from lesson_stage import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    for name, extra in (("tensorflow", "tf"), ("torch", "torch")):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install 'tower-parity[{extra}]'")
    stage = Stage(tmp_path_factory.mktemp("lessons"))
    yield stage
    stage.close()
