"""Two bugs at once: what one does to the forward pass is mended, and what is left of the step names the other."""

import importlib
import sys
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case
from parity.experiment.plant import Planted, plant

ROOT = Path(__file__).parents[2]
MLP, CONVNET, LSTM = "digits_mlp", "digits_convnet", "text_lstm"
PAIRS = {
    "examples read twice, and a layer that learns faster": (
        MLP,
        [("one_example_twice", 1.0, "repeated_examples"), ("one_layer_learns_faster", 0.01, "gradient_factor")],
    ),
    "inputs off by a factor, and a tower that counts more": (
        MLP,
        [("inputs_scaled", 0.03, "input_scale"), ("the_last_rank_counts_more", 0.1, "some_towers")],
    ),
    "decay in the loss, and a tower left out": (
        MLP,
        [("biases_decay_too", 0.05, "weight_decay"), ("the_first_rank_counts_for_nothing", 1.0, "some_towers")],
    ),
    "gates in another order, and gradients that stay on their rank": (
        LSTM,
        [
            ("gates_in_the_order_of_tensorflow", 1.0, "gate_order"),
            ("gradients_of_ranks_are_not_shared", 1.0, "not_shared"),
        ],
    ),
    "the batch of the step before, and another momentum of batch norm": (
        CONVNET,
        [("the_batch_of_the_step_before", 1.0, "stale_batch"), ("torchs_default_momentum", 1.0, "batch_norm_momentum")],
    ),
    "another beta, and no correction of the moments": (
        MLP,
        [("another_beta1", 0.05, "adam_beta"), ("adam_without_bias_correction", 1.0, "bias_correction")],
    ),
    "an update uphill, with another beta": (
        MLP,
        [("uphill", 1.0, "sign"), ("another_beta1", 0.06, "adam_beta")],
    ),
    "torch's Adam, and another rate for biases": (
        MLP,
        [
            ("adam_of_torch", 1.0, "adam_epsilon_placement"),
            ("biases_learn_at_another_rate", 0.002, "learning_rate"),
        ],
    ),
    "decay in the optimizer, and Nesterov": (
        MLP,
        [
            ("weights_decay_in_the_optimizer", 0.03, "weight_decay"),
            ("nesterov_nobody_asked_for", 1.0, "nesterov"),
        ],
    ),
    "another momentum, and gradients clipped by value": (
        MLP,
        [("another_momentum", 0.3, "momentum"), ("clipped_by_value", 1.0, "clipping")],
    ),
    "a wrong start of the slots, and an update uphill": (
        MLP,
        [("accumulators_start_elsewhere", 1.0, "slot_initial_value"), ("uphill", 1.0, "sign")],
    ),
    "examples read twice, and no forget bias": (
        LSTM,
        [("one_example_twice", 1.0, "repeated_examples"), ("no_forget_bias", 1.0, "forget_bias")],
    ),
    "inputs centred elsewhere, which shows at the border alone behind batch norm, and another rate": (
        CONVNET,
        [("inputs_centred_elsewhere", 0.1, "input_shift"), ("another_learning_rate", 0.3, "learning_rate")],
    ),
    "sequences read backwards, and gates in another order, in one layer": (
        LSTM,
        [("sequences_read_backwards", 1.0, "reversed_input"), ("gates_in_the_order_of_tensorflow", 1.0, "gate_order")],
    ),
    "images transposed, and a bias that is not added, in one layer": (
        MLP,
        [("images_transposed", 1.0, "transposed_input"), ("a_bias_is_not_added", 0.02, "bias_missing")],
    ),
}
OF_MOMENTUM = {"nesterov_nobody_asked_for", "another_momentum"}


@pytest.fixture(scope="module")
def optimizers():
    """The bench's own table of optimizers."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "bugs"))
    try:
        nets = importlib.import_module("nets")
        yield {**nets.OPTIMIZERS, "full": nets.FULL}
    finally:
        sys.path.pop(0)
        for name in ("nets", "tables"):
            sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("what", PAIRS)
def test_both_of_two_bugs_are_named(tf2_sides, tmp_path, optimizers, what):
    net, bugs = PAIRS[what]
    case = load_case(ROOT / "examples" / net, steps=3, towers=2, batch_size=8)
    names = {bug for bug, _, _ in bugs}
    optimizer = "momentum" if OF_MOMENTUM & names else "adagrad" if "accumulators_start_elsewhere" in names else "adam"
    case = case.model_copy(update={"optimizer": optimizers[optimizer]})
    planted = [Planted(bug, size) for bug, size, _ in bugs]
    result = run_case(plant(case, planted, tmp_path / "planted", True), tf2_sides, levels=("function",))
    assert sorted(cause.name for cause in result.causes) == sorted(name for _, _, name in bugs)


@pytest.mark.slow
def test_a_factor_of_the_loss_that_does_not_reach_the_decay_added_behind_it_is_named_alone(
    tf2_sides, tmp_path, optimizers
):
    case = load_case(ROOT / "examples" / MLP, steps=3, towers=2, batch_size=8)
    case = case.model_copy(update={"optimizer": optimizers["full"]})
    port = plant(case, [Planted("loss_divided_by_the_wrong_count", 0.005)], tmp_path / "planted", False)
    result = run_case(port, tf2_sides, levels=("function",))
    assert [cause.name for cause in result.causes] == ["gradient_factor"]
    assert result.causes[0].evidence.endswith("; the factor does not reach what weights alone add")
