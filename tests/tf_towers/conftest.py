import importlib.util
import sys

import pytest

from .tf_child import TfChild


@pytest.fixture(scope="session")
def tf(tf_python, tmp_path_factory):
    """A process with TensorFlow that runs functions: TensorFlow 2.x, then genuine 1.15."""
    if tf_python == sys.executable and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs TensorFlow 2: pip install tensorflow tf_keras")
    child = TfChild(tf_python, tmp_path_factory.mktemp("tf"))
    yield child
    child.close()
