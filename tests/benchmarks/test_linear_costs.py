"""What the measurement of growing cases says of seconds and bytes that grow linearly, with the square, and not at all."""

import importlib.util
from pathlib import Path

import pytest

from parity.case import load_case

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "linear_costs.py"


@pytest.fixture(scope="module")
def linear_costs():
    spec = importlib.util.spec_from_file_location("linear_costs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_start_hides_no_growth(linear_costs, power):
    # 5 s and 1 MB that no size changes; what grows is counted from the smallest run, which is small beside the others.
    costs = [linear_costs.Cost(n, 5.0 + 1e-3 * n**power, int(1e6 + 50 * n**power)) for n in (1, 1000, 10_000)]
    seconds, left = linear_costs.exponents(costs)
    assert seconds == pytest.approx(power, abs=0.02)
    assert left == pytest.approx(power, abs=0.02)


def test_what_does_not_grow_has_no_exponent(linear_costs):
    assert linear_costs.exponents([linear_costs.Cost(n, 5.0, 100) for n in (1, 2, 4)]) == (0.0, 0.0)


@pytest.mark.parametrize("axis", ["steps", "towers", "variables"])
def test_a_case_is_of_the_size_asked_for(linear_costs, axis, tmp_path):
    linear_costs.write_case(tmp_path / "case", **{**linear_costs.USUAL, axis: 7})
    case = load_case(tmp_path / "case")
    layers = (tmp_path / "case" / "tower.py").read_text().count("range(7)")
    assert {"steps": case.steps, "towers": case.towers, "variables": 7 * layers}[axis] == 7
