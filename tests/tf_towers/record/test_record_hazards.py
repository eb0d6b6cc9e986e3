"""One graph per hazard: each is found where it is planted, and nowhere else."""

import json
from pathlib import Path

import numpy as np
import pytest

from parity.trace import Trace

from .conftest import run

pytestmark = pytest.mark.both_tensorflows

ROOT = Path(__file__).parents[3]
EXPECTED = {
    "right": set(),
    "summed": {"sum_not_mean"},
    "summed_after_dividing_the_losses": {"sum_of_scaled_losses"},
    "same_batch_for_all": {"same_data"},
    "overlapping_slices": {"overlapping_data"},
    "uneven_slices": {"uneven_shards"},
    "paired_by_position": {"positional_pairing", "gradient_missing_in_some_towers"},
    "gradient_in_one_tower_only": {"gradient_missing_in_some_towers"},
    "loss_of_two_elements": {"loss_is_no_scalar"},
    "clipped_in_every_tower": {"changed_before_combining"},
    "clipped_by_norm_after_averaging": set(),
    "clipped_by_norm_after_summing": {"sum_not_mean"},
    "norm_of_rows_as_they_are": {"norm_of_repeated_rows"},
    "norm_of_rows_added_up": set(),
    "decay_in_every_summed_tower": {"sum_not_mean", "decay_counted"},
    "decay_in_the_first_tower_only": {"decay_counted"},
    "decay_in_a_third_of_three_losses": set(),
    "regularisation_left_behind": {"regularisation_lost"},
    "loss_read_beside_the_update": {"ungated_loss"},
    "last_loss_only": {"last_towers_loss", "ungated_loss"},
    "last_loss_in_a_run_of_its_own": {"last_towers_loss"},
    "a_term_of_the_last_loss_only": {"last_towers_loss"},
    "step_assigned_without_a_collection": set(),
    "slots_made_trainable": {"trainable_slots"},
    "written_by_hand": {"ungated_state"},
    "written_by_hand_with_a_trainable_counter": {"ungated_state", "trainable_slots"},
    "written_by_hand_clipped_by_the_norm_of_all": {"ungated_state"},
    "written_by_hand_clipped_by_a_norm_of_its_own": {"ungated_state"},
    "written_by_hand_clipped_by_value_which_never_happens": {"ungated_state"},
    "statistics_of_both_towers_in_order": {"statistics_of_all_towers"},
    "statistics_of_both_towers_before_the_update": {"unordered_statistics"},
    "average_behind_the_update_and_a_loss_that_races": {"ungated_loss"},
    "average_beside_the_update": {"unordered_average"},
    "average_behind_one_of_two_updates": {"unordered_average"},
    "statistics_of_the_first_tower": set(),
    "statistics_of_the_last_tower": {"statistics_of_another_tower"},
    "statistics_corrected_for_their_start": set(),
    "statistics_of_both_towers_in_branches": {"unordered_statistics"},
    "switched_by_what_is_fed": set(),
    "statistics_never_updated": {"statistics_not_updated"},
    "step_counted_twice": {"global_step_counted_twice"},
    "trained_again_beside_the_summary": {"batch_trained_twice"},
    "weights_written_between_steps": {"changed_between_steps"},
    "gradient_scaled_inside_the_optimizer": {"gradient_not_applied"},
    "one_minimize_over_the_mean": set(),
    "mean_of_losses_put_one_after_the_other": set(),
    "sum_of_losses_put_one_after_the_other": {"sum_not_mean"},
    "losses_masked_together": {"towers_not_separated"},
    "layers_on_devices_of_their_own": set(),
    "examples_dealt_out_in_turn": set(),
    "cut_after_preprocessing": set(),
    "cut_after_normalising_rows": set(),
    "cut_after_normalising_columns": set(),
    "cut_twice": set(),
    "steps_counted_by_an_op_of_its_own": set(),
    "one_minimize_over_the_sum": {"sum_not_mean"},
    "one_minimize_over_a_quarter_of_the_sum": set(),
    "scaled_by_what_makes_no_mean": set(),
}


@pytest.fixture(scope="module")
def graphs(tf_python, tmp_path_factory):
    """Records all graphs in one process; returns the hazards by graph, and the folder of the traces."""
    out = tmp_path_factory.mktemp("graphs")
    words = [str(Path(__file__).with_name("hazard_graphs.py")), str(out)]
    done = run(tf_python, words, out, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), out


