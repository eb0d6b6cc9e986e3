"""What a case may say of the update, each against its torch twin: level 1 and 2, real towers against real ranks."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.tiers import few

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case

SQUARE = Path(__file__).parents[1] / "cases" / "square"
DECAYING = {"schedule": "exponential_decay", "learning_rate": 0.05, "decay_steps": 2, "decay_rate": 0.9}
OPTIONS = {
    "nesterov": {"name": "momentum", "learning_rate": 0.05, "momentum": 0.9, "use_nesterov": True},
    "rmsprop": {"name": "rmsprop", "learning_rate": 0.01},
    "rmsprop, centered, with momentum": {"name": "rmsprop", "learning_rate": 0.01, "centered": True, "momentum": 0.5},
    "adagrad": {"name": "adagrad", "learning_rate": 0.05},
    "adadelta": {"name": "adadelta", "learning_rate": 0.5},
    "ftrl": {"name": "ftrl", "learning_rate": 0.05, "l1_regularization_strength": 0.001},
    "clipped by global norm": {"name": "sgd", "learning_rate": 0.05, "clip": {"by": "global_norm", "limit": 0.1}},
    "clipped by norm": {"name": "adam", "clip": {"by": "norm", "limit": 0.05}},
    "clipped by value": {"name": "sgd", "learning_rate": 0.05, "clip": {"by": "value", "limit": 0.01}},
    "averages": {"name": "sgd", "learning_rate": 0.05, "ema": {"decay": 0.99, "num_updates": True}},
    "weight decay": {"name": "sgd", "learning_rate": 0.05, "weight_decay": {"coefficient": 0.01}},
    "weight decay of kernels": {"name": "adam", "weight_decay": {"coefficient": 0.01, "only": "kernel"}},
    "accumulated": {"name": "momentum", "learning_rate": 0.05, "momentum": 0.9, "accumulate": 3},
    "accumulated as a sum": {"name": "sgd", "learning_rate": 0.05, "accumulate": {"steps": 2, "reduce": "sum"}},
    "scaled losses": {"name": "sgd", "learning_rate": 0.05, "loss_scale": 3.7},
    "a loss scale that grows": {"name": "adam", "loss_scale": {"initial": 64.0, "growth_interval": 2}},
    "accumulated, scaled, decayed, clipped": {
        "name": "adam",
        "accumulate": 2,
        "loss_scale": {"initial": 64.0, "growth_interval": 2},
        "clip": {"by": "global_norm", "limit": 0.1},
        "weight_decay": {"coefficient": 0.01},
    },
    "exponential decay": {"name": "sgd", "learning_rate": DECAYING},
    "staircase": {"name": "adam", "learning_rate": {**DECAYING, "staircase": True}},
    "piecewise": {
        "name": "sgd",
        "learning_rate": {"schedule": "piecewise_constant", "boundaries": [1, 2], "values": [0.1, 0.05, 0.01]},
    },
    "polynomial": {
        "name": "momentum",
        "momentum": 0.9,
        "learning_rate": {"schedule": "polynomial_decay", "learning_rate": 0.1, "decay_steps": 4},
    },
    "cosine": {
        "name": "sgd",
        "learning_rate": {"schedule": "cosine_decay", "learning_rate": 0.1, "decay_steps": 4},
    },
}
# What differs from another one in a number, or in a law that is proven on arrays elsewhere.
SLOW = (
    "rmsprop, centered, with momentum",
    "clipped by value",
    "weight decay of kernels",
    "accumulated as a sum",
    "a loss scale that grows",
    "staircase",
    "polynomial",
    "cosine",
)


def case_of(table, **changes):
    optimizer = TypeAdapter(AnyOptimizer).validate_python(table)
    return load_case(SQUARE, steps=5).model_copy(update={"optimizer": optimizer, **changes})


def explain(result):
    return "\n".join(f"{level.reason} {level.first_difference}" for level in result.levels.values())


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("option", few(OPTIONS, *set(OPTIONS).difference(SLOW)))
def test_an_option_of_the_update_is_the_same_on_both_sides(sides, option, levels):
    result = run_case(case_of(OPTIONS[option]), sides, levels)
    assert result.verdict == "same", explain(result)
    judged = {check.key.split("/")[0] for check in result.levels["function"].checks if check.verdict == "same"}
    assert {"clip": "clip", "ema": "ema"}.get(next(iter({"clip", "ema"} & set(OPTIONS[option])), ""), "var") in judged


def test_every_micro_batch_has_its_own_part_in_the_verdict(tf2_sides):
    table = {
        "name": "sgd",
        "learning_rate": 0.05,
        "accumulate": 3,
        "loss_scale": {"initial": 8.0, "growth_interval": 2},
    }
    result = run_case(case_of(table), tf2_sides)
    assert result.verdict == "same", explain(result)
    judged = {check.key for check in result.levels["function"].checks if check.verdict == "same"}
    for tower in ("0.0", "0.2", "1.1"):
        for quantity in ("feed", "act", "loss", "tower_grad"):
            assert any(f"{key}/".startswith(f"{quantity}/{tower}/") for key in judged), (quantity, tower)
    assert {"state/loss_scale", "state/good_steps", "state/skipped"} <= judged
    assert not any(check.key.startswith("tower_grad/0/") for check in result.levels["function"].checks)


def test_micro_batches_that_are_not_divided_by_their_number_are_found(tf2_sides, tmp_path):
    import shutil

    shutil.copytree(SQUARE, tmp_path / "square")
    port = (tmp_path / "square" / "model_torch.py").read_text()
    assert ".mean(), {" in port
    (tmp_path / "square" / "model_torch.py").write_text(port.replace(".mean(), {", ".mean() * 3, {"))
    table = {"name": "sgd", "learning_rate": 0.05, "accumulate": 3}
    optimizer = TypeAdapter(AnyOptimizer).validate_python(table)
    case = load_case(tmp_path / "square", steps=2).model_copy(update={"optimizer": optimizer})
    first = run_case(case, tf2_sides, levels=("function",)).first_difference
    assert (first.check.step, first.quantity, first.tower) == (0, "loss", "0.0")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("variables", ["first_gpu", "balanced", "replicated"])
def test_where_the_variables_live_changes_nothing(sides, variables, levels):
    case = case_of(OPTIONS["nesterov"])
    case = case.model_copy(update={"tf": case.tf.model_copy(update={"variables": variables})})
    result = run_case(case, sides, levels)
    assert result.verdict == "same", explain(result)
    assert result.reference["variables_on"] == variables


def test_a_schedule_that_stands_still_is_found_in_the_learning_rate(tf2_sides, tmp_path):
    import shutil

    shutil.copytree(SQUARE, tmp_path / "square")
    (tmp_path / "square" / "late.py").write_text(
        "from torch_ddp.like_tf import GradientDescent\n\n\ndef make(model):\n"
        "    return GradientDescent(model.parameters(), lr=0.05)\n"
    )
    case = load_case(tmp_path / "square", steps=5)
    changes = {"optimizer": case_of(OPTIONS["exponential decay"]).optimizer}
    changes["torch"] = case.torch.model_copy(update={"optimizer": "late:make"})
    result = run_case(case.model_copy(update=changes), tf2_sides, levels=("function",))
    first = result.first_difference
    assert (first.check.step, first.check.key) == (1, "state/learning_rate")
    assert result.causes[0].name == "slow_schedule"
