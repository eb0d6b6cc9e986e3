"""A counter that an update reads beside its assignment: a hazard, and a port is judged by both orders."""

import numpy as np
import pytest

from parity.trace import Trace


def in_order(trace, shadow, number, late):
    """What the recorded weights become where the rate reads the counter before its update, or after."""
    before = trace.init() if number == 0 else trace.step(number - 1)
    step = shadow.step(number)
    rate = 0.25 * (float(step.read("state/t")) + late + 1) / 8
    return {
        name: before.read(f"var/{name}").astype(np.float64) - rate * step.read(f"slot/momentum/{name}")
        for name in shadow.variables
    }


def test_a_counter_that_is_read_beside_its_assignment_is_a_hazard(recorded):
    done = recorded("counted")
    (hazard,) = [each for each in done.trace.facts["hazards"] if each["name"] == "ungated_state"]
    assert "of state/t against Assign" in hazard["evidence"]
    assert "it flows into var/w" in hazard["evidence"]


def test_a_shadow_reads_a_counter_in_the_order_in_which_the_script_did_and_keeps_the_other_one(recorded):
    done = recorded("counted")
    shadow, other = Trace(done.out / "shadow"), Trace(done.out / "shadow" / "other_order")
    assert shadow.facts["racing"] == ["state/t"]
    for number in done.trace.step_numbers:
        early, late = (in_order(done.trace, shadow, number, late) for late in (0, 1))
        own = done.trace.step(number)
        for name in shadow.variables:
            key = f"var/{name}"
            orders = sorted((early[name], late[name]), key=lambda value: np.abs(value - own.read(key)).max())
            np.testing.assert_allclose(shadow.step(number).read(key), orders[0], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(other.step(number).read(key), orders[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["optimizer", "optimizer_that_counts_first"])
def test_a_port_may_take_either_order(recorded, replayed, optimizer):
    code, result = replayed(recorded("counted").out, "counted", "loss", optimizer=optimizer)
    assert code == 0, result["first_difference"]
    assert any("the script races: an update reads state/t in no order" in note for note in result["notes"])


def test_a_port_that_takes_neither_order_is_different(recorded, replayed):
    code, result = replayed(recorded("counted").out, "counted", "loss", optimizer="optimizer_that_counts_twice")
    assert code == 1
    assert result["levels"]["function"]["first_difference"]["quantity"] in ("state", "var")
