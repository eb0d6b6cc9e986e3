"""What fits numbers, and what evidence reads of traces: each on arrays small enough to be worked out by hand."""

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence
from parity.diagnose.agreement import (
    explained,
    explained_together,
    fit,
    is_close,
    least_squares,
    reproduces,
    same_in_order,
    same_values,
    share_explained,
)
from parity.diagnose.fitting import as_dropout_keeps, counts, fit_partly, likely_share, narrow_format
from parity.diagnose.optimizer_input import linear_slot, optimizer_inputs, slot_rule
from parity.judge import Check, FirstDifference, Join
from parity.mapping import Mapping, Pair, parse_transform

RANDOM = np.random.default_rng(61)
X, Y = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(6, 4))


def test_a_combination_is_told_with_what_it_leaves_and_none_where_columns_say_the_same():
    found = fit([[X, Y], [Y, X]], [2 * X - 3 * Y, 2 * Y - 3 * X])
    assert found.coefficients == pytest.approx((2.0, -3.0)) and found.residual < 1e-14
    assert fit([[X]], [X + 0.5 * np.sign(Y)]).residual > 0.1
    assert fit([[X, 2 * X]], [X]) is None and fit([[X, 0 * X]], [X]) is None, "shares that cannot be told apart"
    assert fit([[X]], [0 * X]) is None and fit([], []) is None
    assert fit([[X[0, :2], Y[0, :2]]], [X[0, :2]]) is None, "as many numbers as columns"
    assert fit([[X[0, :3], Y[0, :3]]], [X[0, :3]]) is not None
    assert least_squares(np.array([[1.0], [np.nan]]), np.ones(2)) is None
    assert least_squares(np.ones((2, 1)), np.array([1.0, np.inf])) is None
    tiny = least_squares(np.stack([1e-100 * X.ravel(), 1e100 * Y.ravel()], 1), X.ravel() + Y.ravel())
    assert tiny == pytest.approx([1e100, 1e-100])


def test_a_hypothesis_explains_a_difference_where_it_leaves_a_thousandth_and_rounding():
    ones = np.ones(4)
    assert explained(0.9e-3 * ones, ones, 0 * ones) and not explained(1.1e-3 * ones, ones, 0 * ones)
    assert explained(0.9e-14 * ones, 0 * ones, ones) and not explained(1.1e-14 * ones, 0 * ones, ones)
    parts = [(2 * ones, 2 * ones + 1e-3 * scale * ones, ones) for scale in (0.5, 1.2)]
    assert explained_together(parts) and not explained_together(parts[1:])
    first = FirstDifference(Check("lockstep", 3, "var/w", "different", 1.0, 1e-12), "var", "w", "", None)
    told = share_explained(first, [(ones, ones, 2 * ones), (ones, 2 * ones, 3 * ones)])
    assert told[:2] == (3, "var/w") and told.share == pytest.approx(1 - np.sqrt(1 / 2))
    assert share_explained(first, [(9 * ones, ones, 2 * ones)]).share == 0.0
    assert share_explained(first, [(ones, ones, ones)]).share == 0.0


def test_what_counts_as_the_same_is_so_to_rounding_in_the_same_shape_or_order():
    assert is_close(1.0 + 0.9e-9, 1.0) and not is_close(1.0 + 1.1e-9, 1.0) and is_close(-2.0, -2.0 * (1 + 0.9e-9))
    assert same_values(X, X * (1 + 0.9e-9)) and not same_values(X, X * (1 + 1.1e-9))
    assert not same_values(X, X.T.copy()) and not same_values(X, X.reshape(4, 6))
    assert same_in_order(X, X.reshape(4, 6)) and same_in_order(1, 1.0) and not same_in_order(X, X[:, :3])
    assert not same_in_order("a", "a") and not same_in_order(X, None)
    holes = np.where(X > 1, np.inf, X)
    assert same_in_order(holes, holes) and not same_in_order(holes, X) and not same_in_order(X, holes)
    assert reproduces(Y, X, Y) and not reproduces(Y, X, Y[:3]) and not reproduces(Y * (1 + 1e-8), X, Y)
    assert not reproduces(Y * (1 + 1e-12), Y * (1 + 1e-10), Y), "not small beside what differs"


