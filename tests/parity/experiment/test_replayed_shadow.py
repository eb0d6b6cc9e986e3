"""A float64 shadow serves a replay only where it has every step."""

import json

import numpy as np
import pytest

from parity.experiment.replay.session import _shadow
from parity.trace import Trace, TraceWriter


def write(folder, steps, framework=""):
    writer = TraceWriter(folder, {"package": "test", "framework": framework})
    writer.init({})
    for number in steps:
        writer.step(number, {"loss/0": np.zeros(1)})
    writer.close()
    return folder


@pytest.mark.parametrize(
    ("steps", "whole"), [([0, 1, 2], True), ([0, 1, 2, 3], True), ([0, 1], False), ([0, 2], False), ([], False)]
)
def test_a_shadow_that_lacks_a_step_is_none(tmp_path, steps, whole):
    trace = Trace(write(tmp_path, [0, 1, 2]))
    write(tmp_path / "shadow", steps)
    shadow, why = _shadow(trace)
    assert (shadow is not None) is whole
    assert (why == "") is whole and (whole or "make it with python -m tf_towers.shadow" in why)


def test_why_there_is_no_shadow_is_told_as_it_was_written_down(tmp_path):
    trace = Trace(write(tmp_path, [0]))
    (tmp_path / "shadow.json").write_text(json.dumps({"made": False, "reason": "shadow: no such op"}))
    assert _shadow(trace) == (None, "shadow: no such op")


def test_a_pytorch_program_is_recorded_again_for_its_shadow(tmp_path):
    trace = Trace(write(tmp_path, [0], "torch 2.13.0"))
    assert _shadow(trace) == (None, "the trace has no float64 shadow: record it again with --shadow")
