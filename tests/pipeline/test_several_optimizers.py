"""Several optimizers in one step, with one loss or with losses of their own: real towers against real ranks."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case

CASES = Path(__file__).parents[1] / "cases"
SECOND = {"only": "^second", "name": "adam", "learning_rate": 0.003}
CHOICES = {
    "one loss": {},
    "accumulated": {"accumulate": 3},
    "clipped, averaged, scaled": {
        "clip": {"by": "global_norm", "limit": 0.1},
        "ema": {"decay": 0.9},
        "loss_scale": {"initial": 8.0, "growth_interval": 2},
    },
}


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


def made(table):
    return TypeAdapter(AnyOptimizer).validate_python(table)


def explain(result):
    return "\n".join(f"{level.reason} {level.first_difference}" for level in result.levels.values())


def judged(result):
    return {check.key for check in result.levels["function"].checks if check.verdict == "same"}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("choice", CHOICES)
def test_a_part_of_the_variables_with_an_optimizer_of_its_own_is_the_same(sides, choice, levels):
    first = made({"name": "adam", "learning_rate": 0.001, **CHOICES[choice]})
    changes = {"optimizer": first, "optimizers": {"head": made(SECOND)}}
    result = run_case(load_case(CASES / "square", steps=4).model_copy(update=changes), sides, levels)
    assert result.verdict == "same", explain(result)
    expected = {"slot/m/first/kernel", "section/head/slot/m/second/kernel", "section/head/state/learning_rate"}
    assert expected | {"section/head/state/beta1_power", "state/beta1_power"} <= judged(result)
    assert "slot/m/second/kernel" not in judged(result)
    assert result.reference["optimizers"]["head"]["learning_rate"] == pytest.approx(0.003)


@pytest.mark.parametrize("variables", ["cpu", "replicated"])
def test_optimizers_with_losses_of_their_own_are_the_same(sides, variables):
    case = load_case(CASES / "duel")
    case = case.model_copy(update={"tf": case.tf.model_copy(update={"variables": variables})})
    result = run_case(case, sides)
    assert result.verdict == "same", explain(result)
    assert {"section/discriminator/slot/v/discriminator/kernel", "slot/v/generator/kernel"} <= judged(result)


def test_of_a_loss_that_another_optimizer_minimises_the_ops_and_the_term_are_named(sides):
    case = load_case(CASES / "duel", steps=1)
    changed = case.torch.model_copy(update={"loss": "model_torch:fooled_by_half"})
    result = run_case(case.model_copy(update={"torch": changed}), sides, ("function",))
    first, cause = result.first_difference, result.causes[0]
    assert (first.check.key, first.quantity) == ("metric/fooled", "loss")
    assert [line.text for line in first.lines] == [
        "fooled = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))",
        "fooled = softplus(-real).mean() + 0.5 * softplus(fake).mean()",
    ]
    assert cause.name == "loss_term" and "0.5 times" in cause.title
    keys = [check.key for check in result.levels["function"].checks if check.run == "lockstep"]
    assert keys.count("metric/fooled") == 1


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (
            {"only": "third"},
            "optimizers: expected 'third' of 'head' to be found in a variable's name, got first/kernel, ",
        ),
        ({"only": "."}, "optimizers: expected variables that no part takes, for the first optimizer, got none."),
        ({"loss": "second"}, "optimizers: expected the loss 'second' among the tower's scalar outputs, got none."),
    ],
)
def test_a_part_that_does_not_fit_the_tower_is_refused_in_a_line(tf2_sides, part, text):
    changes = {"optimizers": {"head": made({**SECOND, **part})}}
    with pytest.raises(Exception, match="optimizers: expected") as caught:
        run_case(load_case(CASES / "square", steps=1).model_copy(update=changes), tf2_sides)
    assert text in str(caught.value)
