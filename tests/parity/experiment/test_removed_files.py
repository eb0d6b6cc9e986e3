"""What is known of a file of tensors that was removed, and what is made again when it is read."""

import numpy as np
import pytest

from parity.experiment.stepwise import on_demand
from parity.experiment.stepwise.on_demand import RemovedFile
from parity.trace import Trace, TraceWriter

TENSORS = {
    "loss/0": np.float32(1.5),
    "grad/kernel": np.arange(6, dtype=np.float64).reshape(2, 3),
    "state/global_step": np.int64(7),
}


@pytest.fixture
def removed(tmp_path, monkeypatch):
    """A file of which the gradient is large, and the steps for which it was made again."""
    monkeypatch.setattr(on_demand, "SMALL", 8)
    writer = TraceWriter(str(tmp_path / "trace"), {"package": "test"})
    writer.init({})
    writer.step(3, TENSORS)
    writer.close()
    trace, again = Trace(tmp_path / "trace"), []
    return RemovedFile(trace.step(3), 3, lambda step: again.append(step) or trace), again


def test_names_shapes_and_dtypes_are_known_of_a_file_that_is_removed(removed):
    file, again = removed
    assert sorted(file.names()) == sorted(TENSORS)
    assert file.names("grad") == ["grad/kernel"]
    assert {name: file.shape(name) for name in TENSORS} == {name: np.shape(each) for name, each in TENSORS.items()}
    assert {name: file.dtype(name) for name in TENSORS} == {
        "loss/0": "float32",
        "grad/kernel": "float64",
        "state/global_step": "int64",
    }
    assert "loss/0" in file and "loss/1" not in file
    assert again == []


def test_a_large_tensor_is_made_again_and_a_small_one_is_as_it_was(removed):
    file, again = removed
    for name in ("loss/0", "state/global_step"):
        assert np.array_equal(file.read(name), TENSORS[name])
    assert again == []
    assert np.array_equal(file.read("grad/kernel"), TENSORS["grad/kernel"])
    assert again == [3]
