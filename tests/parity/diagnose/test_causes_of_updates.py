"""The number or the rule that differs in an update is solved for from gradients, slots and weights, and named."""

import functools

import numpy as np
import pytest
from support.made_steps import causes_between
from support.made_updates import (
    FACTS,
    KINDS,
    SHAPES,
    SLOTS,
    adadelta,
    adagrad,
    adam,
    before,
    ftrl,
    made,
    momentum,
    rmsprop,
    twice,
)


@pytest.fixture
def causes_of(tmp_path):
    """Returns name and title of the causes of a first difference, see `causes_between`."""
    return functools.partial(causes_between, tmp_path)


def named(causes_of, key, reference, rule=None, own=None, **settings):
    own = own or {}
    rate = own.get("lr", {momentum: 0.1, adam: 0.01, rmsprop: 0.01, adagrad: 0.1, adadelta: 1.0, ftrl: 0.1}[reference])
    facts = {"optimizer": {**FACTS[reference], **own, "learning_rate": rate}}
    one, other = made(reference, reference, **own), made(rule or reference, reference, **{**own, **settings})
    return causes_of(key, one, other, before(reference), KINDS, facts)


@pytest.mark.parametrize(
    ("reference", "settings", "key", "name", "title"),
    [
        (momentum, {"keep": 0.5}, "slot/momentum/kernel", "momentum", "0.5 where the reference has 0.9"),
        (momentum, {"keep": 0.5, "only": ["bias"]}, "slot/momentum/bias", "momentum", "has 0.9 for bias"),
        (momentum, {"take": 0.1}, "slot/momentum/kernel", "momentum", "dampened"),
        (momentum, {"nesterov": True}, "var/kernel", "nesterov", "in the candidate only"),
        (momentum, {"nesterov": True, "only": ["bias"]}, "var/bias", "nesterov", "in the candidate only"),
        (momentum, {"nesterov": True, "decay": 0.03}, "var/kernel", "nesterov", "in the candidate only"),
        (momentum, {"lr": 0.2}, "var/kernel", "learning_rate", "factor 2"),
        (momentum, {"lr": 0.2, "only": ["bias"]}, "var/bias", "learning_rate", "factor 2 for bias"),
        (adam, {"beta1": 0.5}, "slot/m/kernel", "adam_beta", "beta1 is 0.5 where the reference has 0.9"),
        (adam, {"beta2": 0.99}, "slot/v/kernel", "adam_beta", "beta2 is 0.99 where the reference has 0.999"),
        (adam, {"beta1": 0.0}, "slot/m/kernel", "adam_beta", "beta1 is 0 where the reference has 0.9"),
        (adam, {"epsilon": 1e-6}, "var/kernel", "adam_epsilon", "1e-06 where the reference has 0.0001"),
        (adam, {"of_torch": True}, "var/kernel", "adam_epsilon_placement", "inside the bias correction"),
        (adam, {"of_torch": True, "only": ["table"]}, "var/table", "adam_epsilon_placement", "inside the bias"),
        (adam, {"corrected": False}, "var/kernel", "bias_correction", "without bias correction"),
        (adam, {"lr": 0.03}, "var/kernel", "learning_rate", "factor 3"),
        (adam, {"ahead": 0.1 / 0.9}, "var/kernel", "nesterov", "in the candidate only"),
        (adam, {"decoupled": 0.05}, "var/kernel", "weight_decay", "weight decay of 0.05 in the candidate"),
        (adam, {"decoupled": 0.05, "of_torch": True}, "var/kernel", "weight_decay", "weight decay of 0.05"),
        (
            rmsprop,
            {"decay": 0.99},
            "slot/rms/kernel",
            "decay_rate",
            "RMSProp's decay is 0.99 where the reference has 0.9",
        ),
        (rmsprop, {"keep": 0.9}, "slot/momentum/kernel", "momentum", "0.9 where the reference has 0.5"),
        (rmsprop, {"lr": 0.02}, "slot/momentum/kernel", "learning_rate", "factor 2"),
        (rmsprop, {"lr": 1.0}, "slot/momentum/kernel", "optimizer_rule", "without the learning rate"),
        (rmsprop, {"epsilon": 1e-2}, "slot/momentum/kernel", "rmsprop_epsilon", "0.01 where the reference has 0.001"),
        (rmsprop, {"inside": False}, "slot/momentum/kernel", "rmsprop_epsilon", "outside the root"),
        (adam, {"ahead": 0.1}, "var/kernel", "optimizer_rule", "the update is m + gradient / (sqrt(v) + epsilon)"),
        (adam, {"ahead": -0.1}, "var/kernel", "optimizer_rule", "of the candidate uses m from before the step"),
        (
            adagrad,
            {"inside": 1e-2},
            "var/kernel",
            "optimizer_epsilon",
            "0.01 inside the root where the reference has none",
        ),
        (
            adagrad,
            {"average": 0.9},
            "slot/accumulator/kernel",
            "optimizer_rule",
            "averages squares, as RMSProp does, and keeps 0.9",
        ),
        (
            rmsprop,
            {"sums": True},
            "slot/rms/kernel",
            "optimizer_rule",
            "sums squares up, as Adagrad does, where the reference's averages",
        ),
        (adagrad, {"epsilon": 1e-2}, "var/kernel", "optimizer_epsilon", "0.01 where the reference has 0"),
        (adagrad, {"lr": 0.05}, "var/kernel", "learning_rate", "factor 0.5"),
        (
            adadelta,
            {"rho": 0.9},
            "slot/accum/kernel",
            "decay_rate",
            "Adadelta's rho is 0.9 where the reference has 0.95",
        ),
        (
            adadelta,
            {"epsilon": 1e-6},
            "slot/accum_update/kernel",
            "optimizer_epsilon",
            "1e-06 where the reference has 0.0001",
        ),
        (
            ftrl,
            {"l1": 0.01},
            "var/kernel",
            "optimizer_setting",
            "l1_regularization_strength 0.01 where the reference has",
        ),
        (
            ftrl,
            {"l2": 0.01},
            "var/kernel",
            "optimizer_setting",
            "l2_regularization_strength 0.01 where the reference has 0",
        ),
        (ftrl, {"lr": 0.2}, "slot/linear/kernel", "learning_rate", "learning_rate 0.2 where the reference has 0.1"),
    ],
)
def test_what_differs_in_an_update_is_named_with_both_values(causes_of, reference, settings, key, name, title):
    first, *_ = named(causes_of, key, reference, **settings)
    assert first[0] == name
    assert title in first[1]


