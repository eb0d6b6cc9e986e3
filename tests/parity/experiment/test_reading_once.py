"""Comparing two traces reads no header twice, no value that nothing is asked of, and leaves Python as it was."""

import gc
from collections import Counter

import numpy as np
import pytest

from parity.experiment.compare import compare_traces
from parity.experiment.mapping import of_traces
from parity.mapping import MappingError
from parity.trace import TraceWriter
from parity.trace import safetensors as tensor_file


def write(folder, *names, moved=0.0):
    variables = {name: {"shape": [3], "kind": "weight"} for name in names}
    writer = TraceWriter(folder, {"package": "test"}, {"precision": "float32"}, variables)
    values = {
        name: np.arange(1, 4, dtype=np.float32) * np.float32(number + moved) for number, name in enumerate(names, 1)
    }
    writer.init({f"var/{name}": value for name, value in values.items()})
    for step in range(2):
        writer.step(step, {f"{each}/{name}": values[name] for each in ("grad", "var") for name in names})
    writer.close()
    return folder


@pytest.fixture
def headers(monkeypatch):
    read, as_it_is = Counter(), tensor_file.read_header
    monkeypatch.setattr(tensor_file, "read_header", lambda *each: read.update([each[-1]]) or as_it_is(*each))
    return read


def test_the_header_of_each_file_is_read_once(tmp_path, headers):
    assert compare_traces(write(tmp_path / "a", "x", "y"), write(tmp_path / "b", "x", "y")).verdict == "same"
    assert len(headers) == 6
    assert set(headers.values()) == {1}


def test_values_are_read_only_where_names_and_shapes_leave_something_open(tmp_path, monkeypatch):
    read, as_it_is = [], of_traces.values_of
    monkeypatch.setattr(of_traces, "values_of", lambda trace: read.append(trace) or as_it_is(trace))
    one = write(tmp_path / "a", "x", "y")
    compare_traces(one, write(tmp_path / "b", "x", "y"))
    assert read == []
    result = compare_traces(one, write(tmp_path / "c", "p", "q"))
    assert len(read) == 2
    assert result.verdict == "same"


def test_python_collects_again_afterwards_also_where_traces_are_refused(tmp_path):
    one = write(tmp_path / "a", "x", "y")
    assert gc.isenabled()
    compare_traces(one, one)
    assert gc.isenabled()
    with pytest.raises(MappingError):
        compare_traces(one, write(tmp_path / "b", "x"))
    assert gc.isenabled()
    gc.disable()
    try:
        compare_traces(one, one)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("facts", [{"towers": None}, {"ranks": None}, {}])
def test_towers_that_a_trace_says_nothing_of_are_one(tmp_path, facts):
    for side, value in (("a", 1.0), ("b", 2.0)):
        writer = TraceWriter(tmp_path / side, {"package": "test"}, facts, {})
        writer.init({})
        writer.step(0, {"loss/0": np.float64(value)})
        writer.close()
    assert compare_traces(tmp_path / "a", tmp_path / "b").verdict == "different"
