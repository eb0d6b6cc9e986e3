"""What is left of a run: all of it, single steps, or distances from another run."""

import numpy as np
import pytest

from parity.trace import RunWriter, Trace, TraceWriter

STATE = {"var/w": np.array([3.0, 4.0], np.float32)}
MOVED = {"var/w": np.array([3.0, 0.0], np.float32)}


def written(folder, arguments, tensors=MOVED):
    writer = TraceWriter(folder, {"package": "test"})
    left = RunWriter.of(writer, arguments, Trace)
    left.init(tensors)
    for number in (0, 1):
        left.step(number, tensors)
    writer.close()
    return Trace(folder)


def test_a_run_is_left_as_it_is(tmp_path):
    trace = written(tmp_path, {})
    assert trace.step_numbers == [0, 1]
    assert (trace.init().read("var/w") == MOVED["var/w"]).all()


def test_steps_that_nobody_asks_for_are_not_written(tmp_path):
    trace = written(tmp_path, {"written": [1], "initial": False})
    assert trace.step_numbers == [1]
    assert trace.init().names() == []


def test_distances_take_the_place_of_tensors(tmp_path):
    written(tmp_path / "once", {}, STATE)
    moved = {**MOVED, "var/other": np.zeros(3), "act/0/y": np.zeros(3)}
    trace = written(tmp_path / "moved", {"measured_from": str(tmp_path / "once")}, moved)
    for file in (trace.init(), trace.step(1)):
        assert file.names() == ["var/w"]
        assert file.read("var/w") == 4.0 and file.dtype("var/w") == "float64"


@pytest.mark.parametrize(("value", "expected"), [(np.zeros(3, np.float32), np.inf), (np.array([3, np.inf]), np.inf)])
def test_what_cannot_be_subtracted_is_infinitely_far(tmp_path, value, expected):
    written(tmp_path / "once", {}, STATE)
    trace = written(tmp_path / "moved", {"measured_from": str(tmp_path / "once")}, {"var/w": value})
    assert trace.step(0).read("var/w") == expected


def test_rows_of_a_sparse_gradient_stay_rows(tmp_path):
    rows = {"grad/t.values": np.ones((2, 3)), "grad/t.indices": np.array([4, 1])}
    written(tmp_path / "once", {}, rows)
    trace = written(tmp_path / "moved", {"measured_from": str(tmp_path / "once")}, rows)
    assert trace.step(0).read("grad/t.values").shape == (2, 3)
    assert trace.step(0).read("grad/t.indices").tolist() == [4, 1]


def test_a_step_is_taken_out_of_another_trace(tmp_path):
    once = written(tmp_path / "once", {}, STATE)
    writer = TraceWriter(tmp_path / "whole", {"package": "test"})
    writer.init({})
    writer.take_step(7, tmp_path / "once" / "step-000001.safetensors")
    writer.close()
    whole = Trace(tmp_path / "whole")
    assert whole.step_numbers == [7] and (whole.step(7).read("var/w") == STATE["var/w"]).all()
    assert once.step(0).names() == ["var/w"]
