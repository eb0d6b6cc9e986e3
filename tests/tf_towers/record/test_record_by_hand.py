"""Updates that a script writes itself: what they are fed, their slots, and what planning them costs."""

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import run

ROOT = Path(__file__).parents[3]
COUNTING = str(Path(__file__).with_name("count_planning.py"))


@pytest.fixture(scope="module")
def planned(this_python, tmp_path_factory):
    done = run(this_python, [COUNTING, "10", "40"], tmp_path_factory.mktemp("planned"), PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_planning_costs_as_many_calls_for_each_weight_however_many_there_are(planned):
    few, many = planned
    assert (few["pairs"], many["pairs"]) == (10, 40)
    assert many["calls"] < 1.5 * 4 * few["calls"]


def test_slots_go_by_what_they_hold_whatever_the_script_calls_them(planned):
    assert planned[0]["slots"] == {"m": "w1_adam_v", "v": "Variable_2"}


def test_gradients_are_applied_as_they_are_clipped(planned):
    assert set(planned[0]["applied"]) == {"Identity"}


def test_a_fed_rate_is_recorded_as_it_was_fed_and_slots_without_a_name_belong_to_their_weights(recorded):
    done = recorded("fed_rate")
    assert done.code == 0, done.said
    rates = [done.trace.step(number).read("state/learning_rate") for number in range(4)]
    assert [float(rate) for rate in rates] == [0.1 * 0.7**number for number in range(4)]
    assert done.trace.facts["slots"] == ["momentum"]
    before, after = done.trace.step(1), done.trace.step(2)
    for name in ("w1", "w2"):
        slot = 0.9 * before.read(f"slot/momentum/{name}") + after.read(f"grad/{name}")
        np.testing.assert_allclose(after.read(f"slot/momentum/{name}"), slot, rtol=1e-5, atol=1e-8)
    assert "shadow: in float64 beside the trace" in done.said


def test_a_port_of_an_update_with_a_fed_rate_is_the_same_and_one_with_another_rate_is_not(recorded, replayed):
    trace = recorded("fed_rate").out
    code, result = replayed(trace, "fed_rate", "loss", optimizer="optimizer")
    assert code == 0, result["first_difference"]
    assert any(check["key"] == "slot/momentum/w1" for check in result["checks"])
    code, result = replayed(trace, "fed_rate", "loss", optimizer="optimizer_with_another_rate")
    assert code == 1