@pytest.mark.parametrize("name", EXPECTED)
def test_each_hazard_is_found_where_it_is_and_nowhere_else(graphs, name):
    assert set(graphs[0][name]) == EXPECTED[name], graphs[0][name]


def test_no_graph_is_left_untested(graphs):
    assert set(graphs[0]) == set(EXPECTED)


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("summed", "1 of 1 gradients are the sum over 2 towers, e.g. of m/w"),
        ("overlapping_slices", "towers 0 and 1 share 1 of 2 examples (x)"),
        ("uneven_slices", "the towers get 3, 1 examples"),
        ("decay_in_every_summed_tower", "it counts 2 times"),
        ("decay_in_the_first_tower_only", "it counts 0.5 times"),
        ("step_counted_twice", "global_step grew by 2 in one update"),
        (
            "gradient_scaled_inside_the_optimizer",
            "the update of m/w is 0.02 of its gradient away from what the recorded",
        ),
        ("written_by_hand_with_a_trainable_counter", "of state/adam_t against AssignAdd; it flows into var/m/w"),
        ("written_by_hand_with_a_trainable_counter", "in TRAINABLE_VARIABLES, e.g. adam_t"),
        ("paired_by_position", "the gradient applied to m/b takes tower 1's of m/a"),
    ],
)
def test_the_evidence_has_names_and_numbers(graphs, name, evidence):
    assert any(evidence in each for each in graphs[0][name].values()), graphs[0][name]


def test_a_hazard_of_the_graph_is_not_said_again_of_its_numbers(graphs):
    facts = Trace(graphs[1] / "same_batch_for_all").facts
    assert [hazard["name"] for hazard in facts["hazards"]] == ["same_data"]


def test_a_condition_that_is_fed_is_recorded(graphs):
    trace = Trace(graphs[1] / "switched_by_what_is_fed")
    assert trace.facts["not_recorded"] == {}
    assert bool(trace.step(0).read("feed/1/training"))


def test_slots_of_a_hand_made_optimizer_are_slots(graphs):
    trace = Trace(graphs[1] / "slots_made_trainable")
    assert trace.facts["slots"] == ["byhand_m"]
    assert set(trace.variables) == {"m/w"}
    assert "slot/byhand_m/m/w" in trace.step(0).names()


def test_gradients_clipped_in_each_tower_are_recorded_before_and_after(graphs):
    step = Trace(graphs[1] / "clipped_in_every_tower").step(0)
    clipped = [step.read(f"tower_clip/{tower}/m/w") for tower in range(2)]
    assert abs(step.read("grad/m/w") - (clipped[0] + clipped[1]) / 2).max() < 1e-8
    assert abs(step.read("tower_grad/1/m/w") / clipped[1] - 1).min() > 1


def test_losses_that_are_added_up_and_differentiated_at_once_are_those_of_the_towers(graphs):
    trace = Trace(graphs[1] / "one_minimize_over_the_mean")
    assert (trace.facts["towers"], trace.facts["combine"]) == (2, "mean")
    assert Trace(graphs[1] / "one_minimize_over_the_sum").facts["combine"] == "sum"
    step = trace.step(0)
    assert step.read("feed/1/x").tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert step.read("loss/0") == 1.5
    assert step.read("loss/1") == 5.5
    assert step.read("grad/m/w").ravel().tolist() == [3.0, 4.0]


@pytest.mark.parametrize("name", ["one_minimize_over_a_quarter_of_the_sum", "scaled_by_what_makes_no_mean"])
def test_a_sum_that_is_multiplied_by_something_else_is_neither_sum_nor_mean(graphs, name):
    facts = Trace(graphs[1] / name).facts
    assert (facts["towers"], facts["combine"], facts["combine_in_graph"]) == (2, "scaled", "scaled")


