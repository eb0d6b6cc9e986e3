"""Single bugs are called by their names, each once, and what the numbers do not support is not called anything."""

import functools

import numpy as np
import pytest
from support.made_steps import causes_between

RANDOM = np.random.default_rng(0)
GRADIENTS = {"v": RANDOM.standard_normal((3, 2)), "w": RANDOM.standard_normal((4,))}


@pytest.fixture
def causes_of(tmp_path):
    """Returns name and title of the causes of a first difference, see `causes_between`."""
    return functools.partial(causes_between, tmp_path)


def clipped_to(limit):
    size = float(np.sqrt(sum((value**2).sum() for value in GRADIENTS.values())))
    return {f"clip/{name}": value * limit / size for name, value in GRADIENTS.items()}


def step(clipped):
    return {**{f"grad/{name}": value for name, value in GRADIENTS.items()}, **clipped}


WHOLE = {f"clip/{name}": value for name, value in GRADIENTS.items()}
STATES = {f"var/{name}": np.ones_like(value) for name, value in GRADIENTS.items()}
WEIGHTS = dict.fromkeys(GRADIENTS, "weight")


def test_a_forgotten_clip_is_named_once(causes_of):
    assert causes_of("clip/v", step(clipped_to(0.5)), step(WHOLE), STATES, WEIGHTS) == [
        ("clipping", "the candidate leaves the gradients as they are where the reference clips by global norm to 0.5")
    ]


def test_the_millionth_that_torch_adds_to_the_norm_is_told_from_another_limit(causes_of):
    size = float(np.sqrt(sum((value**2).sum() for value in GRADIENTS.values())))
    of_torch = clipped_to(0.5 * size / (size + 1e-6))
    (first,) = causes_of("clip/v", step(clipped_to(0.5)), step(of_torch), STATES, WEIGHTS)
    assert first[1].startswith("torch's clip_grad_norm_ divides by the norm + 1e-6")
    (first,) = causes_of("clip/v", step(clipped_to(0.5)), step(clipped_to(0.5 - 3e-8)), STATES, WEIGHTS)
    assert "clips by global norm to 0.5 (0.49999997) where the reference clips by global norm to 0.5 (0.5)" in first[1]


def test_a_clip_that_only_the_port_has_is_named_though_its_rule_is_not_known(causes_of):
    noisy = {name: 0.5 * value + 0.1 * RANDOM.standard_normal(value.shape) for name, value in WHOLE.items()}
    assert causes_of("clip/v", step(WHOLE), step(noisy), STATES, WEIGHTS) == [
        (
            "clipping",
            "the candidate changes them by a rule of its own where the reference leaves the gradients as they are",
        )
    ]


def test_two_clips_of_which_one_follows_no_rule_are_not_named(causes_of):
    noisy = {name: 0.5 * value + 0.1 * RANDOM.standard_normal(value.shape) for name, value in WHOLE.items()}
    assert causes_of("clip/v", step(clipped_to(0.5)), step(noisy), STATES, WEIGHTS) == []


MEAN = RANDOM.standard_normal(6)
BIAS = RANDOM.standard_normal(6)
NORM = {"stat/mean": MEAN, "stat/variance": np.ones(6)}
BEFORE = {"var/bias": BIAS, "stat/mean": MEAN + 0.1 * RANDOM.standard_normal(6), "stat/variance": np.full(6, 1.1)}
KINDS = {"bias": "weight", "mean": "statistic", "variance": "statistic"}


def test_a_bias_that_batch_norm_takes_out_again_is_named_by_the_moving_mean(causes_of):
    candidate = {**NORM, "stat/mean": MEAN - 0.01 * BIAS}
    assert causes_of("stat/mean", NORM, candidate, BEFORE, KINDS) == [
        ("bias_missing", "the bias bias in front of a batch norm does not count as in the reference")
    ]


def test_a_moving_mean_that_is_off_by_no_variable_is_not_named(causes_of):
    candidate = {**NORM, "stat/mean": MEAN + 0.01 * RANDOM.standard_normal(6)}
    assert causes_of("stat/mean", NORM, candidate, BEFORE, KINDS) == []


IMAGES = 1.0 + RANDOM.random((2, 12, 12, 3))
NOISE = RANDOM.standard_normal(IMAGES.shape)


def layers(*towers):
    return {f"act/{tower}/layer": value for tower, value in enumerate(towers)}


