import importlib.util
import os
import sys

import pytest
import torch

from .semantics_table import SemanticsTable
from .tf_child import TfChild


@pytest.fixture(scope="session")
def tf_children():
    children = {}
    yield children
    for child in children.values():
        child.close()


def _child(children, python):
    if python not in children:
        children[python] = TfChild(python)
    return children[python]


@pytest.fixture
def tf1(tf_children, request):
    """Genuine TensorFlow 1.15."""
    return _child(tf_children, request.getfixturevalue("tf1_python"))


@pytest.fixture
def tf2(tf_children):
    """TensorFlow 2.x, compat.v1 graph mode, in this interpreter."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs TensorFlow 2: pip install tensorflow tf_keras")
    return _child(tf_children, sys.executable)


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def tf(request):
    """Both TensorFlows, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def _semantics_table():
    refresh, worker = os.environ.get("REFRESH_SEMANTICS"), os.environ.get("PYTEST_XDIST_WORKER")
    assert not (refresh and worker), "one process has to see all rows: run without -n"
    table = SemanticsTable()
    yield table
    if refresh:
        table.write()


@pytest.fixture
def semantics(_semantics_table):
    """Takes one row of docs/semantics.md and checks that the committed page has it."""
    return _semantics_table.add