def test_nesterov_momentum_that_is_lost_is_named(causes_of):
    causes = named(causes_of, "var/kernel", momentum, own={"nesterov": True}, nesterov=False)
    assert causes == [("nesterov", "Nesterov momentum in the reference only")]


def test_two_steps_of_the_optimizer_for_one_are_told_from_another_momentum(causes_of):
    (first,) = named(causes_of, "slot/momentum/kernel", momentum, twice)
    assert first == ("updated_twice", "the optimizer makes 2 steps where the reference makes one")


def test_plain_gradient_descent_has_lost_the_momentum(causes_of):
    (first,) = named(causes_of, "var/kernel", momentum, lambda g, s, w: momentum(g, s, w) * 0 + 0.1 * g)
    assert first == ("momentum", "the update is plain gradient descent: the momentum is lost")


@pytest.mark.parametrize("reference", [momentum, adam, adagrad])
def test_nothing_that_moves_is_no_share_that_a_slot_keeps(causes_of, reference):
    slot = SLOTS[reference][0]
    causes = named(causes_of, f"slot/{slot}/kernel", reference, lambda g, s, w: 0.0 * w)
    assert causes == [("not_updated", "no variable moves at step 0")]


def test_another_optimizer_is_named_by_both_formulas(causes_of):
    def without_root(g, s, w):
        adam(g, s, w)
        return 0.02 * s["m"]

    (first,) = named(causes_of, "var/kernel", adam, without_root)
    assert first == ("optimizer_rule", "the update is m where the reference's is m / (sqrt(v) + epsilon)")


@pytest.mark.parametrize("reference", [momentum, adam, rmsprop, adagrad, adadelta, ftrl])
@pytest.mark.parametrize("noise", [1e-9, 1e-4, 1.0])
def test_noise_on_an_update_is_no_other_rule(causes_of, reference, noise):
    assert named(causes_of, "var/kernel", reference, noise=noise) == []