def test_a_layer_that_differs_little_inside_and_more_outside_is_not_said_to_differ_at_the_border_alone(causes_of):
    inside = np.zeros_like(IMAGES)
    inside[:, 3:-3, 3:-3] = 1.0
    faint = IMAGES * (1 + NOISE * (1e-10 * inside + 1e-8 * (1 - inside)))
    assert causes_of("act/0/layer", layers(IMAGES), layers(faint), {}, {}) == []
    assert causes_of("act/0/layer", layers(IMAGES), layers(np.where(inside > 0, IMAGES, faint)), {}, {}) == [
        ("border", "layer differs at the border of the image")
    ]
    one_value = IMAGES.copy()
    one_value[0, 0, 0, 0] *= 1.001
    assert causes_of("act/0/layer", layers(IMAGES), layers(one_value), {}, {}) == []


def test_values_that_differ_faintly_are_not_called_the_same_in_another_order(causes_of):
    faint = [one * (1 + 1e-10 * RANDOM.standard_normal(one.shape)) for one in (IMAGES[:1], IMAGES[1:])]
    assert causes_of("act/0/layer", layers(IMAGES[:1], IMAGES[1:]), layers(*faint), {}, {}) == []


def test_a_faint_difference_is_no_factor(causes_of):
    faint = IMAGES * (1 + 1e-10 * NOISE)
    assert causes_of("act/0/layer", layers(IMAGES), layers(faint), {}, {}) == []
    moved = {name: value + GRADIENTS[name.removeprefix("var/")] for name, value in STATES.items()}
    nudged = {name: value + 1e-9 * RANDOM.standard_normal(value.shape) for name, value in moved.items()}
    assert causes_of("var/v", moved, nudged, STATES, WEIGHTS) == []


def test_clips_to_one_limit_between_which_something_else_differs_are_not_called_two_limits(causes_of):
    noisy = {name: value + 1e-9 * RANDOM.standard_normal(value.shape) for name, value in clipped_to(0.5).items()}
    assert causes_of("clip/v", step(clipped_to(0.5)), step(noisy), STATES, WEIGHTS) == []
    assert causes_of("clip/v", step(clipped_to(0.5)), step(clipped_to(0.500001)), STATES, WEIGHTS) == [
        ("clipping", "the candidate clips by global norm to 0.500001 where the reference clips by global norm to 0.5")
    ]


def test_one_element_that_is_too_small_is_no_limit(causes_of):
    gradients = {f"tower_grad/0/{name}": value for name, value in GRADIENTS.items()}
    largest = np.abs(GRADIENTS["w"]).argmax()
    smaller = GRADIENTS["w"].copy()
    smaller[largest] *= 0.99
    candidate = {**gradients, "tower_grad/0/w": smaller}
    assert causes_of("tower_grad/0/w", gradients, candidate, STATES, WEIGHTS) == []
    cut = {name: np.clip(value, -0.1, 0.1) for name, value in gradients.items()}
    assert [name for name, _ in causes_of("tower_grad/0/v", gradients, cut, STATES, WEIGHTS)] == ["clipping"]


def test_a_limit_that_one_element_shows_is_stated_with_doubt(causes_of):
    largest = max(np.abs(value).max() for value in GRADIENTS.values())
    cut = {name: np.clip(value, -0.99 * largest, 0.99 * largest) for name, value in WHOLE.items()}
    ((name, title),) = causes_of("clip/v", step(clipped_to(0.5)), step(cut), STATES, WEIGHTS)
    assert name == "clipping"
    assert title.startswith(f"the candidate clips the gradients by value to {0.99 * largest:.4g} (as far as 1 of their")


def test_a_few_negative_values_are_no_other_rectifier(causes_of):
    rectified = np.maximum(NOISE, 0.0)
    assert [
        name
        for name, _ in causes_of(
            "act/0/layer", layers(rectified), layers(np.where(NOISE < 0, 1e-5 * NOISE, NOISE)), {}, {}
        )
    ] == ["rectifier"]
    one = rectified.copy()
    one[tuple(np.argwhere(rectified == 0.0)[0])] = -1e-5
    assert ("rectifier", "the candidate lets negative values through where the reference has a ReLU") not in causes_of(
        "act/0/layer", layers(rectified), layers(one), {}, {}
    )


def test_values_that_fit_a_narrower_float_anyway_went_through_none(causes_of):
    fitting = IMAGES.astype(np.float32).astype(np.float64)
    assert causes_of("act/0/layer", layers(fitting), layers(fitting * (1 + 1e-10 * NOISE)), {}, {}) == []
    assert causes_of("act/0/layer", layers(IMAGES), layers(fitting), {}, {}) == [
        ("reduced_precision", "layer goes through float32 in the candidate")
    ]


