"""Averages that the towers move beside the update: judged against old weights and new ones, and the race reported."""

import re
from pathlib import Path

import pytest

from parity.case import Adam, Ema, load_case
from parity.experiment import run_case

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


def averaged(**changes):
    case = load_case(EXAMPLES / "digits_mlp", towers=2, steps=3, batch_size=12)
    ema = Ema(decay=0.9, order="unordered", **changes)
    return case.model_copy(update={"optimizer": Adam(name="adam", learning_rate=1e-2, ema=ema)})


@pytest.mark.parametrize("num_updates", [False, True])
def test_averages_beside_the_update_are_those_of_old_weights_or_of_new_ones_and_the_report_says_so(sides, num_updates):
    result = run_case(averaged(num_updates=num_updates), sides, levels=("function", "float32"))
    assert result.verdict == "same", [(each.reason, each.first_difference) for each in result.levels.values()]
    function = result.levels["function"]
    assert re.match(
        r"the reference races: ema/.*/bias, ema/.*/kernel are updated unordered with the weights, and take the old "
        r"weights or the new ones, so that a step has several right results\. 12 of 12 are what one of the possible orders "
        r"gives",
        function.notes[0],
    )
    found = [check for check in function.checks if check.key.startswith("ema/")]
    assert {check.verdict for check in found if check.run == "free"} == {"not_run"}
    told = {check.note for check in found if check.run == "lockstep"}
    assert told <= {"as of the old weights", "as of the new weights", "as of the old weights and the new weights"}
    assert sorted(f"ema/{name}" for name in result.reference["racing_averages"]) == sorted(
        {check.key for check in found}
    )


@pytest.mark.slow
def test_a_trajectory_is_not_followed_where_the_reference_races_and_says_so(tf2_sides):
    result = run_case(averaged(), tf2_sides, levels=("trajectory",))
    level = result.levels["trajectory"]
    assert level.verdict == "same", level.reason
    assert not [check for check in level.checks if check.key.startswith("ema/")]
    assert [
        note for note in level.notes if note.startswith("not followed, for the reference writes them in no order: ema/")
    ]
