"""What a rerun of the reference costs where the reference does not end its steps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment.recording import SidePaths
from parity.experiment.sides.rerun import Rerun
from parity.mapping.states import write_states
from parity.worker.failures import SideFailed

SQUARE = Path(__file__).parents[2] / "cases" / "square"


class Hanging:
    """A reference that gives up whatever it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def run_with_statistics(self, updates, inputs, spec):
        self.asked += 1
        raise SideFailed("tf", "expected a step to end within 60 s, got none.")


def test_a_reference_that_has_failed_once_is_not_asked_again(tmp_path):
    feeds = write_states(tmp_path / "feeds", [(0, {"feed/x": np.zeros((2, 2))})])
    reference = Hanging()
    setup = SimpleNamespace(
        tf=reference, feeds=SidePaths(feeds, feeds), start=SidePaths(feeds, feeds), inputs={}, out=tmp_path
    )
    rerun = Rerun(load_case(SQUARE), setup, None, SidePaths(feeds, feeds))
    with pytest.raises(SideFailed):
        rerun.repeat_reference(0)
    assert rerun.repeat_reference(0) is None
    assert reference.asked == 1
