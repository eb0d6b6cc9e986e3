"""Unmodified legacy scripts, recorded on both TensorFlows: what the traces say."""

import numpy as np
import pytest

OPTIMIZERS = {
    "placeholder_slices": "AdamOptimizer",
    "split_sum": "MomentumOptimizer",
    "monitored": "RMSPropOptimizer",
    "queue_fed": "GradientDescentOptimizer",
    "ungated": "AdagradOptimizer",
    "two_optimizers": "AdamOptimizer",
}
HAZARDS = {
    "placeholder_slices": {"global_step_not_counted", "last_towers_loss"},
    "split_sum": {"sum_not_mean", "decay_counted", "last_towers_loss"},
    "monitored": {"unordered_statistics"},
    "queue_fed": {"last_towers_loss", "unordered_average"},
    "ungated": {"sparse_sum", "ungated_update"},
    "two_optimizers": {"global_step_not_counted"},
}


@pytest.mark.both_tensorflows
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_script_records_unmodified(recorded, name):
    done = recorded(name)
    assert done.code == 0, done.said
    trace = done.trace
    assert trace.complete
    assert trace.step_numbers == [0, 1, 2, 3]
    assert trace.facts["towers"] == 2
    assert trace.facts["combine"] == ("sum" if name == "split_sum" else "mean")
    assert trace.facts["optimizer"]["name"] == OPTIMIZERS[name]
    assert trace.facts["not_recorded"] == {}


@pytest.mark.parametrize("name", HAZARDS)
def test_every_hazard_of_a_script_is_found_and_no_other(recorded, name):
    done = recorded(name)
    # Where a script races, by chance its updates are of other gradients than were recorded.
    by_chance = {"gradient_not_applied"} if "ungated_update" in HAZARDS[name] else set()
    assert done.hazards - by_chance == HAZARDS[name]
    for hazard in HAZARDS[name]:
        assert f"hazard {hazard}: " in done.said


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "two_optimizers"])
def test_combined_gradients_follow_from_the_towers(recorded, name):
    trace = recorded(name).trace
    scale = 1.0 if trace.facts["combine"] == "sum" else 0.5
    compared = 0
    for number in trace.step_numbers:
        step = trace.step(number)
        for key in step.names():
            if key.startswith("grad/") and "." not in key:
                variable = key[len("grad/") :]
                towers = [step.read(f"tower_grad/{tower}/{variable}").astype(np.float64) for tower in range(2)]
                np.testing.assert_allclose(step.read(key), scale * (towers[0] + towers[1]), rtol=1e-6, atol=1e-9)
                compared += 1
    assert compared >= 8


def test_losses_and_feeds_belong_to_the_weights_before_the_step(recorded):
    trace = recorded("placeholder_slices").trace
    before = trace.init()
    for number in trace.step_numbers:
        step = trace.step(number)
        for tower in range(2):
            x, y = step.read(f"feed/{tower}/X"), step.read(f"feed/{tower}/Y")
            hidden = np.maximum(x @ before.read("var/net/w1") + before.read("var/net/b1"), 0)
            logits = hidden @ before.read("var/net/w2") + before.read("var/net/b2")
            wanted = np.mean(np.log(np.sum(np.exp(logits), 1)) - np.sum(logits * y, 1))
            np.testing.assert_allclose(step.read(f"loss/{tower}"), wanted, rtol=1e-5)
        before = step


def test_updates_follow_from_gradients_slots_and_learning_rate(recorded):
    trace = recorded("split_sum").trace
    before, rates = trace.init(), []
    for number in trace.step_numbers:
        step = trace.step(number)
        rate = step.read("state/learning_rate")
        rates.append(float(rate))
        for name in trace.variables:
            slot = 0.9 * before.read(f"slot/momentum/{name}") + step.read(f"grad/{name}")
            np.testing.assert_allclose(step.read(f"slot/momentum/{name}"), slot, rtol=1e-5, atol=1e-8)
            wanted = before.read(f"var/{name}") - rate * slot
            np.testing.assert_allclose(step.read(f"var/{name}"), wanted, rtol=1e-5, atol=1e-7)
        assert step.read("state/global_step") == number
        before = step
    assert rates == pytest.approx([0.05, 0.05, 0.025, 0.025])


def test_clipped_gradients_are_told_from_combined_ones(recorded):
    trace = recorded("monitored").trace
    step = trace.step(0)
    combined = {name: step.read(f"grad/{name}") for name, each in trace.variables.items() if each["kind"] == "weight"}
    norm = np.sqrt(sum(np.sum(np.square(value, dtype=np.float64)) for value in combined.values()))
    assert norm > 0.5
    for name, value in combined.items():
        np.testing.assert_allclose(step.read(f"clip/{name}"), value * 0.5 / norm, rtol=1e-5)
    assert trace.facts["clipped"]


