"""What a rerun of the reference costs where the reference does not end its steps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment.recording import SidePaths
from parity.experiment.sides.rerun import Rerun
from parity.mapping.states import write_states
from parity.worker.failures import SideFailed, failure

SQUARE = Path(__file__).parents[2] / "cases" / "square"


class Failing:
    """A reference that fails whatever it is asked for, at once or because it does not end."""

    def __init__(self, hung) -> None:
        self.asked, self.hung = 0, hung

    def run_with_statistics(self, updates, inputs, spec):
        self.asked += 1
        raise SideFailed("tf", "expected to run the steps, got an error.", hung=self.hung)


@pytest.fixture(params=[True, False])
def failing(request, tmp_path):
    feeds = write_states(tmp_path / "feeds", [(0, {"feed/x": np.zeros((2, 2))})])
    reference = Failing(request.param)
    setup = SimpleNamespace(
        tf=reference, feeds=SidePaths(feeds, feeds), start=SidePaths(feeds, feeds), inputs={}, out=tmp_path
    )
    return reference, Rerun(load_case(SQUARE), setup, None, SidePaths(feeds, feeds))


def test_a_reference_is_not_asked_again_after_a_step_that_did_not_end_but_after_any_other_failure(failing):
    reference, rerun = failing
    with pytest.raises(SideFailed):
        rerun.repeat_reference(0)
    if reference.hung:
        assert rerun.repeat_reference(0) is None
    else:
        with pytest.raises(SideFailed):
            rerun.repeat_reference(0)
    assert reference.asked == (1 if reference.hung else 2)


@pytest.mark.parametrize(("kind", "hung"), [("DeadlineExceededError", True), ("InvalidArgumentError", False)])
def test_a_step_that_tensorflow_gives_up_is_told_from_one_that_fails(kind, hung):
    error = {"type": kind, "message": "Timed out waiting for notification", "traceback": "", "plain": False}
    assert failure("tf", "run", error).hung == hung
