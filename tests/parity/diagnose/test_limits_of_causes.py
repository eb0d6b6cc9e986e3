"""From where on numbers are said to be something: just inside and just outside the limits of hypotheses, on arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_steps import causes_between

from parity.diagnose.agreement import (
    alike,
    common_factor,
    explained,
    fit,
    is_close,
    rounds_to_one,
    same_values,
    told_factor,
)
from parity.diagnose.detectors.aggregation import cause_of_factor, cause_of_towers, is_power_of_two
from parity.diagnose.detectors.clipping import by_value, clipped_before_combining, how, limit_of
from parity.diagnose.detectors.forward import activation_factor, left_by_channels
from parity.diagnose.detectors.gradient_model import split
from parity.diagnose.detectors.weight_decay import cause_of_decay, decay_of_the_reference
from parity.judge import Check, FirstDifference

X = np.array([3.0, 4.0, 0.0])  # of norm 5
UP = np.array([0.0, 0.0, 5.0])  # as long, at right angles


@pytest.mark.parametrize(("off", "factor"), [(0.9e-9, 2.0), (1.1e-9, None)])
def test_a_factor_is_common_to_a_billionth(off, factor):
    found = common_factor([(X, 2.0 * X), (UP, 2.0 * UP + 2.0 * off * X)])
    assert found == (factor and pytest.approx(factor))
    assert common_factor([(X, 2.0 * X + 0.9e-4 * 2.0 * UP)], 1e-4) == pytest.approx(2.0)
    assert common_factor([(X, 2.0 * X + 1.1e-4 * 2.0 * UP)], 1e-4) is None


@pytest.mark.parametrize(("factor", "named"), [(0.5, True), (1e-6, True), (0.0, False)])
def test_zeros_are_no_multiple_of_an_output(factor, named):
    first = FirstDifference(Check("lockstep", 0, "act/0/h", "different", 1.0), "act", "h", "0", None)
    evidence = SimpleNamespace(pairs=lambda *asked: [("h", X, factor * X)])
    assert (activation_factor(first, evidence) is not None) == named


@pytest.mark.parametrize(("size", "factor"), [(0.9e-8, 2.0), (1.1e-8, None)])
def test_what_is_nothing_but_rounding_beside_the_rest_has_no_factor(size, factor):
    assert common_factor([(X, 2.0 * X), (size * UP, 7.0 * size * UP)]) == factor


def test_of_nothing_there_is_no_factor():
    assert common_factor([]) is None and common_factor([(0.0 * X, X)]) is None


@pytest.mark.parametrize(("factor", "told"), [(1.0 + 4e-6, None), (1.0 + 6e-6, 1.0 + 6e-6), (2.0, 2.0), (1.0, None)])
def test_a_factor_that_is_1_in_six_digits_is_none(factor, told):
    assert rounds_to_one(factor) is (told is None)
    assert told_factor([(X, factor * X)]) == (told and pytest.approx(told, rel=1e-12))


@pytest.mark.parametrize(("off", "factor"), [(0.9e-3, 1.0001), (1.2e-3, None)])
def test_a_factor_leaves_a_thousandth_of_what_differs(off, factor):
    left = off * 1e-4 * UP
    assert told_factor([(X, 1.0001 * X + left)], 1e-6) == (factor and pytest.approx(factor))


@pytest.mark.parametrize(("off", "is_alike"), [(0.9e-6, True), (1.1e-6, False)])
def test_numbers_are_alike_to_a_millionth(off, is_alike):
    assert alike([np.full(3, 2.0), np.full(2, 2.0 * (1 - off))]) is is_alike
    assert (told_factor([(np.array([2.0, 2.0 * (1 - off)]), np.array([4.0, 4.0 * (1 - off)]))]) is None) is is_alike


@pytest.mark.parametrize(("left", "apart", "size", "told"), [
    (0.9e-3, 1.0, 0.0, True),
    (1.1e-3, 1.0, 0.0, False),
    (0.9e-14, 0.0, 1.0, True),
    (1.1e-14, 0.0, 1.0, False),
])  # fmt: skip
def test_a_difference_is_explained_where_a_thousandth_or_rounding_is_left(left, apart, size, told):
    assert explained(left * X, apart * X, size * X) is told


def test_numbers_are_close_by_a_share_of_the_second():
    assert is_close(100.0 * (1 + 0.9e-9), 100.0) and not is_close(100.0 * (1 + 1.1e-9), 100.0)
    assert is_close(109.0, 100.0, 0.1) and not is_close(111.0, 100.0, 0.1)
    assert same_values(X, X + 0.9e-9 * UP) and not same_values(X, X + 1.1e-9 * UP)
    assert not same_values(X, X.reshape(3, 1))


def test_a_fit_needs_more_numbers_than_columns_and_columns_that_are_not_one_another():
    two = fit([[X, UP]], [2.0 * X - 3.0 * UP])
    assert two is not None and two.coefficients == pytest.approx((2.0, -3.0)) and two.residual < 1e-15
    left = fit([[X]], [X + 0.75 * UP])
    assert left is not None and left.coefficients == pytest.approx((1.0,)) and left.residual == pytest.approx(0.6)
    assert fit([[X, X * (1 + 1e-10)]], [X]) is None and fit([[X[:2], UP[1:]]], [X[:2]]) is None
    assert fit([], []) is None and fit([[X]], [0.0 * X]) is None and fit([[0.0 * X]], [X]) is None
    assert fit([[X]], [np.array([1.0, np.nan, 0.0])]) is None


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (64.0, True),
        (32.0, False),
        (1 / 64, True),
        (1 / 32, False),
        (65536.0, True),
        (96.0, False),
        (-64.0, False),
        (0.0, False),
    ],
)
def test_a_loss_scale_is_a_power_of_two_of_64_or_more(factor, told):
    assert is_power_of_two(factor) is told
    assert is_power_of_two(factor * (1 + 0.9e-9)) is told and not is_power_of_two(factor * (1 + 1.5e-9))


@pytest.mark.parametrize(
    ("factor", "whole", "scaled", "name", "title"),
    [
        (0.9e-9, True, False, "zero_gradient", "no gradient reaches w"),
        (1.1e-9, True, False, "gradient_factor", "gradients off by the factor 1.1e-09"),
        (-1.0, True, False, "sign", "the gradient has the wrong sign"),
        (-1.0 - 1.1e-9, True, False, "gradient_factor", "gradients off by the factor -1"),
        (128.0, True, True, "loss_scale", "the loss scale of 128 is not taken out"),
        (1 / 128, True, True, "loss_scale", "the loss scale of 128 is not taken out"),
        (128.0, False, True, "gradient_factor", "gradients off by the factor 128"),
        (128.0, True, False, "gradient_factor", "gradients off by the factor 128"),
        (0.25, True, False, "gradient_factor", "gradients off by the factor 0.25"),
    ],
)
def test_what_a_factor_of_gradients_is_called(factor, whole, scaled, name, title):
    cause = cause_of_factor(factor, "w", whole, "the figures", 4, 1e-9, scaled)
    assert (cause.name, cause.title) == (name, title)
    assert ("DDP does it already" in cause.fix) is (factor == 0.25)
    assert ("power of two" in cause.fix) is (factor == 128.0 and whole and not scaled)


@pytest.mark.parametrize(
    ("weights", "title"),
    [
        ([0.0, 1.0, 0.0], "only the gradient of tower 1 is used"),
        ([0.9e-9, 1.0, 1.0], "the gradient of tower 0 is left out"),
        ([1.1e-9, 1.0, 1.0], "the gradients of the towers do not count alike"),
        ([0.0, 1.0, 0.0, 2.0], "the gradient of tower 0, 2 is left out"),
    ],
)
def test_what_towers_that_do_not_count_alike_are_called(weights, title):
    cause = cause_of_towers(weights, 1e-9)
    shown = ", ".join(f"{0.0 if weight < 1e-9 else weight:.6g}" for weight in weights)  # rounding is said as 0
    assert cause.title == title and f"times {shown}, for" in cause.evidence


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        ([2.0, 2.0, 6.0], 2.0),
        ([2.0, 2.0 * (1 + 1.1e-6), 1.0], 1.0),  # no two agree: the one that counts once tells
        ([2.0, 2.0 * (1 + 0.9e-6), 1.0], 2.0),
        ([1 / 3, 5.0, 7.0], 1 / 3),
        ([0.0, 2.0, 2.0], 1.0),
        ([2.0, 3.0, 5.0], 1.0),
    ],
)
def test_most_towers_count_once_beside_a_factor_of_all(weights, whole):
    found, rest = split(weights, 3, 1e-6)
    assert found == pytest.approx(whole) and rest == pytest.approx([weight / whole for weight in weights])


TWO = {"grad/v": X, "grad/w": np.array([[1.0, -2.0], [0.5, 3.0]])}
WEIGHTS = {"v": "weight", "w": "weight"}


@pytest.mark.parametrize(
    ("factor", "facts", "names"),
    [
        (2.0, {}, ["sum_instead_of_mean"]),
        (2.0 * (1 + 0.9e-9), {}, ["sum_instead_of_mean"]),
        (2.0 * (1 + 1.2e-9), {}, ["gradient_factor"]),
        (2.0, {"combine": "sum"}, ["gradient_factor"]),
        (0.5, {}, ["gradient_factor"]),
        (0.5, {"combine": "sum"}, ["sum_instead_of_mean"]),
        (3.0, {}, ["gradient_factor"]),
    ],
)
def test_only_the_number_of_towers_makes_a_sum_of_a_mean(tmp_path, factor, facts, names):
    towers = {f"tower_grad/{tower}/{key[5:]}": value for key, value in TWO.items() for tower in range(2)}
    one, other = {**towers, **TWO}, {**towers, **{key: factor * value for key, value in TWO.items()}}
    found = causes_between(tmp_path, "grad/v", one, other, {}, WEIGHTS, facts)
    assert [name for name, _ in found][:1] == names


@pytest.mark.parametrize(
    ("factor", "facts", "named"),
    [
        (0.5, {}, "sum_instead_of_mean"),
        (0.5 * (1 + 0.9e-9), {}, "sum_instead_of_mean"),
        (0.5 * (1 + 1.2e-9), {}, "gradient_factor"),
        (2.0, {}, "sum_instead_of_mean"),
        (2.0, {"combine": "sum"}, "sum_instead_of_mean"),
        (3.0, {}, "gradient_factor"),
    ],
)
def test_one_gradient_may_be_added_up_where_the_others_are_averaged(tmp_path, factor, facts, named):
    towers = {f"tower_grad/{tower}/{key[5:]}": value for key, value in TWO.items() for tower in range(2)}
    one, other = {**towers, **TWO}, {**towers, **TWO, "grad/v": factor * TWO["grad/v"]}
    (name, _), *_ = causes_between(tmp_path, "grad/v", one, other, {}, WEIGHTS, facts)
    assert name == named


GRADIENTS = [np.random.default_rng(0).standard_normal((4, 3)), 0.1 * np.random.default_rng(1).standard_normal(5)]


@pytest.mark.parametrize(
    ("factor", "rule"),
    [
        (1.0 + 0.9e-9, ""),
        (1.0 - 1.1e-9, "global norm"),
        (1.0 + 1.1e-9, None),
        (0.5, "global norm"),
        (-0.5, None),
        (2.0, None),
    ],
)
def test_only_a_factor_below_1_is_a_limit_of_the_norm_of_all(factor, rule):
    found = how([(each, factor * each) for each in GRADIENTS])
    assert (found and found.by) == rule
    assert (limit_of([(each, factor * each) for each in GRADIENTS]) is not None) is bool(rule)


@pytest.mark.parametrize(("off", "rule"), [(0.9e-7, "global norm"), (2e-7, None)])
def test_a_limit_scales_all_gradients_alike_to_a_ten_millionth(off, rule):
    others = [0.5 * each for each in GRADIENTS]
    others[0] = others[0] + off * np.linalg.norm(others[0]) * np.eye(4, 3) / 3**0.5
    found = how(list(zip(GRADIENTS, others, strict=True)))
    assert (found and found.by) == rule


@pytest.mark.parametrize(("off", "rule"), [(0.9e-6, "norm"), (1.1e-6, None)])
def test_limits_of_norms_of_their_own_are_one_to_a_millionth(off, rule):
    sizes = (0.05, 0.05 * (1 - off))
    found = how([(each, size * each / np.linalg.norm(each)) for each, size in zip(GRADIENTS, sizes, strict=True)])
    assert (found and found.by) == rule
    assert found is None or found.value == pytest.approx(0.05)


def test_one_gradient_alone_is_scaled_by_its_own_norm_or_by_that_of_all():
    found = how([(GRADIENTS[0], 0.05 * GRADIENTS[0] / np.linalg.norm(GRADIENTS[0]))])
    assert found is not None and (found.by, found.fully) == ("norm", False)
    assert limit_of([]) is None


def cut(limits, value=(5.0, -4.0, 3.0, 0.5, -0.25)):
    value = np.array(value)
    return value, np.clip(value, -np.array(limits), np.array(limits))


@pytest.mark.parametrize(
    ("limits", "fully"),
    [
        ([1.0] * 5, True),
        ([4.5, 9, 9, 9, 9], None),  # what is not cut is no smaller than a limit: none was cut but the first
        ([1.0, 1.0, 0.5, 9, 9], True),
        ([1.0, 0.75, 0.5, 9, 9], None),  # three limits
        ([1.0, 1.0 - 0.9e-9, 1.0, 1.0, 1.0], True),
    ],
)
def test_elements_are_cut_off_at_a_limit_or_two(limits, fully):
    found = by_value([cut(limits)])
    assert (found and found.fully) == (True if fully else None) or (
        fully is None and found is not None and not found.fully
    )


def test_what_grows_or_turns_round_is_not_cut_off():
    before, after = cut([1.0] * 5)
    assert by_value([(before, -after)]) is None and by_value([(after, before)]) is None
    turned = np.where(np.abs(before) > 3.5, -after, after)
    assert by_value([(before, after)]) is not None and by_value([(before, turned)]) is None
    assert by_value([]) is None and by_value([(before, 0.0 * before)]) is None


@pytest.mark.parametrize(("amount", "who", "less"), [(1e-3, "candidate", True), (-1e-3, "reference", False)])
def test_who_decays_more_is_told_by_the_sign(amount, who, less):
    cause = cause_of_decay(amount, "w", "the figures")
    assert cause.title.startswith(f"weight decay of 0.001 in the {who} that the ")
    assert cause.fix.endswith(" less in the port") is less


DRAW = np.random.default_rng(2).standard_normal((40, 6))


@pytest.mark.parametrize(("off", "names"), [(0.9e-5, ["weight_decay"]), (1.1e-5, [])])
def test_a_decay_fits_a_hundred_thousandth_of_what_differs(tmp_path, off, names):
    weight, gradient = DRAW[:3], DRAW[3:6]
    across = DRAW[6:9] - weight * (DRAW[6:9] * weight).sum() / (weight**2).sum()
    added = 0.01 * (weight + off * across * np.linalg.norm(weight) / np.linalg.norm(across))
    states = {"var/w": weight}
    found = causes_between(
        tmp_path, "grad/w", {"grad/w": gradient}, {"grad/w": gradient + added}, states, {"w": "weight"}
    )
    assert [name for name, _ in found if name == "weight_decay"] == names


def averages(tmp_path, keep, at=1.0, share=None):
    """Causes of averages that keep 0.9 of themselves on one side and `keep` on the other, `at` from the weights."""
    start, weight = {"v": DRAW[0], "w": DRAW[1:3]}, {"v": DRAW[0] + at * DRAW[3], "w": DRAW[1:3] + at * DRAW[4:6]}
    weights = {f"var/{name}": value for name, value in weight.items()}
    one, other = (
        {**weights, **{f"ema/{name}": start[name] + (1 - each) * (weight[name] - start[name]) for name in start}}
        for each in (0.9, keep)
    )
    states = {f"ema/{name}": value for name, value in start.items()}
    return causes_between(tmp_path, "ema/v", one, other, states, WEIGHTS)


@pytest.mark.parametrize(
    ("keep", "title"),
    [
        (0.99, "the averages of the weights decay by 0.99 where the reference's decay by 0.9"),
        (0.9 + 1.2e-7, "the averages of the weights decay by 0.9 where the reference's decay by 0.9"),
        (0.9 + 0.8e-7, None),  # a millionth of the share
        (1.0, "the averages of the weights stay as they were"),
        (1.0 - 2e-9, "the averages of the weights decay by 1 where the reference's decay by 0.9"),
    ],
)
def test_another_decay_of_averages_is_told_to_a_millionth(tmp_path, keep, title):
    assert averages(tmp_path, keep) == ([("average_decay", title)] if title else [])


def test_averages_that_are_at_the_weights_tell_no_decay(tmp_path):
    assert averages(tmp_path, 0.99, at=1e-8) == []


def test_an_average_that_is_at_its_weight_is_left_out_beside_one_that_moves(tmp_path):
    start = {"v": DRAW[0], "w": DRAW[1:3]}
    weight = {"v": DRAW[0] + 1e-7 * DRAW[3], "w": DRAW[1:3] + DRAW[4:6]}
    weights = {f"var/{name}": value for name, value in weight.items()}

    def moved(keep, noise):
        made = {f"ema/{name}": start[name] + (1 - keep) * (weight[name] - start[name]) for name in start}
        return {**weights, **made, "ema/v": made["ema/v"] + noise * DRAW[6]}

    states = {f"ema/{name}": value for name, value in start.items()}
    found = causes_between(tmp_path, "ema/w", moved(0.9, 0.0), moved(0.99, 1e-12), states, WEIGHTS)
    assert [name for name, _ in found] == ["average_decay"]


def test_each_channel_is_scaled_and_shifted_by_its_own():
    scales, shifts = np.linspace(0.5, 2.0, 6), np.linspace(-1.0, 1.0, 6)
    assert left_by_channels(DRAW, DRAW * scales + shifts) < 1e-12
    noise = np.random.default_rng(3).standard_normal(DRAW.shape)
    assert 0.05 < left_by_channels(DRAW, DRAW * scales + shifts + 0.1 * noise) < 0.2
    assert left_by_channels(DRAW, DRAW) == np.inf


def test_behind_a_relu_the_values_that_are_positive_on_both_sides_tell_it():
    assert left_by_channels(np.maximum(DRAW, 0.0), np.maximum(1.5 * DRAW + 0.25, 0.0)) < 1e-12


@pytest.mark.parametrize(("rows", "told"), [(3, False), (4, True)])
def test_three_values_of_a_channel_tell_no_line(rows, told):
    assert (left_by_channels(DRAW[:rows], 2.0 * DRAW[:rows] + 1.0) < np.inf) is told
    still = np.full((9, 6), 3.0) + 0.4e-9 * DRAW[:9]
    assert left_by_channels(still, 2.0 * still) == np.inf


@pytest.mark.parametrize(("size", "count"), [(0.9e-8, 2), (1.2e-8, 3)])
def test_gradients_of_nothing_but_rounding_are_not_counted_among_those_that_a_rank_cuts_off(size, count):
    one = {
        "tower_grad/0/v": X,
        "tower_grad/0/w": 2.0 * X,
        "tower_grad/0/b": size * np.linalg.norm(2.0 * X) * np.eye(3)[0],
    }
    other = {key: np.clip(value, -2.0, 2.0) for key, value in one.items()}
    assert count_of_cut(one, other) == f"2 of {count} variables"


def count_of_cut(one, other):
    pairs = [(one[key], other[key]) for key in one]
    first = FirstDifference(Check("lockstep", 0, "tower_grad/0/v", "different", 1.0), "tower_grad", "v", "0", None)
    evidence = SimpleNamespace(pairs=lambda *_: [("", *pair) for pair in pairs])
    cause = clipped_before_combining(first, evidence)
    assert cause is not None and cause.name == "clipping"
    return cause.evidence[
        cause.evidence.index("gradients of ") + len("gradients of ") : cause.evidence.index(" are the")
    ]


@pytest.mark.parametrize(("most", "names"), [(100, ["weight_decay"]), (103, [])])
def test_rows_that_decay_by_up_to_a_hundred_multiples_of_one_amount_are_counted(tmp_path, most, names):
    weight, gradient = DRAW[:5, :4], DRAW[5:10, :4]
    other = gradient + 1e-3 * np.array([1.0, 2.0, 3.0, 5.0, most])[:, None] * weight
    one, other = {"tower_grad/0/table": gradient}, {"tower_grad/0/table": other}
    found = causes_between(tmp_path, "tower_grad/0/table", one, other, {"var/table": weight}, {"table": "weight"})
    assert [name for name, _ in found if name == "weight_decay"] == names


def reference_decays(weight, gradient, towers=4, **plan):
    evidence = SimpleNamespace(
        reference=SimpleNamespace(facts={"plan": plan}),
        towers=towers,
        tower_names=lambda step, quantity: ["0"],
        pairs=lambda *_: [("w", gradient, gradient), ("other", 7.0 * weight, weight)],
        before=lambda *_: weight,
    )
    return decay_of_the_reference(evidence, 0, ["w"])


@pytest.mark.parametrize(("where", "share"), [("once", 0.0), ("divided", 0.25), ("every", 1.0), (None, 1.0)])
def test_what_the_towers_decay_by_is_what_their_plan_says(where, share):
    plan = {"weight_decay": {"coefficient": 0.5}, "regularization": where}
    assert reference_decays(DRAW[0], DRAW[1], **plan) == 0.5 * share


@pytest.mark.parametrize(
    ("off", "count", "decay"), [(0.7e-13, 4, 0.01), (3e-13, 4, None), (0.0, 3, None), (0.0, 4, 0.01), (1.0, 0, None)]
)
def test_without_a_plan_four_elements_that_the_data_does_not_reach_say_what_the_reference_decays_by(off, count, decay):
    weight, gradient = DRAW[:2].ravel(), DRAW[2:4].ravel().copy()
    ratios = 0.01 * (1 + off * np.linspace(0.0, 1.0, max(count, 1)))
    gradient[:count] = ratios[:count] * weight[:count]
    found = reference_decays(weight, gradient)
    assert found == (decay and pytest.approx(decay, rel=1e-9))


def test_an_element_without_any_gradient_says_that_nothing_decays():
    gradient = DRAW[2].copy()
    gradient[1] = 0.0
    assert reference_decays(DRAW[0], gradient) == 0.0


@pytest.mark.parametrize(("size", "name"), [(0.9e-8, "gradient_factor"), (1.1e-8, None)])
def test_a_gradient_of_nothing_but_rounding_need_not_share_the_factor_of_all(tmp_path, size, name):
    faint = size * np.linalg.norm(TWO["grad/v"]) * 0.5
    one = {"grad/v": 2.0 * X, "grad/w": 4.0 * faint * np.array([[0.6, 0.8], [0.0, 0.0]])}
    other = {"grad/v": 6.0 * X, "grad/w": one["grad/w"] * np.array([[1.0, 5.0], [1.0, 1.0]])}
    found = [name for name, _ in causes_between(tmp_path, "grad/v", one, other, {}, WEIGHTS)]
    assert ("gradient_factor" in found) is (name is not None)


@pytest.mark.parametrize(("examples", "name"), [(1, "gradient_factor"), (3, "loss_reduction"), (6, "loss_reduction")])
def test_only_of_several_examples_a_sum_is_no_mean(tmp_path, examples, name):
    one = {"feed/0/x": np.zeros((examples, 2)), "loss/0": np.array(2.0), "loss/1": np.array(3.0)}
    factor = {1: 5.0, 3: 6.0, 6: 1 / 6}[examples]  # 6: the examples of a batch of two towers, or of a shard
    other = {**one, "loss/0": factor * one["loss/0"], "loss/1": factor * one["loss/1"]}
    [(found, title)] = causes_between(tmp_path, "loss/0", one, other, {}, {})
    assert found == name
    assert {1: "factor 5", 3: "examples of a batch, as a sum", 6: "examples of a shard, as a mean"}[examples] in title


SCALES = np.linspace(1.01, 1.06, 6)
VARIANCE = np.linspace(1.0, 2.0, 6)


def normalised(tmp_path, other, gamma=None, moved=VARIANCE, before=0.5 * VARIANCE):
    """Name and title of causes of a layer with a moving statistic that was `before` and is VARIANCE and `moved`."""
    states = {"stat/variance": before, **({} if gamma is None else {"var/gamma": gamma})}
    kinds = {"variance": "statistic", **({} if gamma is None else {"gamma": "weight"})}
    one = {"act/0/layer": DRAW, "stat/variance": VARIANCE}
    found = causes_between(tmp_path, "act/0/layer", one, {"act/0/layer": other, "stat/variance": moved}, states, kinds)
    return [(name, title) for name, title in found if name in ("normalisation", "gamma_missing")]


EPSILON = [("normalisation", "batch norm normalises layer by another epsilon")]
EVALUATION = [("normalisation", "batch norm normalises layer by the moving statistics, as in evaluation")]


@pytest.mark.parametrize(("off", "told"), [(0.9e-5, EPSILON), (1.1e-5, [])])
def test_another_epsilon_scales_about_nothing_but_beta(tmp_path, off, told):
    assert normalised(tmp_path, SCALES * DRAW + off * 0.06) == told


@pytest.mark.parametrize(("off", "told"), [(0.9e-7, EPSILON), (1.2e-7, [])])
def test_scale_and_shift_leave_a_ten_millionth_of_what_differs(tmp_path, off, told):
    other = SCALES * DRAW
    noise = np.random.default_rng(5).standard_normal(DRAW.shape)
    for channel in range(6):
        lines = np.stack([DRAW[:, channel], np.ones(len(DRAW))], axis=1)
        noise[:, channel] -= lines @ np.linalg.lstsq(lines, noise[:, channel], rcond=None)[0]
    noise *= off * np.linalg.norm(other - DRAW) / np.linalg.norm(noise)
    assert normalised(tmp_path, other + noise) == told


@pytest.mark.parametrize(
    ("off", "told"),
    [(0.9e-6, [("gamma_missing", "the candidate's batch norm does not multiply by gamma")]), (1.1e-6, EPSILON)],
)
def test_a_gamma_is_missing_where_every_channel_is_divided_by_it(tmp_path, off, told):
    assert normalised(tmp_path, DRAW / SCALES, gamma=SCALES * (1 + off)) == told


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        (VARIANCE * (1 + 0.9e-12), EPSILON),
        (VARIANCE * (1 + 1.2e-12), []),  # what goes into the norm differs
        (0.5 * VARIANCE * (1 + 0.9e-12), EVALUATION),
        (0.5 * VARIANCE * (1 + 1.2e-12), []),
    ],
)
def test_where_statistics_went_says_by_what_batch_norm_normalises(tmp_path, moved, told):
    assert normalised(tmp_path, SCALES * DRAW, moved=moved) == told


@pytest.mark.parametrize(("off", "names"), [(0.9e-8, ["some_towers"]), (1.2e-8, [])])
def test_combined_gradients_are_made_of_those_of_the_towers_to_a_hundred_millionth(tmp_path, off, names):
    towers = {"tower_grad/0/w": DRAW[:2], "tower_grad/1/w": DRAW[2:4]}
    flat = np.stack([value.ravel() for value in towers.values()], axis=1)
    noise = DRAW[4:6].ravel()
    noise = (noise - flat @ np.linalg.lstsq(flat, noise, rcond=None)[0]).reshape(2, 6)
    alone = towers["tower_grad/0/w"] + off * noise * np.linalg.norm(DRAW[:2]) / np.linalg.norm(noise)
    one, other = {**towers, "grad/w": (DRAW[:2] + DRAW[2:4]) / 2}, {**towers, "grad/w": alone}
    found = causes_between(tmp_path, "grad/w", one, other, {}, {"w": "weight"})
    assert [name for name, _ in found if name == "some_towers"] == names