def test_statistics_and_averages_have_their_own_quantities(recorded):
    trace = recorded("monitored").trace
    kinds = {name: each["kind"] for name, each in trace.variables.items()}
    assert kinds == {
        "w": "weight",
        "v": "weight",
        "bn/gamma": "weight",
        "bn/beta": "weight",
        "bn/moving_mean": "statistic",
        "bn/moving_variance": "statistic",
    }
    step = trace.step(0)
    # min(0.9, (1 + step) / (10 + step)), with the step already counted
    decay = 2 / 11
    wanted = decay * trace.init().read("ema/w") + (1 - decay) * step.read("var/w")
    np.testing.assert_allclose(step.read("ema/w"), wanted, rtol=1e-5)


def test_what_a_queue_hands_out_is_recorded_with_the_draws(recorded):
    trace = recorded("queue_fed").trace
    examples = np.random.RandomState(4).randn(64, 4).astype(np.float32)
    seen = []
    for number in trace.step_numbers:
        step = trace.step(number)
        feeds = [name for name in trace.facts["inputs"] if step.read(f"feed/0/{name}").dtype == np.float32]
        assert len(feeds) == 1
        for tower in range(2):
            seen.append(step.read(f"feed/{tower}/{feeds[0]}"))
            draws = [key for key in step.names() if key.startswith(f"noise/{tower}/")]
            assert len(draws) == 1
            assert step.read(draws[0]).shape == (4, 4)
    for batch in seen:
        assert all(np.any(np.all(examples == row, axis=1)) for row in batch)
    assert not np.array_equal(seen[0], seen[1])


def test_sparse_gradients_are_recorded_as_indices_and_values(recorded):
    step = recorded("ungated").trace.step(0)
    indices = [step.read(f"tower_grad/{tower}/lm/embedding.indices") for tower in range(2)]
    values = [step.read(f"tower_grad/{tower}/lm/embedding.values") for tower in range(2)]
    np.testing.assert_array_equal(step.read("grad/lm/embedding.indices"), np.concatenate(indices))
    np.testing.assert_array_equal(step.read("grad/lm/embedding.values"), np.concatenate(values))


def test_two_optimizers_get_a_section_each(recorded):
    trace = recorded("two_optimizers").trace
    assert set(trace.facts["sections"]) == {"DAdam", "GAdam"}
    discriminator, generator = set(trace.step(0).names()), set(trace.step(1).names())
    assert "section/DAdam/grad/discriminator/w" in discriminator
    assert "section/DAdam/slot/m/discriminator/w" in discriminator
    assert not any(name.startswith("section/GAdam/grad/") for name in discriminator)
    assert "section/GAdam/grad/generator/w" in generator
    assert "section/GAdam/state/beta1_power" in generator
    hanging = trace.variables["generator/w"]["saved_as"]
    assert hanging["section/GAdam/slot/m"] == "generator/w/GAdam"
    assert {hanging[f"section/GAdam/state/beta{one}_power"] for one in (1, 2)} <= {
        "beta1_power",
        "beta2_power",
        "beta1_power_1",
        "beta2_power_1",
    }
    assert not any(what.startswith("section/DAdam") for what in hanging)


def test_draws_inside_a_loop_are_recorded_with_the_iterations_first(recorded):
    done = recorded("resource_loop")
    assert done.code == 0, done.said
    trace = done.trace
    facts = (trace.facts["observed"], trace.facts["combine"], trace.facts["resource_variables"])
    assert facts == ("inside", "mean", True)
    assert trace.facts["not_recorded"] == {}
    step = trace.step(3)
    for tower in range(2):
        (draw,) = [key for key in step.names() if key.startswith(f"noise/{tower}/tower_{tower}/rnn/while/dropout")]
        assert step.read(draw).shape == (3, 2, 4)
        assert not np.array_equal(step.read(draw), trace.step(2).read(draw))
    both = [step.read(f"tower_grad/{tower}/rnn/embedding.values") for tower in range(2)]
    np.testing.assert_allclose(step.read("grad/rnn/embedding.values"), np.concatenate(both) / 2, rtol=1e-6)
    assert step.read("feed/1/keep") == np.float32(0.8)


def test_resource_variables_beside_the_weights_are_recorded(recorded):
    names = recorded("resource_loop").trace.step(3).names()
    assert {"state/beta1_power", "state/beta2_power", "state/global_step", "slot/v/rnn/kernel"} <= set(names)


def test_each_way_of_observing_is_used_where_it_can_be(recorded):
    ways = {name: recorded(name).trace.facts["observed"] for name in OPTIMIZERS}
    assert ways == {
        "placeholder_slices": "before",
        "split_sum": "before",
        "monitored": "before",
        "queue_fed": "after",
        "ungated": "after",
        "two_optimizers": "before",
    }