MASKED = np.where(X > 1.0, -np.inf, X)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_an_infinite_size_explains_nothing(infinite):
    ones = np.ones(4)
    size = np.array([1.0, 1.0, 1.0, infinite])
    assert explained(1e-15 * ones, 0 * ones, ones) and not explained(1e-15 * ones, 0 * ones, size)
    assert not explained(ones, size, ones) and not explained(size, size, size)
    assert explained_together([(ones, ones, ones)]) and not explained_together([(ones, ones, ones), (ones, ones, size)])


def test_the_same_infinities_in_the_same_places_are_the_same_and_the_rest_is_measured():
    assert same_values(MASKED, MASKED.copy()) and same_values(MASKED, MASKED * (1 + 0.9e-9))
    assert not same_values(MASKED, MASKED * (1 + 1.1e-9)) and not same_values(MASKED, -MASKED)
    assert (
        not same_values(MASKED, X)
        and not same_values(X, MASKED)
        and not same_values(MASKED, np.where(X > 1, np.inf, X))
    )
    assert not same_values(MASKED, np.roll(MASKED, 1, 0)), "as many in other places"
    holes = np.where(X > 1.0, np.nan, X)
    assert same_values(holes, holes.copy()) and not same_values(holes, MASKED)


def test_what_is_not_finite_is_reproduced_as_it_is_and_the_rest_beside_what_differs():
    wanted = np.where(X > 1.0, -np.inf, Y)
    assert reproduces(wanted.copy(), MASKED, wanted) and reproduces(wanted * (1 + 1e-12), MASKED, wanted)
    assert not reproduces(wanted * (1 + 1e-8), MASKED, wanted) and not reproduces(MASKED, MASKED, wanted)
    assert not reproduces(Y, MASKED, wanted) and not reproduces(-wanted, MASKED, wanted)
    assert not reproduces(wanted, MASKED, Y), "the candidate masks nothing"


@pytest.mark.parametrize(
    ("factor", "others", "name"),
    [
        (2.0**-7, 1 / 3, "bfloat16"),
        (2.0**-10, 1 / 3, "float16"),
        (2.0**-23, 1 / 3, "float32"),
        (2.0**-40, 1 / 3, ""),
        (2.0**-7, 1.0, ""),
        (0.5, 1 / 3, ""),
        (0.0, 1 / 3, ""),
    ],
)
def test_values_are_rounded_to_a_format_where_they_fit_it_use_its_last_bits_and_others_do_not(factor, others, name):
    values = 1.0 + factor * np.arange(1, 128, 2) if 0.0 < factor < 0.5 else factor * np.tile([1.0, 2.0, 3.0, 2.0], 16)
    assert narrow_format(values, np.arange(1.0, 65.0) * others) == name


@pytest.mark.parametrize(
    ("share", "count", "likely"),
    [(0.5, 1, True), (0.59, 400, True), (0.61, 400, False), (0.39, 400, False), (0.9, 25, True), (0.91, 25, False)],
)
def test_a_share_lies_within_four_deviations_of_its_probability(share, count, likely):
    assert likely_share(share, 0.5, count) is likely
    assert likely_share(0.5, 0.5, 0) and not likely_share(0.51, 1.0, 100)


def test_dropout_keeps_single_values_whole_maps_or_whole_examples():
    def keeps(kept, probability, dropped=None):
        return as_dropout_keeps(kept, ~kept if dropped is None else dropped, probability)

    values = RANDOM.random((20, 5, 5, 4)) < 0.7
    assert keeps(values, 0.7) and not keeps(values, 0.5)
    maps = np.broadcast_to(RANDOM.random((20, 1, 1, 4)) < 0.7, values.shape)
    assert keeps(maps, 0.7) and not keeps(maps, 0.3)
    wide = np.broadcast_to(np.arange(16)[:, None, None, None] < 12, (16, 5, 5, 4))
    assert keeps(wide, 0.6) and not keeps(wide, 0.2)
    assert not keeps(wide[:15], 0.8), "of fewer than 16 any share is likely"
    rows = np.broadcast_to(np.arange(32)[:, None] < 16, (32, 4))
    assert keeps(rows, 0.5) and not keeps(rows, 0.95)
    zero = values & (RANDOM.random(values.shape) < 0.5)
    assert keeps(zero, 0.7, ~values & (RANDOM.random(values.shape) < 0.5))


