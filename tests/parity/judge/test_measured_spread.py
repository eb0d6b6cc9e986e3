"""A spread that was measured is one distance for each tensor; anything else is refused by its name."""

import numpy as np
import pytest

from parity.judge.spread import MeasuredSpread
from parity.trace import Trace, TraceError, TraceWriter


def test_what_is_no_single_distance_is_refused(tmp_path):
    writer = TraceWriter(tmp_path / "t", {"package": "test"})
    writer.init({})
    writer.step(0, {"var/w": np.float64(3), "var/v": np.ones(2), "var/u": np.ones((1, 1))})
    writer.close()
    spread = MeasuredSpread(Trace(tmp_path / "t"), "")
    assert [spread.measured(0, text) for text in ("var/w", "var/u", "var/none")] == [3.0, 1.0, 0.0]
    with pytest.raises(TraceError, match="expected one distance, var/v"):
        spread.measured(0, "var/v")
    with pytest.raises(TraceError, match="by how much weights were moved, got no fact 'ulp'"):
        _ = spread.ulp