def test_faint_noise_over_examples_that_are_almost_alike_is_no_other_order(causes_of):
    alike = np.repeat(RANDOM.standard_normal((1, 8)), 6, 0) * (1 + 1e-10 * RANDOM.standard_normal((6, 1)))
    noisy = alike * (1 + 1e-10 * RANDOM.standard_normal((6, 1)))
    one, other = (
        {f"act/{tower}/layer": each[3 * tower : 3 * tower + 3] for tower in (0, 1)} for each in (alike, noisy)
    )
    other["act/1/layer"] = other["act/1/layer"] + 1e-11 * RANDOM.standard_normal((3, 8))
    assert causes_of("act/0/layer", one, other, {}, {}) == []


LOSSES = {"loss/0": np.array(2.0), "loss/1": np.array(3.0)}


def of_the_losses(causes_of, reference, factor, facts=None):
    return causes_of("loss/0", reference, {name: factor * value for name, value in reference.items()}, {}, {}, facts)


def test_a_power_of_two_is_a_loss_scale_where_there_is_one_and_what_lies_beside_it_is_a_factor(causes_of):
    scaled = {"plan": {"loss_scale": 128.0}}
    assert [name for name, _ in of_the_losses(causes_of, LOSSES, 128.0, scaled)] == ["loss_scale"]
    assert of_the_losses(causes_of, LOSSES, 128.0) == [("gradient_factor", "the loss is off by the factor 128")]
    assert of_the_losses(causes_of, LOSSES, 128.0 * (1 + 3e-7), scaled) == [
        ("gradient_factor", "the loss is off by the factor 128")
    ]


def of_two_towers(apart):
    """A step of two towers whose gradients are `apart` from each other, relative."""
    towers = [
        {name: value + apart * RANDOM.standard_normal(value.shape) for name, value in GRADIENTS.items()}
        for _ in range(2)
    ]
    found = {f"tower_grad/{tower}/{name}": value for tower, own in enumerate(towers) for name, value in own.items()}
    return {**found, **{f"grad/{name}": (towers[0][name] + towers[1][name]) / 2 for name in GRADIENTS}}


@pytest.mark.parametrize("size", [1e-10, 1e-9, 1e-8])
@pytest.mark.parametrize("apart", [1e-2, 1.0])
def test_faint_noise_on_all_gradients_is_not_said_to_be_towers_that_count_otherwise(causes_of, size, apart):
    reference = of_two_towers(apart)
    noisy = {name: value * (1 + size * RANDOM.standard_normal(value.shape)) for name, value in reference.items()}
    combined = {**reference, **{name: value for name, value in noisy.items() if name.startswith("grad/")}}
    for key, candidate in (("tower_grad/0/v", noisy), ("grad/v", combined)):
        assert causes_of(key, reference, candidate, STATES, WEIGHTS) == []


@pytest.mark.parametrize("apart", [1e-2, 1.0])
def test_towers_that_count_a_little_otherwise_are_named_though_their_gradients_are_much_alike(causes_of, apart):
    reference = of_two_towers(apart)
    shares = {name: 0.5 * (1 + 1e-6) * reference[f"tower_grad/0/{name}"] for name in GRADIENTS}
    other = {f"grad/{name}": share + 0.5 * reference[f"tower_grad/1/{name}"] for name, share in shares.items()}
    assert causes_of("grad/v", reference, {**reference, **other}, STATES, WEIGHTS) == [
        ("some_towers", "the gradients of the towers do not count alike")
    ]


def test_one_number_that_is_off_is_no_factor(causes_of):
    reference = {"grad/v": GRADIENTS["v"], "grad/b": np.array([0.3])}
    states, kinds = {**STATES, "var/b": np.array([1.0])}, {**WEIGHTS, "b": "weight"}
    off = {**reference, "grad/b": np.array([0.31])}
    assert causes_of("grad/b", reference, off, states, kinds) == []
    assert [
        name for name, _ in causes_of("grad/v", reference, {**reference, "grad/v": 2 * GRADIENTS["v"]}, states, kinds)
    ] == ["gradient_factor"]


def test_losses_that_are_alike_tell_no_factor(causes_of):
    alike = dict.fromkeys(LOSSES, np.array(2.0))
    assert of_the_losses(causes_of, alike, 1.25) == []
    assert [name for name, _ in of_the_losses(causes_of, LOSSES, 1.25)] == ["gradient_factor"]


def test_a_factor_that_is_the_number_of_examples_is_said_to_be_just_that(causes_of):
    fed = {f"feed/{tower}/x": np.arange(6.0) for tower in (0, 1)}
    one, other = {**fed, **LOSSES}, {**fed, **{name: 6 * value for name, value in LOSSES.items()}}
    assert causes_of("loss/0", one, other, {}, {}) == [
        (
            "loss_reduction",
            "the loss is off by the number of examples of a shard, as a sum over examples is where the reference takes "
            "a mean",
        )
    ]