RATES = [0.1, 0.09, 0.081, 0.0729]


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "title"),
    [
        (RATES, [0.2, 0.18, 0.162, 0.1458], "learning_rate", "learning rate off by the factor 2"),
        ([0.1, 0.1, 0.01, 0.01], [0.1, 0.01, 0.01, 0.01], "shifted_schedule", "a step too early"),
        (RATES, [0.1, 0.1, 0.09, 0.081], "shifted_schedule", "a step too late"),
        (RATES, [0.1] * 4, "slow_schedule", "stays 0.1 over the 4 recorded steps"),
        (RATES, [0.1, 0.1, 0.09, 0.09], "slow_schedule", "stepped once in 2 updates"),
        ([0.3, 0.2, 0.1, 0.0], [0.3, 0.25, 0.2, 0.15], "slow_schedule", "runs 2 times as slowly"),
        (RATES, [0.1, 0.05, 0.025, 0.0125], "learning_rate", "by the factor 0.5 a step, the reference's by 0.9"),
        (
            [0.3, 0.2, 0.1, 0.0],
            [0.3, 0.28, 0.26, 0.24],
            "learning_rate",
            "changes by -0.02 a step, the reference's by -0.1",
        ),
        ([0.01, 0.05, 0.1, 0.1], [0.1] * 4, "learning_rate", "up to step 1, and the same from step 2 on"),
        ([0.1, 0.1, 0.01, 0.001], [0.1, 0.1, 0.05, 0.04], "learning_rate", "from step 2 on"),
    ],
)
def test_schedules_are_told_apart_by_their_rates(causes_of, reference, candidate, name, title):
    one, other = ([{"state/learning_rate": np.array(rate)} for rate in rates] for rates in (reference, candidate))
    first, *_ = causes_of("state/learning_rate", one, other, [{}] * 4, {})
    assert first[0] == name
    assert title in first[1]


def test_rates_that_are_rounded_otherwise_are_the_same(causes_of):
    one, other = (
        [{"state/learning_rate": np.array(kind(rate))} for rate in RATES] for kind in (np.float64, np.float32)
    )
    assert causes_of("state/learning_rate", one, other, [{}] * 4, {}) == []


WEIGHTS = {name: np.random.default_rng(7).standard_normal(shape) for name, shape in SHAPES.items()}
GRADIENTS = {name: np.random.default_rng(8).standard_normal(shape) for name, shape in SHAPES.items()}


def penalised(**penalties):
    """Losses and gradients of a tower with the penalty's gradient, a function of the weight, of some variables."""
    added = {name: penalties[name](WEIGHTS[name]) if name in penalties else 0.0 for name in SHAPES}
    return {"loss/0": np.array(1.0), **{f"tower_grad/0/{name}": GRADIENTS[name] + added[name] for name in SHAPES}}


def half_squares(coefficient):
    return lambda weight: coefficient * weight


def rows(weight):
    return np.arange(1.0, 10.0)[:, None] * 1e-3 * weight


@pytest.mark.parametrize(
    ("reference", "candidate", "title"),
    [
        ({"kernel": half_squares(1e-3)}, {"kernel": half_squares(2e-3)}, "weight decay of 0.001 in the candidate"),
        (
            {"kernel": half_squares(1e-3), "table": half_squares(1e-4)},
            dict.fromkeys(SHAPES, half_squares(1e-3)),
            "weight decay off by 0.0009 for table; 0.001 for bias",
        ),
        (
            dict.fromkeys(SHAPES, half_squares(1e-3)),
            dict.fromkeys(SHAPES, lambda weight: 1e-3 * weight / np.linalg.norm(weight)),
            "the penalty takes the norms of the weights where the reference takes half their squares",
        ),
        (
            dict.fromkeys(SHAPES, half_squares(1e-3)),
            dict.fromkeys(SHAPES, lambda weight: 1e-3 * np.sign(weight)),
            "the penalty takes the sizes of the weights where the reference takes none or their squares",
        ),
        ({}, {"table": rows}, "the rows of table decay otherwise, each by an amount of its own"),
    ],
)
@pytest.mark.parametrize("key", ["loss/0", "tower_grad/0/kernel"])
def test_what_the_penalties_of_a_loss_differ_by_is_named(causes_of, key, reference, candidate, title):
    before = {f"var/{name}": value for name, value in WEIGHTS.items()}
    first, *_ = causes_of(key, penalised(**reference), penalised(**candidate), before, KINDS)
    assert first[0] == "weight_decay"
    assert first[1].startswith(title)