def test_a_fit_leaves_out_what_is_at_a_limit_or_in_empty_rows_and_nothing_else():
    whole = fit_partly([X, Y], X + 2 * Y)
    assert whole.coefficients == pytest.approx((1.0, 2.0)) and (whole.limit, whole.empty) == (0.0, ())
    cut = np.clip(2 * X, -1.0, 1.0)
    found = fit_partly([X], cut)
    assert found.limit == 1.0 and found.coefficients == pytest.approx((2.0,))
    assert fit_partly([X], np.where(np.abs(2 * X) > 1, 1.0, 2 * X)) is None, "of the other sign than what is cut"
    assert fit_partly([X], np.where(X.max() == X, 1.0, 2 * X)) is None, "one element at its size"
    two = np.concatenate([np.clip(2 * X, -1.0, 1.0), np.clip(2 * Y, -0.5, 0.5)])
    assert fit_partly([np.concatenate([X, Y])], two).coefficients == pytest.approx((2.0,))
    three = np.concatenate([two, np.clip(2 * X[::-1], -0.7, 0.7)])
    assert fit_partly([np.concatenate([X, Y, X[::-1]])], three) is None, "of three variables in one"
    rows = 2 * X
    rows[[1, 4]] = 0.0
    found = fit_partly([X], rows)
    assert (found.empty, found.limit) == ((1, 4), 0.0) and found.coefficients == pytest.approx((2.0,))
    assert fit_partly([X.ravel()], rows.ravel()) is None, "a vector has no rows"
    holes = np.where(np.eye(6, 4) > 0, 0.0, X)
    assert fit_partly([holes], np.where(rows == 0.0, 0.0, 2 * holes)).empty == (1, 4), "a zero makes no row empty"
    empty = X.copy()
    empty[1] = 0.0
    assert fit_partly([empty], rows).empty == (4,), "where the columns are empty too nothing is left out"
    assert fit_partly([X, Y], 0 * X).coefficients == (0.0, 0.0)
    assert fit_partly([X[0, :2]], X[0, :2]) is None, "two numbers more than columns have to hold"
    assert fit_partly([X[0, :3]], X[0, :3]).coefficients == pytest.approx((1.0,))


def test_columns_count_where_they_put_in_far_more_than_a_fit_leaves():
    target = X + 1e-2 * Y + 1e-6 * np.sign(Y)
    found = fit_partly([X, Y], target, 1e-3)
    assert counts(found, [0, 1], [X, Y], target) and counts(found, [], [X, Y], target)
    faint = X + 1e-5 * Y + 1e-6 * np.sign(X * Y)
    found = fit_partly([X, Y], faint, 1e-3)
    assert counts(found, [0], [X, Y], faint) and not counts(found, [0, 1], [X, Y], faint)


STATES = {
    "var/a": X,
    "var/b": Y,
    "slot/m/a": X + 1,
    "slot/m/b": Y - 1,
    "slot/v/a": X**2,
    "slot/v/b": Y**2,
    "state/learning_rate": np.array(0.25),
}
GRADIENTS = {"a": RANDOM.normal(size=(6, 4)), "b": RANDOM.normal(size=(6, 4))}
OTHERS = {"a": RANDOM.normal(size=(6, 4)), "b": 2 * GRADIENTS["b"]}


def made(tmp_path, one, other, states=STATES, facts=None, kinds=("a", "b")):
    weights = dict.fromkeys(kinds, "weight")
    sides = [trace(tmp_path / str(number), [step], weights, facts or {}) for number, step in enumerate((one, other))]
    before = trace(tmp_path / "states", [states], {}, {})
    pairs = [Pair(name, (name,), parse_transform("identity"), "", (6, 4)) for name in kinds]
    return Evidence(Join(Mapping(pairs), {}, ["m", "v"]), *sides, before, 2)


def of_rule(gradients, what):
    """What a side leaves of momentum, of squares, or of plain descent."""
    left = {f"grad/{name}": value for name, value in gradients.items()}
    for name, value in gradients.items():
        before = STATES[f"var/{name}"]
        slot = 0.9 * STATES[f"slot/m/{name}"] + value
        squares = 0.8 * STATES[f"slot/v/{name}"] + 0.2 * value**2
        left |= {"m": {f"slot/m/{name}": slot, f"var/{name}": before - 0.1 * slot},
                 "v": {f"slot/v/{name}": squares, f"var/{name}": before - 0.1 * value / np.sqrt(squares)},
                 "": {f"var/{name}": before - 0.1 * value}}[what]  # fmt: skip
    return left