def test_ranks_that_get_the_same_gradients_and_update_otherwise_are_not_said_to_share_none(causes_of):
    facts, noise = {"ranks_agree": False}, RANDOM.standard_normal((3, 2))
    one = {**step(WHOLE), "var/v": GRADIENTS["v"]}
    own_update = {**step(WHOLE), "var/v": GRADIENTS["v"] + noise}
    own_gradient = {**own_update, "grad/v": GRADIENTS["v"] + noise}
    first, *_ = causes_of("var/v", one, own_update, STATES, WEIGHTS, facts)
    assert first == ("not_shared", "the ranks make different updates of the same gradients")
    first, *_ = causes_of("grad/v", one, own_gradient, STATES, WEIGHTS, facts)
    assert first == ("not_shared", "gradients are not shared between the ranks")


STARTS = {"v": RANDOM.uniform(-0.1, 0.1, (6, 5)), "w": RANDOM.uniform(-0.1, 0.1, (8,))}
UPDATED = {name: value + RANDOM.uniform(-0.05, 0.05, value.shape) for name, value in STARTS.items()}


def weights(values, limit=np.inf):
    return {f"var/{name}": np.clip(value, -limit, limit) for name, value in values.items()}


@pytest.mark.parametrize(
    ("graph", "port", "words"), [(np.inf, 0.08, "cuts its"), (0.1, 0.08, "cuts its"), (0.08, 1, "go beyond")]
)
def test_weights_that_are_cut_off_on_one_side_are_named_with_the_limit(causes_of, graph, port, words):
    # The graph's learning rate is float32.
    moved = {name: start + (1 + 1.5e-8) * (UPDATED[name] - start) for name, start in STARTS.items()}
    ((name, title),) = causes_of("var/v", weights(moved, graph), weights(UPDATED, port), weights(STARTS), WEIGHTS)
    assert (name, words in title, " 0.08" in title) == ("weight_limit", True, True)


def test_weights_that_end_at_no_common_limit_are_not_cut_off(causes_of):
    by_norm = {name: value * min(1.0, 0.3 / float(np.linalg.norm(value))) for name, value in UPDATED.items()}
    each_its_own = {"v": np.clip(UPDATED["v"], -0.08, 0.08), "w": np.clip(UPDATED["w"], -0.07, 0.07)}
    between = np.sort(np.abs(UPDATED["v"]), axis=None)[-2:].mean()  # one element is beyond it
    for other in (by_norm, each_its_own, {**UPDATED, "v": np.clip(UPDATED["v"], -between, between)}):
        for sides in ((UPDATED, other), (other, UPDATED)):
            assert causes_of("var/v", *map(weights, sides), weights(STARTS), WEIGHTS) == []


def test_zeros_that_move_by_another_rate_in_their_first_update_are_not_cut_off(causes_of):
    zeros, *moved = ({name: rate * np.sign(value) for name, value in UPDATED.items()} for rate in (0.0, 0.01, 0.008))
    for sides in (moved, moved[::-1]):  # Adam's first update is the rate in every element
        assert "weight_limit" not in dict(causes_of("var/v", *map(weights, sides), weights(zeros), WEIGHTS))


STATISTIC = RANDOM.standard_normal(5)
ENDLESS = np.where(np.arange(5) == 0, np.inf, STATISTIC + 0.1)


@pytest.mark.parametrize(
    ("graph", "port"), [(STATISTIC + 0.1, None), (ENDLESS, np.where(np.arange(5) == 1, 0.0, ENDLESS))]
)
def test_a_statistic_that_cannot_be_compared_is_called_nothing(causes_of, graph, port):
    other = {} if port is None else {"stat/bn/mean": port}
    kinds = {"bn/mean": "statistic"}
    assert causes_of("stat/bn/mean", {"stat/bn/mean": graph}, other, {"stat/bn/mean": STATISTIC}, kinds) == []


def test_a_decay_is_told_of_a_kernel_that_is_zero_nearly_everywhere(causes_of):
    weight = np.zeros((100, 100))
    weight.flat[:7] = np.arange(1.0, 8.0)  # a thousandth of its elements, 10, would tell what the reference's decay is
    gradient = RANDOM.standard_normal(weight.shape)
    sides = [{f"tower_grad/{tower}/w": gradient + amount * weight for tower in (0, 1)} for amount in (0.0, 0.01)]
    found = causes_of("tower_grad/0/w", *sides, {"var/w": weight}, {"w": "weight"})
    assert found[0][0] == "weight_decay"
