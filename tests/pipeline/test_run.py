"""The main job: real TensorFlow towers against real DDP ranks, through the same processes as `parity run` uses."""

from pathlib import Path

import pytest

from parity.case import Adam, Case, Momentum, Sgd, load_case
from parity.experiment import Sides, run_case

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIMIZERS = {
    "sgd": Sgd(name="sgd", learning_rate=0.05),
    "momentum": Momentum(name="momentum", learning_rate=0.02, momentum=0.9),
    "adam": Adam(name="adam", learning_rate=1e-3),
}


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request) -> Sides:
    return request.getfixturevalue({"tf2": "tf2_sides", "tf1": "tf1_sides"}[request.param])


def changed(case: Case, **changes) -> Case:
    return case.model_copy(update=changes)


def example(name: str, towers: int, steps: int, **changes) -> Case:
    return changed(load_case(EXAMPLES / name, towers=towers, steps=steps, batch_size=12), **changes)


def explain(result) -> str:
    levels = result.levels.values()
    return "\n".join(f"{level.name}: {level.verdict} {level.reason} {level.first_difference}" for level in levels)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("towers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["digits_mlp", "digits_convnet"])
def test_a_right_port_is_the_same_down_to_rounding(sides, name, towers, combine, optimizer, record_property):
    steps = 4
    result = run_case(example(name, towers, steps, combine=combine, optimizer=OPTIMIZERS[optimizer]), sides)
    assert result.verdict == "same", explain(result)
    compared = [check for check in result.levels["function"].checks if check.verdict == "same"]
    gradients = [check for check in compared if check.key.startswith("grad/") and check.run == "lockstep"]
    assert len(gradients) == steps * {"digits_mlp": 4, "digits_convnet": 10}[name]
    # A bias in front of a batch norm has an update of nothing; what is left there is the last bit of the stored weight.
    beyond_the_last_bit = [check for check in compared if check.difference > 2.0**-53 * check.size]
    largest = max(check.of_scale for check in beyond_the_last_bit)
    record_property("largest_of_scale", largest)
    assert largest <= 1e-11
    assert {check.step for check in compared} == set(range(steps))


def test_towers_that_sum_against_ranks_that_average_are_found_and_named(tf2_sides):
    case = example("digits_mlp", 4, 3, combine="sum")
    case = changed(case, torch=case.torch.model_copy(update={"combine": "mean"}))
    result = run_case(case, tf2_sides)
    assert result.exit_code == 1
    first = result.first_difference
    assert (first.quantity, first.check.step, first.check.run) == ("grad", 0, "lockstep")
    assert result.causes[0].name == "sum_instead_of_mean"
    assert result.causes[0].title == "sum instead of mean, ratio 4"
    assert "the reference sums over 4 towers where the candidate averages" in result.causes[0].evidence


# Twenty seeds of one case are tried on arrays, in test_verdicts_of_a_run.py; two hundred right ports by the bench of bugs.
OF_SEEDS = [
    ("digits_mlp", 2, "mean", "momentum"),
    ("digits_mlp", 3, "sum", "sgd"),
    ("digits_mlp", 4, "mean", "adam"),
    ("digits_convnet", 1, "mean", "sgd"),
    ("digits_convnet", 2, "mean", "adam"),
    ("digits_convnet", 4, "sum", "momentum"),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(OF_SEEDS)))
def test_no_seed_raises_an_alarm(tf2_sides, seed):
    name, towers, combine, optimizer = OF_SEEDS[seed]
    case = example(name, towers, 4, combine=combine, optimizer=OPTIMIZERS[optimizer], seed=seed)
    result = run_case(case, tf2_sides)
    assert result.verdict == "same", explain(result)