@pytest.mark.parametrize(("slot", "rule"), [("m", (0.9, 1.0, 1)), ("v", (0.8, 0.2, 2))])
def test_the_rule_of_a_slot_is_read_off_either_side(tmp_path, slot, rule):
    evidence = made(tmp_path, of_rule(GRADIENTS, slot), of_rule(OTHERS, slot))
    assert slot_rule(evidence, 0, slot, candidate=False) == pytest.approx(rule)
    other = slot_rule(evidence, 0, slot, candidate=True)
    assert other == pytest.approx(rule)
    assert slot_rule(evidence, 0, slot, candidate=False, only=["a"]) == pytest.approx(rule)
    assert slot_rule(evidence, 0, slot, candidate=False, only=[]) is None
    assert slot_rule(evidence, 0, "no such", candidate=False) is None
    assert (linear_slot(evidence, 0) is None) == (slot == "v")


def test_a_slot_that_follows_no_rule_or_several_has_none(tmp_path):
    broken = of_rule(GRADIENTS, "m")
    broken["slot/m/b"] = 0.5 * STATES["slot/m/b"] + GRADIENTS["b"]
    evidence = made(tmp_path / "two", broken, broken)
    assert slot_rule(evidence, 0, "m", candidate=False) is None
    assert slot_rule(evidence, 0, "m", candidate=False, only=["b"]) == pytest.approx((0.5, 1.0, 1))
    decayed = of_rule(GRADIENTS, "m")
    for name in GRADIENTS:
        decayed[f"slot/m/{name}"] = decayed[f"slot/m/{name}"] + 0.01 * STATES[f"var/{name}"]
    evidence = made(tmp_path / "decay", decayed, decayed)
    assert slot_rule(evidence, 0, "m", candidate=False) is None
    assert slot_rule(evidence, 0, "m", candidate=False, decays=True) == pytest.approx((0.9, 1.0, 1))
    lacking = {text: value for text, value in STATES.items() if text != "slot/m/a"}
    evidence = made(tmp_path / "lacking", of_rule(GRADIENTS, "m"), of_rule(GRADIENTS, "m"), lacking)
    assert slot_rule(evidence, 0, "m", candidate=False) is None


@pytest.mark.parametrize("what", ["m", "v", ""])
def test_the_gradient_that_an_optimizer_must_have_been_given_is_solved_for(tmp_path, what):
    evidence = made(tmp_path, of_rule(GRADIENTS, what), {**of_rule(OTHERS, what), "grad/a": GRADIENTS["a"]})
    found = {each.name: each for each in optimizer_inputs(evidence, 0)}
    assert set(found) == {"a", "b"}
    for name, each in found.items():
        np.testing.assert_array_equal(each.gradient, GRADIENTS[name])
        wanted = np.abs(OTHERS[name]) * np.sign(GRADIENTS[name]) if what == "v" else OTHERS[name]
        np.testing.assert_allclose(each.used, wanted, 1e-6, 1e-9)


def test_a_gradient_of_nothing_but_rounding_tells_nothing_of_what_was_given(tmp_path):
    none = {"a": GRADIENTS["a"], "b": 1e-9 * GRADIENTS["b"]}
    for what in ("m", "v", ""):
        evidence = made(tmp_path / f"of {what}", of_rule(none, what), of_rule(none, what))
        assert [each.name for each in optimizer_inputs(evidence, 0)] == ["a"]


def test_what_decays_gives_its_sign_to_the_root_of_a_square(tmp_path):
    decayed = {name: value + 0.5 * STATES[f"var/{name}"] for name, value in GRADIENTS.items()}
    given = {f"grad/{name}": value for name, value in GRADIENTS.items()}
    evidence = made(tmp_path, of_rule(GRADIENTS, "v"), {**of_rule(decayed, "v"), **given})
    for each in optimizer_inputs(evidence, 0):
        np.testing.assert_allclose(each.used, decayed[each.name], 1e-6, 1e-9)


