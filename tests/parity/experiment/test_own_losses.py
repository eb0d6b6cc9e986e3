"""Where a loss of an optimizer's own differs, that is the first difference, not the gradients of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.layers import place_at_own_loss
from parity.judge.result import Check, FirstDifference, Level


def level_of(metric, step=0):
    check = Check("lockstep", 0, "tower_grad/0/w", "different", 1.0, 1e-13)
    checks = [check, Check("lockstep", step, metric, "different", 0.5, 1e-14)]
    return Level("function", "different", "", checks, FirstDifference(check, "tower_grad", "w", "0", None))


def evidence():
    file = SimpleNamespace(read=lambda text: np.array(1.0))
    join = SimpleNamespace(read=lambda key, file: np.array(1.5))
    side = SimpleNamespace(step=lambda number: file)
    return SimpleNamespace(reference=side, candidate=side, join=join)


def test_a_loss_that_is_minimised_comes_before_its_gradients():
    level = level_of("metric/g_loss")
    was = level.first_difference
    first = place_at_own_loss(level, ["g_loss"], evidence()).first_difference
    assert (first.quantity, first.name, first.check.key) == ("loss", "g_loss", "metric/g_loss")
    assert first.decisive is was
    assert (first.worst.reference, first.worst.candidate) == (1.0, 1.5)


@pytest.mark.parametrize(("metric", "step"), [("metric/accuracy", 0), ("metric/g_loss", 1)])
def test_a_metric_and_a_later_step_do_not(metric, step):
    level = level_of(metric, step)
    assert place_at_own_loss(level, ["g_loss"], evidence()) is level