@pytest.mark.parametrize("join", ["mean", "sum"])
def test_losses_by_example_that_are_put_one_after_the_other_are_means_or_sums_of_the_towers(graphs, join):
    folder = graphs[1] / f"{join}_of_losses_put_one_after_the_other"
    trace = Trace(folder)
    assert (trace.facts["towers"], trace.facts["combine"]) == (2, join)
    step = trace.step(0)
    per_example = [(np.square(step.read(f"feed/{tower}/x") @ [0.5, 0.5] - 1.0)) for tower in range(2)]
    expected = [float(getattr(np, join)(each)) for each in per_example]
    assert [float(step.read(f"loss/{tower}")) for tower in range(2)] == expected
    assert step.read("loss/0").shape == ()


@pytest.mark.parametrize("name", ["cut_after_preprocessing", "cut_after_normalising_rows", "cut_twice"])
def test_a_tower_is_fed_the_share_that_it_reads(graphs, name):
    step = Trace(graphs[1] / name).step(0)
    assert step.read("feed/0/x").tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert step.read("feed/1/x").tolist() == [[4.0, 5.0], [6.0, 7.0]]


def test_examples_dealt_out_in_turn_are_what_each_tower_is_fed(graphs):
    step = Trace(graphs[1] / "examples_dealt_out_in_turn").step(0)
    assert step.read("feed/0/x").tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert step.read("feed/1/x").tolist() == [[2.0, 3.0], [6.0, 7.0]]


@pytest.mark.parametrize(("reduce", "combine"), [("averaging", "mean"), ("summing", "sum")])
def test_clipping_after_combining_is_no_factor_of_the_combination(graphs, reduce, combine):
    trace = Trace(graphs[1] / f"clipped_by_norm_after_{reduce}")
    assert (trace.facts["combine"], trace.facts["clipped"]) == (combine, True)
    step = trace.step(0)
    total = sum(step.read(f"tower_grad/{tower}/m/w") for tower in range(2))
    assert np.allclose(step.read("grad/m/w"), total / 2 if combine == "mean" else total, rtol=1e-6)
    assert abs(np.linalg.norm(step.read("clip/m/w")) - 0.1) < 1e-6


@pytest.mark.parametrize("rule", ["the_norm_of_all", "a_norm_of_its_own"])
def test_gradients_clipped_before_updates_that_are_written_by_hand_are_recorded_before_and_after(graphs, rule):
    trace = Trace(graphs[1] / f"written_by_hand_clipped_by_{rule}")
    assert (trace.facts["combine"], trace.facts["clipped"]) == ("mean", True)
    assert "clip_never_in_effect" not in trace.facts
    step = trace.step(0)
    joined, clipped = ([step.read(f"{quantity}/m/{name}").ravel() for name in "wb"] for quantity in ("grad", "clip"))
    for name, value in zip("wb", joined, strict=True):
        mean = sum(step.read(f"tower_grad/{tower}/m/{name}").ravel() for tower in range(2)) / 2
        np.testing.assert_allclose(value, mean, rtol=1e-6)
    norm = np.linalg.norm(np.concatenate(joined))
    np.testing.assert_allclose(np.concatenate(clipped), np.concatenate(joined) * 0.5 / norm, rtol=1e-6)


def test_updates_written_by_hand_without_clipping_are_not_said_to_be_clipped(graphs):
    trace = Trace(graphs[1] / "written_by_hand")
    assert trace.facts["clipped"] is False
    assert not any(name.startswith("clip/") for name in trace.step(0).names())


def test_clipping_that_never_took_effect_is_a_fact(graphs):
    facts = Trace(graphs[1] / "written_by_hand_clipped_by_value_which_never_happens").facts
    assert facts["clipped"] is True
    assert facts["clip_never_in_effect"] is True


def test_what_corrects_a_statistic_for_its_start_is_no_statistic(graphs):
    trace = Trace(graphs[1] / "statistics_corrected_for_their_start")
    assert set(trace.variables) == {"m/w", "m/mean"}
    (biased,) = [name for name in trace.init().names() if name.endswith("/m/mean/biased")]
    assert biased.startswith("state/")


def test_a_counter_that_was_made_trainable_is_no_weight(graphs):
    trace = Trace(graphs[1] / "written_by_hand_with_a_trainable_counter")
    assert set(trace.variables) == {"m/w", "m/b"}
    assert float(trace.init().read("state/adam_t")) == 1.0


def test_towers_that_are_not_told_apart_are_counted(graphs):
    facts = Trace(graphs[1] / "losses_masked_together").facts
    assert (facts["towers"], facts["towers_suggested"]) == (1, 2)