def test_gradients_that_differ_by_no_function_of_the_weights_tell_of_no_decay(causes_of):
    random = np.random.default_rng(9)
    candidate = penalised(kernel=lambda weight: 1e-3 * weight * (1 + 1e-3 * random.standard_normal(weight.shape)))
    before = {f"var/{name}": value for name, value in WEIGHTS.items()}
    assert causes_of("tower_grad/0/kernel", penalised(), candidate, before, KINDS) == []


def test_decay_in_an_optimizer_that_keeps_squares_only_is_named(causes_of):
    assert named(causes_of, "slot/accumulator/kernel", adagrad, decay=1e-2) == [
        ("weight_decay", "weight decay of 0.01 in the candidate that the reference does not have")
    ]


def gradients_over(weights, towers, added):
    """Steps of two towers from one weight each, with something added to the gradient of the table."""
    random, found = np.random.default_rng(10), []
    for weight in weights:
        step = {"loss/0": np.array(1.0), "loss/1": np.array(1.1)}
        for tower in range(towers):
            gradient = random.standard_normal(weight.shape)
            step[f"tower_grad/{tower}/table"] = gradient + added(weight, gradient, tower)
        found.append(step)
    return found


TABLES = [np.random.default_rng(11).standard_normal(SHAPES["table"]) for _ in range(2)]


@pytest.mark.parametrize(
    ("added", "title"),
    [
        (lambda w, g, tower: 0.01 * w, "weight decay of 0.01 in the candidate"),
        (lambda w, g, tower: w * (g * w).sum() / (w * w).sum(), ""),  # w / |w| whose norm is detached
        (lambda w, g, tower: w * ((g * w).sum(1) / (w * w).sum(1))[:, None], ""),  # of every row
        (lambda w, g, tower: 0.01 * np.arange(9.0)[:, None] * (1 + tower) * w, "the rows of table decay otherwise"),
    ],
)
@pytest.mark.parametrize(("steps", "towers"), [(1, 2), (2, 1), (2, 2)])
def test_a_decay_is_the_same_in_every_tower_and_step(causes_of, added, title, steps, towers):
    one, other = (gradients_over(TABLES[:steps], towers, rule) for rule in (lambda w, g, tower: 0.0 * w, added))
    causes = causes_of(
        "tower_grad/0/table", one, other, [{"var/table": w} for w in TABLES[:steps]], {"table": "weight"}
    )
    assert [name for name, _ in causes] == (["weight_decay"] if title else [])
    assert all(each.startswith(title) for _, each in causes)


def counted(t):
    return np.sqrt(1 - 0.999**t) / (1 - 0.9**t)


def updates_of(factors, count=3):
    """States, steps whose updates are the factors of the reference's, and facts of Adam; by states `count` steps old."""
    random, states, steps = np.random.default_rng(12), [], []
    for k, factor in enumerate(factors):
        weight, slots = random.standard_normal(30), {"slot/m/w": random.standard_normal(30), "slot/v/w": np.ones(30)}
        powers = {
            "state/beta1_power": np.array(0.9 ** (count + k)),
            "state/beta2_power": np.array(0.999 ** (count + k)),
        }
        states.append({"var/w": weight, **slots, **powers})
        moved = 1e-2 * slots["slot/m/w"] * factor
        steps.append({"grad/w": np.zeros(30) + slots["slot/m/w"], **slots, "var/w": weight - moved})
    return states, steps


@pytest.mark.parametrize(
    ("factors", "names", "title"),
    [
        ([0.5, 0.5, 0.5], "learning_rate", "learning rate off by the factor 0.5"),
        ([0.5, 0.4, 0.3], "learning_rate", "the updates are off by another factor at every step"),
        (
            [counted(t + 1) / counted(t) for t in (3, 4, 5)],
            "bias_correction",
            "that of step 4 where the reference is at step 3",
        ),
        (
            [counted(1) / counted(t) for t in (3, 4, 5)],
            "bias_correction",
            "that of step 1 where the reference is at step 3",
        ),
    ],
)
def test_a_learning_rate_is_off_by_one_factor_in_all_steps(causes_of, factors, names, title):
    states, one = updates_of([1.0] * 3)
    _, other = updates_of(factors)
    facts = {"optimizer": {**FACTS[adam], "learning_rate": 1e-2}}
    ((name, told),) = causes_of("var/w", one, other, states, {"w": "weight"}, facts)
    assert name == names
    assert title in told


