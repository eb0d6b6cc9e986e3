"""What a case may say of the towers, each choice against its torch twin: level 1 and 2, real towers against real ranks."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.tiers import few

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case

CASES = Path(__file__).parents[1] / "cases"
SGD = {"name": "sgd", "learning_rate": 0.05}
DECAY = {**SGD, "weight_decay": {"coefficient": 0.01}}
TOWER_CLIP = {**SGD, "clip": {"by": "global_norm", "limit": 0.1, "at": "tower"}}
# Name: what [tf] says, what [optimizer] says.
CHOICES = {
    "prescaled": ({"reduce": "prescaled"}, SGD),
    "mean of losses": ({"reduce": "mean_of_losses"}, SGD),
    "examples, all shards alike": ({"reduce": "examples"}, SGD),
    "slices": ({"cut": "slices"}, SGD),
    "feeds": ({"cut": "feeds"}, SGD),
    "queue": ({"cut": "queue"}, SGD),
    "iterator": ({"cut": "iterator"}, {**SGD, "accumulate": 2}),
    "auto_reuse": ({"share": "auto_reuse"}, SGD),
    "reuse_variables": ({"share": "reuse_variables"}, SGD),
    "make_template": ({"share": "make_template"}, SGD),
    "model_first": ({"share": "model_first"}, SGD),
    "grouped updates": ({"update_ops": "grouped"}, SGD),
    "decay in every tower": ({"regularization": "every_tower"}, DECAY),
    "decay by scope": ({"regularization": "scoped"}, DECAY),
    "decay divided": ({"regularization": "divided"}, DECAY),
    "decay in the first tower": ({"regularization": "first_tower"}, DECAY),
    "decay in the last tower": ({"regularization": "last_tower"}, DECAY),
    "decay once": ({"regularization": "once"}, DECAY),
    "clipped in the towers": ({}, TOWER_CLIP),
    "clipped by norm in the towers": ({}, {**SGD, "clip": {"by": "norm", "limit": 0.05, "at": "tower"}}),
    "clipped by value in the towers": ({}, {**SGD, "clip": {"by": "value", "limit": 0.01, "at": "tower"}}),
    "micro-batches clipped": ({}, {**TOWER_CLIP, "accumulate": 3}),
    "clipped in the towers, scaled": ({"reduce": "prescaled"}, {**TOWER_CLIP, "loss_scale": {"initial": 8.0}}),
}

# How else a graph comes to the same gradients; tests of tf_towers compare the graphs themselves.
SLOW = (
    "auto_reuse",
    "reuse_variables",
    "make_template",
    "slices",
    "feeds",
    "grouped updates",
    "decay by scope",
    "decay in the first tower",
    "decay in the last tower",
    "clipped by norm in the towers",
    "clipped by value in the towers",
)


def case_of(name, tf, optimizer=None, torch=None, **changes):
    case = load_case(CASES / name)
    described = TypeAdapter(AnyOptimizer).validate_python(optimizer) if optimizer else case.optimizer
    sides = {"tf": case.tf.model_copy(update=tf), "torch": case.torch.model_copy(update=torch or {})}
    return case.model_copy(update={**sides, "optimizer": described, **changes})


def explain(result):
    return "\n".join(f"{level.reason} {level.first_difference} {level.causes}" for level in result.levels.values())


def judged(result):
    return {check.key for check in result.levels["function"].checks if check.verdict == "same"}


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("choice", few(CHOICES, *set(CHOICES).difference(SLOW)))
def test_a_choice_of_the_towers_is_the_same_in_its_torch_twin(sides, choice, levels):
    tf, optimizer = CHOICES[choice]
    result = run_case(case_of("square", tf, optimizer), sides, levels)
    assert result.verdict == "same", explain(result)
    asked = {"reduce": "combine"}
    for name, value in tf.items():
        told = result.reference[asked[name]] if name in asked else result.reference["plan"][name]
        assert told == value
    if optimizer.get("clip"):
        assert any(key.startswith("tower_clip/0") for key in judged(result))
        assert not any(key.startswith("clip/") for key in judged(result))


@pytest.mark.covering(1)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("reduce", ["examples", "mean"])
@pytest.mark.parametrize("uneven", ["drop", "pad", "sizes"])
def test_batches_that_do_not_divide_are_the_same_under_every_policy(sides, uneven, reduce, levels):
    result = run_case(case_of("ragged", {"uneven": uneven, "reduce": reduce}), sides, levels)
    assert result.verdict == "same", explain(result)
    assert ("feed/2/example_weights" in judged(result)) == (uneven == "pad")


def test_a_plain_mean_over_ragged_shards_is_not_the_weighted_one(tf2_sides):
    result = run_case(case_of("ragged", {}, torch={"combine": "mean"}), tf2_sides, levels=("function",))
    first = result.first_difference
    assert (first.quantity, first.check.step) == ("grad", 0)


@pytest.mark.covering(1)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("sparse", ["slices", "slices_unscaled", "dense"])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_sparse_gradients_move_the_same_rows(sides, sparse, optimizer, levels):
    described = {"name": optimizer, **({"momentum": 0.9} if optimizer == "momentum" else {}), "learning_rate": 0.05}
    model = "model_torch:dense" if sparse == "dense" else "model_torch:Model"
    result = run_case(case_of("rows", {"sparse": sparse}, described, {"model": model}), sides, levels)
    assert result.verdict == "same", explain(result)
    assert {"grad/table", "tower_grad/1/table"} <= judged(result)


def test_a_port_with_dense_gradients_moves_rows_that_momentum_in_slices_leaves_alone(tf2_sides):
    result = run_case(case_of("rows", {}, torch={"model": "model_torch:dense"}), tf2_sides, levels=("function",))
    assert result.verdict == "different"
    assert result.first_difference.check.key == "slot/momentum/table"


@pytest.mark.covering(1)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("at", ["tower", "combined"])
@pytest.mark.parametrize("sum_duplicates", [False, True])
def test_norms_of_rows_count_duplicates_as_the_towers_do(sides, at, sum_duplicates, levels):
    clip = {"by": "global_norm", "limit": 0.05, "at": at, "sum_duplicates": sum_duplicates}
    result = run_case(case_of("rows", {}, {**SGD, "clip": clip}), sides, levels)
    assert result.verdict == "same", explain(result)


@pytest.mark.covering(1)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("reduce", ["mean", "sum", "examples"])
@pytest.mark.parametrize("missing", ["zeros", "present", "skip"])
def test_a_layer_that_some_towers_lack_is_the_same_under_every_policy(sides, missing, reduce, levels):
    combine = "sum" if reduce == "sum" else "mean"
    result = run_case(case_of("parts", {"missing": missing, "reduce": reduce}, combine=combine), sides, levels)
    assert result.verdict == "same", explain(result)
    assert ("grad/second/kernel" in judged(result)) == (missing != "skip")
    assert "tower_grad/2/second/kernel" in judged(result)
    assert "tower_grad/1/second/kernel" not in judged(result)
