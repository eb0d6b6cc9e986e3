"""Every mutation of the bench, planted once: found where it can show first, and called by its name."""

from pathlib import Path

import pytest

from parity.case import Adam, Momentum, load_case
from parity.prove import Planted, plant
from parity.run import run_case
from torch_ddp.planted import MUTATIONS, mutation

ROOT = Path(__file__).parents[1]


NETS = {
    "digits_mlp": {"relu", "images", "classes"},
    "digits_convnet": {"relu", "images", "classes", "conv", "batch_norm"},
}
OPTIMIZERS = {
    "adam": Adam(name="adam", learning_rate=1e-3),
    "momentum": Momentum(name="momentum", learning_rate=0.02, momentum=0.9),
}
# What no single tensor shows, because batch norm and pooling stand between the bug and the first recorded layer.
UNNAMED = {"padding_on_one_side", "average_for_the_largest"}


def where(mutation):
    """The smallest net and the optimizer that the mutation needs."""
    net = "digits_convnet" if set(mutation.needs) & {"conv", "batch_norm"} else "digits_mlp"
    return net, "momentum" if "momentum" in mutation.needs else "adam"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found_and_named(tf2_sides, tmp_path, name):
    mutation = MUTATIONS[name]
    net, optimizer = where(mutation)
    assert set(mutation.needs) <= NETS[net] | {optimizer}
    case = load_case(ROOT / "examples" / net, steps=3, towers=2, batch_size=12)
    case = case.model_copy(update={"optimizer": OPTIMIZERS[optimizer]})
    case = plant(case, Planted(name), tmp_path / "planted", mutation.family == "optimizer")
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.exit_code == 1
    assert result.first_difference.quantity in mutation.first
    if name in UNNAMED:
        assert result.causes == []
    else:
        assert result.causes[0].name in mutation.causes, [cause.title for cause in result.causes]
        assert result.causes[0].evidence and result.causes[0].fix


def test_a_mutation_is_registered_once():
    with pytest.raises(ValueError, match="expected a new name, got 'uphill' again"):
        mutation("optimizer")(MUTATIONS["uphill"].plant)