def from_nothing(keep, left=0.0, steps=3):
    """Steps of a momentum that begins empty, in the reference's states; `left` of the gradient before is still in it."""
    random = np.random.default_rng(13)
    gradients, weight = [random.standard_normal(30) for _ in range(steps)], random.standard_normal(30)
    states, made, slot = [], [], np.zeros(30)
    for k, gradient in enumerate(gradients):
        states.append({"var/w": weight, "slot/momentum/w": slot})
        given = gradient + (left * gradients[k - 1] if k else 0.0)
        made.append({"grad/w": gradient, "slot/momentum/w": keep * slot + given, "var/w": weight})
        slot = 0.9 * slot + gradient
    return states, made


@pytest.mark.parametrize(
    ("rule", "steps", "name"),
    [
        ({"keep": 0.95}, 2, "momentum"),
        ({"keep": 0.95}, 3, "momentum"),
        ({"keep": 0.9, "left": 1.0}, 2, "stale_gradient"),
        ({"keep": 0.9, "left": 1.0}, 3, "stale_gradient"),
        ({"keep": 0.9, "left": 0.05}, 3, "stale_gradient"),
    ],
)
def test_another_momentum_of_a_slot_that_began_empty_is_no_gradient_left_over(causes_of, rule, steps, name):
    states, one = from_nothing(0.9, steps=steps)
    _, other = from_nothing(steps=steps, **rule)
    facts = {"optimizer": {"learning_rate": 0.1}}
    causes = causes_of("slot/momentum/w", one, other, states, {"w": "weight"}, facts, step=1)
    assert causes[0][0] == name


@pytest.mark.parametrize(
    ("settings", "only", "name"),
    [({}, None, "momentum"), ({"dampening": 0.0}, None, "gradient_factor"), ({}, ["bias"], "gradient_factor")],
)
def test_a_gradient_is_dampened_where_the_settings_do_not_say_otherwise_and_all_of_it_is(
    causes_of, settings, only, name
):
    facts = {"optimizer": {"learning_rate": 0.1, **settings}}
    one, other = made(momentum, momentum), made(momentum, momentum, take=0.1, only=only)
    key = f"slot/momentum/{only[0] if only else 'kernel'}"
    assert causes_of(key, one, other, before(momentum), KINDS, facts)[0][0] == name


KERNEL, MOVE = np.random.default_rng(5).standard_normal((4, 3)), np.random.default_rng(6).standard_normal((4, 3))
OF_A_RATE = {"state/learning_rate": np.array(0.02)}


def test_decay_beside_an_update_is_measured_by_the_rate_of_the_port_where_the_script_has_none(tmp_path):
    """An Adam that a script writes itself has its rate in no slot; torch's AdamW decays weights by itself."""
    given = {"grad/w": MOVE, "slot/m/w": 0.1 * MOVE}
    one = {**given, "var/w": KERNEL - 0.02 * MOVE}
    other = {**given, "var/w": KERNEL - 0.02 * MOVE - 0.02 * 0.01 * KERNEL}
    states = {"var/w": KERNEL, "slot/m/w": 0.0 * MOVE}
    found = causes_between(tmp_path / "rate", "var/w", one, {**other, **OF_A_RATE}, states, {"w": "weight"})
    assert found[0] == ("weight_decay", "weight decay of 0.01 in the candidate that the reference does not have")
    assert "weight_decay" not in [
        name for name, _ in causes_between(tmp_path / "none", "var/w", one, other, states, {"w": "weight"})
    ]


def test_a_rate_of_zero_is_said_where_nothing_moves(tmp_path):
    given, states = {"grad/w": MOVE}, {"var/w": KERNEL}
    one, other = {**given, "var/w": KERNEL - 0.02 * MOVE}, {**given, "var/w": KERNEL}
    for rate, name in ((0.0, "learning_rate"), (0.02, "not_updated")):
        rated = {**other, "state/learning_rate": np.array(rate)}
        found = causes_between(tmp_path / name, "var/w", one, rated, states, {"w": "weight"})
        assert found[0][0] == name
