"""What gives nearly the numbers of a cause is not called that cause; what gives them is."""

import functools

import numpy as np
import pytest
from support.made_steps import causes_between

RANDOM = np.random.default_rng(0)
SHAPES = {"a": (3, 4), "b": (4,)}
WEIGHTS = dict.fromkeys(SHAPES, "weight")
POSITIVE = np.maximum(2 * RANDOM.standard_normal((40, 10)), 0.0)
ADAM = {"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "learning_rate": 1e-3}


@pytest.fixture
def causes_of(tmp_path):
    """Returns name and title of the causes of a first difference, see `causes_between`."""
    return functools.partial(causes_between, tmp_path)


@pytest.fixture
def names_of(causes_of):
    """Returns their names."""
    return lambda *arguments: [name for name, _ in causes_of(*arguments)]


def normal(*shape):
    return RANDOM.standard_normal(shape)


def of_a_layer(names_of, reference, candidate, states=None, kinds=None):
    layers = {"act/0/layer": reference}, {"act/0/layer": candidate}
    return names_of("act/0/layer", *layers, states or {}, kinds or {})


def test_a_gamma_that_stays_one_went_through_no_narrower_float(names_of):
    states = {"var/gamma": np.ones(6), "var/w": normal(6)}
    gradients = {"grad/gamma": normal(6), "grad/w": normal(6)}
    moved = {name: value - 1e-3 * gradients[f"grad/{name[4:]}"] for name, value in states.items()}
    reference = {**gradients, **moved}
    kinds = {"gamma": "weight", "w": "weight"}
    still = {**reference, "var/gamma": np.ones(6)}
    assert names_of("var/gamma", reference, still, states, kinds) == ["not_updated"]
    rounded = {**reference, "var/gamma": moved["var/gamma"].astype(np.float16).astype(np.float64)}
    assert names_of("var/gamma", reference, rounded, states, kinds) == ["reduced_precision"]


def test_values_that_are_all_one_number_tell_no_activation_function(names_of):
    near = 1 - 1e-3 * RANDOM.random((4, 5))
    assert of_a_layer(names_of, near, np.ones((4, 5))) == []
    x = normal(4, 5)
    assert of_a_layer(names_of, np.tanh(x), np.clip(x / 6 + 0.5, 0, 1)) == ["activation_function"]


def test_any_shift_is_a_multiple_of_a_bias_that_is_one_number(names_of):
    x, bias = normal(6, 5), normal(5)
    assert of_a_layer(names_of, x, x + 0.05, {"var/bias": np.full(5, 0.1)}, {"bias": "weight"}) == []
    assert of_a_layer(names_of, x, x - bias, {"var/bias": bias}, {"bias": "weight"}) == ["bias_missing"]


def test_values_scaled_and_cut_off_are_no_dropout_before_a_pooling_layer(names_of):
    assert of_a_layer(names_of, POSITIVE, np.minimum(1.5 * POSITIVE, 6.0)) == []
    largest, second = POSITIVE, 0.6 * POSITIVE
    kept = RANDOM.random(POSITIVE.shape) < 0.5
    assert of_a_layer(names_of, POSITIVE, 2 * np.where(kept, largest, second)) == ["dropout_active"]


def test_a_dead_unit_of_a_layer_scaled_is_no_dropout_and_a_map_dropped_is(names_of):
    dead = 1.5 * POSITIVE
    dead[:, 3] = 0.0
    assert of_a_layer(names_of, POSITIVE, dead) == []
    maps = normal(6, 4, 4, 8)
    kept = RANDOM.random((6, 1, 1, 8)) < 0.5
    assert of_a_layer(names_of, maps, 2.0 * maps * kept) == ["dropout_active"]
    assert of_a_layer(names_of, POSITIVE, 2.0 * POSITIVE * (RANDOM.random(POSITIVE.shape) < 0.5)) == ["dropout_active"]


def of_adam(powers):
    gradient, m, v, weight = normal(6), 1e-2 * normal(6), 1e-3 * RANDOM.random(6), normal(6)
    states = {"var/w": weight, "slot/m/w": m, "slot/v/w": v, "state/learning_rate": np.array(1e-3)}
    states.update({f"state/beta{k}_power": np.array(power) for k, power in zip((1, 2), powers, strict=True)})
    m, v = m + 0.1 * (gradient - m), v + 0.001 * (gradient**2 - v)
    plain = 1e-3 * m / (np.sqrt(v) + 1e-8)
    step = {"grad/w": gradient, "slot/m/w": m, "slot/v/w": v}
    return states, step, weight, plain, plain * np.sqrt(1 - powers[1]) / (1 - powers[0])


def test_a_faint_difference_late_in_training_is_no_missing_correction_of_adam(names_of):
    states, step, weight, _, moved = of_adam((0.0, 0.999**60000))
    noisy = {**step, "var/w": weight - moved * (1 + 3e-7 * normal(6))}
    facts = {"optimizer": ADAM}
    assert names_of("var/w", {**step, "var/w": weight - moved}, noisy, states, {"w": "weight"}, facts) == []
    states, step, weight, plain, moved = of_adam((0.9**3, 0.999**3))
    reference, candidate = {**step, "var/w": weight - moved}, {**step, "var/w": weight - plain}
    assert names_of("var/w", reference, candidate, states, {"w": "weight"}, facts) == ["bias_correction"]


def test_faint_noise_in_a_slot_that_lies_along_the_gradient_is_no_other_momentum(names_of):
    before = normal(3, 4)
    gradient = 0.5 * before + 1e-2 * normal(3, 4)
    states = {"var/a": normal(3, 4), "slot/momentum/a": before}

    def step(momentum, noise=0.0):
        slot = (momentum * before + gradient) * (1 + noise * normal(3, 4))
        return {"grad/a": gradient, "slot/momentum/a": slot, "var/a": before}

    kinds = {"a": "weight"}
    assert names_of("slot/momentum/a", step(0.9), step(0.9, 6e-8), states, kinds) == []
    assert names_of("slot/momentum/a", step(0.9), step(0.9 + 1e-6), states, kinds) == ["momentum"]


def of_cross_entropy(examples):
    found, smoothed = {}, {}
    for tower, (logits, labels) in enumerate(examples):
        logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss, uniform = -logp[np.arange(len(labels)), labels].mean(), -logp.mean()
        found.update({f"feed/{tower}/labels": labels, f"act/{tower}/logits": logits, f"loss/{tower}": np.array(loss)})
        smoothed[f"loss/{tower}"] = np.array(0.9 * loss + 0.1 * uniform)
    return found, {**found, **smoothed}


def test_labels_are_told_to_be_smoothed_by_towers_that_saw_other_examples(names_of):
    labels = np.array([0, 1, 2, 1], np.int32)
    one = (normal(4, 3), labels)
    assert names_of("loss/0", *of_cross_entropy([one, one]), {}, {}) == []
    assert names_of("loss/0", *of_cross_entropy([one, (normal(4, 3), labels)]), {}, {}) == ["cross_entropy"]


def test_labels_are_told_to_be_smoothed_beside_parts_of_the_loss(names_of):
    labels = np.array([0, 1, 2, 1], np.int32)
    sides = of_cross_entropy([(normal(4, 3), labels), (normal(4, 3), labels)])
    parts = {f"loss/{tower}/decay": np.array(0.25 + tower) for tower in (0, 1)}
    assert names_of("loss/0", *({**side, **parts} for side in sides), {}, {}) == ["cross_entropy"]


def test_weights_that_are_one_number_tell_no_decay(names_of):
    gradient, weight = normal(6), normal(6)
    for value, names in ((np.ones(6), []), (weight, ["weight_decay"])):
        candidate = {"grad/a": gradient + 0.01 * value}
        assert names_of("grad/a", {"grad/a": gradient}, candidate, {"var/a": value}, {"a": "weight"}) == names


def test_a_variance_of_another_size_is_that_of_no_whole_number_of_values(names_of):
    before, batch = 1.0 + RANDOM.random(6), 1.0 + RANDOM.random(6)
    states, kinds = {"stat/variance": before}, {"variance": "statistic"}

    def moved(share):
        return {"stat/variance": 0.9 * before + 0.1 * share * batch}

    assert names_of("stat/variance", moved(1.0), moved(0.99973), states, kinds) == []
    assert names_of("stat/variance", moved(1.0), moved(3599 / 3600), states, kinds) == ["batch_norm_variance"]
    # What is fed holds a divisor of the number of values of a channel.
    fed, counted = {"feed/0/x": np.zeros((30, 7))}, moved(3599 / 3600)
    assert names_of("stat/variance", {**fed, **moved(1.0)}, {**fed, **counted}, states, kinds) == [
        "batch_norm_variance"
    ]
    fed = {"feed/0/x": np.zeros((7, 11))}
    assert names_of("stat/variance", {**fed, **moved(1.0)}, {**fed, **counted}, states, kinds) == []


@pytest.mark.parametrize(("kept", "names"), [(0.9, ["batch_norm_variance"]), (-0.5, []), (1.5, [])])
def test_a_variance_keeps_a_share_of_itself_and_its_mean_agrees(names_of, kept, names):
    before, batch, mean = 1.0 + RANDOM.random(6), 1.0 + RANDOM.random(6), normal(6)
    states, kinds = {"stat/n/variance": before, "stat/n/mean": mean}, {"n/variance": "statistic", "n/mean": "statistic"}

    def moved(share, mean):
        return {"stat/n/variance": kept * before + (1 - kept) * share * batch, "stat/n/mean": mean}

    assert names_of("stat/n/variance", moved(1.0, mean), moved(0.99, mean), states, kinds) == names
    assert names_of("stat/n/variance", moved(1.0, mean), moved(0.99, 1.1 * mean), states, kinds) == []


def of_three_steps(quantity, change):
    # `change(size of all gradients of the step)` is what they are multiplied by.
    states, reference, candidate = [], [], []
    for number in range(3):
        gradients = {name: (number + 1) * normal(*shape) for name, shape in SHAPES.items()}
        start = {name: normal(*shape) for name, shape in SHAPES.items()}
        factor = change(float(np.sqrt(sum((value**2).sum() for value in gradients.values()))))
        keep = 0.9 if quantity == "slot/momentum" else 0.0
        states.append({f"{key}/{n}": value for key in ("var", "slot/momentum") for n, value in start.items()})
        step = {f"grad/{name}": value for name, value in gradients.items()}
        for side, share in ((reference, 1.0), (candidate, factor)):
            made = {f"{quantity}/{name}": keep * start[name] + share * value for name, value in gradients.items()}
            side.append({**step, **made})
    return reference, candidate, states


def test_one_factor_at_every_step_is_no_clipping_before_the_update(names_of):
    for change, name in ((lambda size: 0.5, "gradient_factor"), (lambda size: min(1.0, 1.0 / size), "clipping")):
        reference, candidate, states = of_three_steps("slot/momentum", change)
        assert names_of("slot/momentum/a", reference, candidate, states, WEIGHTS) == [name]


def test_one_factor_at_every_step_is_no_clipping_where_clipped_gradients_are_recorded(causes_of):
    found = [
        causes_of("clip/a", *of_three_steps("clip", change), WEIGHTS)[0]
        for change in (lambda size: 0.5, lambda size: 0.5 / size)
    ]
    assert found[0] == ("gradient_factor", "gradients off by the factor 0.5")
    assert found[1] == (
        "clipping",
        "the candidate clips by global norm to 0.5 where the reference leaves the gradients as they are",
    )


def test_two_terms_that_have_a_gradient_do_not_both_train_where_their_sum_moves_as_it_should(causes_of):
    states = {"var/bias": normal(4), "var/w": normal(4)}
    gradients = {name: normal(4) for name in ("bias", "w")}
    reference = {
        **{f"grad/{name}": value for name, value in gradients.items()},
        **{f"var/{name}": states[f"var/{name}"] - 0.1 * value for name, value in gradients.items()},
    }

    def candidate(of_the_bias, of_w):
        return {
            "grad/one": gradients["bias"],
            "grad/two": gradients["bias"],
            "grad/w": gradients["w"],
            "var/one": states["var/bias"] - 0.1 * of_the_bias * gradients["bias"],
            "var/two": np.zeros(4),
            "var/w": states["var/w"] - 0.1 * of_w * gradients["w"],
        }

    def named(key, *factors):
        kinds, sums = {"bias": "weight", "w": "weight"}, {"bias": ("one", "two")}
        return [name for name, _ in causes_of(key, reference, candidate(*factors), states, kinds, None, sums)]

    assert "trained_twice" not in named("var/w", 1.0, 1.5)
    assert "trained_twice" in named("var/bias", 2.0, 1.0)


@pytest.mark.parametrize("beta", [np.zeros(6), np.linspace(-1.0, 1.0, 6)])
def test_channels_that_are_shifted_alone_or_about_no_beta_tell_no_epsilon(names_of, beta):
    x = normal(40, 6)
    statistics = {"stat/variance": x.var(axis=0)}
    states = {"stat/variance": np.ones(6), "var/beta": beta}

    def names(candidate):
        one = {"act/0/layer": x / np.sqrt(x.var(axis=0) + 1e-3) + beta, **statistics}
        other = {"act/0/layer": candidate, **statistics}
        return names_of("act/0/layer", one, other, states, {"variance": "statistic", "beta": "weight"})

    scaled = x / np.sqrt(x.var(axis=0) + 1e-5)
    assert names(scaled + beta) == ["normalisation"]
    assert "normalisation" not in names(scaled + beta + 0.5)
    assert "normalisation" not in names(x / np.sqrt(x.var(axis=0) + 1e-3) + beta + np.linspace(0.1, 0.6, 6))


def test_the_few_examples_that_are_zero_were_not_dropped(names_of):
    x = np.abs(normal(8, 20))
    assert "dropout_active" not in of_a_layer(names_of, x, 2 * x * (np.arange(8) < 2)[:, None])
    kept = RANDOM.random((40, 1)) < 0.5
    many = np.abs(normal(40, 20))
    assert of_a_layer(names_of, many, 2 * many * kept) == ["dropout_active"]