def test_no_gradient_is_solved_for_where_a_state_or_the_rule_is_not_known(tmp_path):
    for number, (what, lacking) in enumerate((("m", "slot/m/a"), ("v", "slot/v/a"), ("v", "var/a"), ("", "var/a"))):
        states = {text: value for text, value in STATES.items() if text != lacking}
        evidence = made(tmp_path / str(number), of_rule(GRADIENTS, what), of_rule(OTHERS, what), states)
        assert not optimizer_inputs(evidence, 0)
    still = {f"grad/{name}": value for name, value in GRADIENTS.items()} | {
        f"var/{name}": STATES[f"var/{name}"] for name in "ab"
    }
    assert optimizer_inputs(made(tmp_path / "still", still, still), 0) is None


def test_evidence_reads_what_both_sides_have_of_one_shape_and_finite(tmp_path):
    one = {"act/0/x": X, "act/0/y": Y, "act/1/x": X, "act/0/z": X, "loss/10": np.array(1.0), "loss/2": np.array(2.0)}
    other = {**one, "act/0/y": np.where(Y > 0, np.nan, Y), "act/0/z": X[:3]}
    evidence = made(tmp_path, one, other)
    assert [name for name, *_ in evidence.pairs(0, "act", tower="0")] == ["x"]
    assert evidence.tower_names(0, "loss") == ["2", "10"] and evidence.tower_names(0, "act") == ["0", "1"]
    assert evidence.slots(0) == [] and evidence.counter(0, "learning_rate") == evidence.learning_rate(0) == 0.25
    assert evidence.counter(0, "other") is None and evidence.before(0, "var", "c") is None
    np.testing.assert_array_equal(evidence.before(0, "slot", "a", "m"), X + 1)
    broken = made(tmp_path / "broken", one, other, {**STATES, "var/a": X * np.inf})
    assert broken.before(0, "var", "a") is None


def test_what_was_applied_is_what_each_side_clipped_if_it_says_so(tmp_path):
    one = {"grad/a": X, "grad/b": Y, "clip/a": X / 2}
    evidence = made(tmp_path, one, {"grad/a": X + 1, "grad/b": Y + 1, "clip/a": X / 4})
    told = evidence.applied(0)
    for name, wanted in (("a", (X / 2, X / 4)), ("b", (Y, Y + 1))):
        np.testing.assert_array_equal(told[name][0], wanted[0])
        np.testing.assert_array_equal(told[name][1], wanted[1])
    unclipped = made(tmp_path / "unclipped", one, {"grad/a": X + 1, "grad/b": Y}).applied(0)
    np.testing.assert_array_equal(unclipped["a"][1], X + 1)
    assert set(made(tmp_path / "nan", one, {"grad/a": X, "grad/b": Y, "clip/a": X * np.nan}).applied(0)) == {"b"}


@pytest.mark.parametrize(
    ("facts", "close", "losses"),
    [
        ({}, 1e-9, 1e-9),
        ({"precision": "float32"}, 1e-4, 1e-4),
        ({"float32_in_float64": ["xent"]}, 1e-9, 1e-6),
        ({"inexact_in_float64": ["xent"]}, 1e-9, 1e-6),
        ({"precision": "float32", "float32_in_float64": ["xent"]}, 1e-4, 1e-4),
    ],
)
def test_how_near_numbers_have_to_be_is_said_by_what_the_graph_computes_in(tmp_path, facts, close, losses):
    evidence = made(tmp_path, {"loss/0": np.array(1.0)}, {"loss/0": np.array(1.0)}, facts=facts)
    assert (evidence.close, evidence.close_losses) == (close, losses)


def test_a_rate_that_no_counter_holds_is_the_one_that_the_facts_tell(tmp_path):
    loss = {"loss/0": np.array(1.0)}
    states = {"var/a": X}
    told = made(tmp_path, loss, loss, states, {"optimizer": {"learning_rate": 0.5}})
    assert told.learning_rate(0) == 0.5 and told.optimizers == ({"learning_rate": 0.5},) * 2
    of_schedule = made(tmp_path / "schedule", loss, loss, states, {"optimizer": {"learning_rate": "cosine"}})
    assert of_schedule.learning_rate(0) is None and made(tmp_path / "none", loss, loss, states).learning_rate(0) is None
