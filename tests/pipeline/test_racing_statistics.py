"""Statistics that all towers write at once: judged against the possible orders, and the race reported."""

from pathlib import Path

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment import run_case
from parity.judge.races import kept_part, outcomes

NORMED = Path(__file__).parents[1] / "cases" / "normed"


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


def statistics(result, run="lockstep"):
    return [c for c in result.levels["function"].checks if c.key.startswith("stat/") and c.run == run]


@pytest.mark.parametrize(
    "towers", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_racing_statistics_are_what_one_of_the_possible_orders_gives_and_the_report_says_so(sides, towers):
    result = run_case(load_case(NORMED, towers=towers, steps=3), sides)
    assert result.verdict == "same", "\n".join(
        f"{level.reason} {level.first_difference}" for level in result.levels.values()
    )
    notes = result.levels["function"].notes
    if towers == 1:
        assert not any("races" in note for note in notes)
        return
    assert (
        "the reference races: all towers write stat/norm/moving_mean, stat/norm/moving_variance without an order"
        in notes[0]
    )
    assert f"{6} of 6 are what one of the possible orders gives" in notes[0]
    assert {check.note.split(": ")[0] for check in statistics(result)} == {"as in the order"}
    assert {check.verdict for check in statistics(result, "free")} == {"not_run"}
    assert result.reference["racing_statistics"] == ["norm/moving_mean", "norm/moving_variance"]


def test_a_port_whose_statistics_move_by_less_gives_what_no_order_gives(tf2_sides):
    case = load_case(NORMED, steps=2)
    port = case.torch.model_copy(update={"model": "model_torch:slower"})
    result = run_case(case.model_copy(update={"torch": port}), tf2_sides)
    assert result.verdict == "different"
    assert result.first_difference.quantity == "stat"
    wrong = [check for check in statistics(result) if check.verdict == "different"]
    assert wrong[0].note == "none of 12 possible orders gives it"


def moved(before, own, order, decay=0.5):
    value = before
    for tower in order:
        value = decay * value + (own[tower] - decay * before)
    return value


def test_the_orders_hold_every_sequence_and_the_reads_before_all_writes():
    before, decay = np.array([1.0, -2.0]), np.asarray(0.5)
    alone = [np.array([2.0, 0.0]), np.array([-1.0, 3.0]), np.array([0.0, 0.5])]
    found = {outcome.order: outcome.value for outcome in outcomes(before, alone, decay)}
    assert len(list(outcomes(before, alone, decay))) == 2 * 90
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        name = ", ".join(f"read {tower}, write {tower}" for tower in order)
        np.testing.assert_allclose(found[name], moved(before, alone, order), rtol=1e-15)
    values = [outcome.value for outcome in outcomes(before, alone, decay)]
    all_read_first = before + sum(each - before for each in alone)
    last_write_wins = alone[1]
    for expected in (all_read_first, last_write_wins):
        assert any(np.allclose(value, expected, rtol=1e-15) for value in values)


def test_what_an_update_keeps_is_one_number_where_the_elements_agree():
    once = np.array([0.3, 100.0, -5.0])
    np.testing.assert_allclose(kept_part(once, once + 0.9, 1.0), 0.9, rtol=1e-12)
    assert kept_part(once, once + 0.9, 1.0).shape == ()
    assert kept_part(once, once + np.array([0.9, 0.8, 0.9]), 1.0).shape == (3,)
