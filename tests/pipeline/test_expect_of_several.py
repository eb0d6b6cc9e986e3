"""A loss that a port scales on purpose, where several optimizers have losses of their own."""

from test_tower_choices import case_of, explain

from parity.case.schema import Expect
from parity.experiment import run_case

A_QUARTER = Expect(why="the port counts examples otherwise", loss_factor=0.25)


def scaled(loss):
    case = case_of("duel", {}, torch={"loss": f"model_torch:{loss}"}, steps=2)
    return case.model_copy(update={"expect": A_QUARTER})


def test_every_loss_is_scaled_and_not_the_first_alone(tf2_sides):
    result = run_case(scaled("quartered"), tf2_sides, levels=("function",))
    assert result.verdict == "same", explain(result)
    alone = run_case(scaled("quartered_alone"), tf2_sides, levels=("function",))
    assert alone.verdict == "different"
    assert alone.first_difference.check.key.endswith("fooled") or "discriminator" in alone.first_difference.check.key
