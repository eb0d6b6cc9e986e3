"""Every variant of tower training that torch can express, against its torch twin: float64, 8 steps, one to four towers.

Each choice and each option in one such run, at one of the numbers of towers; test_options.py and test_tower_choices.py have
them all in runs of another length.
"""

import pytest
from test_options import OPTIONS
from test_several_optimizers import SECOND, made
from test_tower_choices import CHOICES, SGD, case_of, explain, judged

from parity.experiment import run_case

WHOLE = {"batch_size": 72, "steps": 8}  # twice what schedules decay in, four times what a loss scale grows after
SPARSE = [("slices", "model_torch:Model"), ("slices_unscaled", "model_torch:Model"), ("dense", "model_torch:dense")]
TOWERS = pytest.mark.parametrize("towers", [1, 2, 3, 4])


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


def same(sides, case):
    result = run_case(case, sides, levels=("function",))
    assert result.verdict == "same", explain(result)
    steps = {check.step for check in result.levels["function"].checks if check.run == "lockstep"}
    assert steps == set(range(case.steps))
    return judged(result)


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_of_the_towers(sides, choice, towers):
    tf, optimizer = CHOICES[choice]
    same(sides, case_of("square", tf, optimizer, towers=towers, **WHOLE))


@pytest.mark.slow
@pytest.mark.thinned(1)
@pytest.mark.parametrize(("towers", "combine"), [(1, "mean"), (2, "sum"), (3, "mean"), (4, "sum")])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_the_update(sides, option, combine, towers):
    same(sides, case_of("square", {}, OPTIONS[option], combine=combine, towers=towers, **WHOLE))


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
@pytest.mark.parametrize("variables", ["cpu", "first_gpu", "balanced", "replicated"])
def test_every_placement(sides, variables, towers):
    same(sides, case_of("square", {"variables": variables}, OPTIONS["nesterov"], towers=towers, **WHOLE))


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
@pytest.mark.parametrize("reduce", ["examples", "mean"])
@pytest.mark.parametrize("uneven", ["drop", "pad", "sizes"])
def test_every_policy_for_batches_that_do_not_divide(sides, uneven, reduce, towers):
    same(sides, case_of("ragged", {"uneven": uneven, "reduce": reduce}, towers=towers, steps=8))


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
@pytest.mark.parametrize(("sparse", "model"), SPARSE)
@pytest.mark.parametrize("clip", [None, "tower", "combined"])
def test_every_form_of_sparse_gradients(sides, sparse, model, clip, towers):
    # Dense gradients of the port have the norm of summed rows; only towers that sum them have it too.
    by = {"by": "global_norm", "limit": 0.05, "at": clip, "sum_duplicates": sparse == "dense" and clip == "tower"}
    optimizer = {**SGD, "clip": by} if clip else {"name": "momentum", "learning_rate": 0.05, "momentum": 0.9}
    found = same(sides, case_of("rows", {"sparse": sparse}, optimizer, {"model": model}, towers=towers, **WHOLE))
    assert "grad/table" in found


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
def test_batch_norm_over_all_towers(sides, towers):
    found = same(sides, case_of("joined", {"batch_norm": "synchronised"}, towers=towers, **WHOLE))
    assert {f"tower_grad/{index}/first/kernel" for index in range(towers)} <= found
    assert {"stat/norm1/moving_mean", "stat/norm2/moving_variance", "eval/second", "eval/ema/loss"} <= found


@pytest.mark.slow
@pytest.mark.thinned(1)
@TOWERS
def test_several_optimizers(sides, towers):
    same(sides, case_of("duel", {}, towers=towers, **WHOLE))
    same(sides, case_of("square", {}, SGD, optimizers={"head": made(SECOND)}, towers=towers, **WHOLE))


def test_one_tower_and_four_agree_to_rounding_under_a_mean_and_not_under_a_sum(tf2_sides, tmp_path):
    from parity.trace import Trace

    losses = {}
    for combine in ("mean", "sum"):
        for towers in (1, 4):
            out = tmp_path / f"{combine}-{towers}"
            case = case_of("square", {}, SGD, combine=combine, towers=towers, batch_size=24, steps=3)
            assert run_case(case, tf2_sides, levels=("function",), out=out).verdict == "same"
            losses[combine, towers] = Trace(out / "tf" / "free").step(2).read("var/first/kernel")
    moved = abs(losses["mean", 1]).max()
    assert abs(losses["mean", 4] - losses["mean", 1]).max() <= 1e-14 * moved
    assert abs(losses["sum", 4] - losses["mean", 1]).max() > 1e-3 * moved
    assert (losses["sum", 1] == losses["mean", 1]).all()
