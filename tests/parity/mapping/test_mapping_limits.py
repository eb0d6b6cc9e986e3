"""From where on numbers speak for a pair of variables, just inside and just outside each limit."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.mapping import (
    MappingEntry,
    MappingError,
    Values,
    Variable,
    build_mapping,
    draft_mapping,
    guesses,
    propose,
    proposed_toml,
)
from parity.mapping.by_gradients import Gradients, _choices, tied_values
from parity.mapping.guesses import Guess
from parity.mapping.similarity import words
from parity.mapping.units import Unit

ONE = np.array([3.0, 0.0, 0.0, 0.0])
ACROSS = np.array([0.0, 1.0, 0.0, 0.0])


def apart(one, other, others=None, tolerance=0.0):
    """What is said of two gradients, others of the reference beside them."""
    name, unit = Variable("w", np.shape(one)), Unit("p", (Variable("p", np.shape(other)),))
    told = Gradients({"w": np.asarray(one), **(others or {})}, {"p": np.asarray(other)}, tolerance)
    return told(name, unit, "identity")


def test_equal_gradients_are_nothing_apart_and_unrelated_ones_three_quarters():
    assert apart(ONE, ONE) == 0.0 and apart(ONE, -ONE) == 1.0
    assert apart(ONE, 3.0 * ACROSS) == pytest.approx(2**-0.5)
    assert apart([1.0, 2.0], [1.0, np.nan]) is None and apart([np.inf, 2.0], [1.0, 2.0]) is None


@pytest.mark.parametrize(("off", "equal"), [(5.9e-3, True), (6.1e-3, False)])
def test_what_is_called_equal_is_said_by_whoever_asks(off, equal):
    found = apart(ONE, ONE + off * ACROSS, tolerance=1e-3)  # over the sum of both norms, 6
    assert (found == 0.0) is equal and (equal or found == pytest.approx(off / 6, rel=1e-3))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (0.5 * ONE, 5e-4),
        (2.0 * ONE + 0.9e-9 * 6.0 * ACROSS, 5e-4),
        (2.0 * ONE + 1.1e-9 * 6.0 * ACROSS, 1 / 3),
        (-2.0 * ONE, 1.0),
        (ONE * (1 + 1e-6), 5e-7),  # nearer than a multiple is said to be
    ],
)
def test_a_multiple_of_a_gradient_is_near_it_and_not_equal(other, found):
    assert apart(ONE, other) == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(("size", "found"), [(3, 1 / 3), (4, 5e-4)])
def test_of_a_few_elements_one_may_be_a_multiple_of_the_other_by_chance(size, found):
    one = np.arange(1.0, 1.0 + size)
    assert apart(one, 2.0 * one) == pytest.approx(found)


@pytest.mark.parametrize(("size", "told"), [(0.9e-12, False), (1.1e-12, True)])
def test_a_gradient_of_nothing_but_rounding_says_nothing(size, told):
    large = {"other": np.array([1.0, -5.0])}
    assert (apart(5.0 * size * np.ones(4), -5.0 * size * np.ones(4), large) is not None) is told


def proposed(value, other, names=("a", "b")):
    sides = [
        Values([Variable(name, (4,))], {name: np.asarray(each)}, {})
        for name, each in zip(names, (value, other), strict=True)
    ]
    [found] = propose(*sides)
    return found


@pytest.mark.parametrize(("off", "agreement"), [(0.9e-3, 1.0), (1.1e-3, 1 - 1.1e-3)])
def test_values_that_are_a_thousandth_apart_agree(off, agreement):
    found = proposed(ONE, ONE + 6.0 * off * ACROSS)
    assert found.scores["initial value"] == pytest.approx(agreement, abs=1e-6)


def test_values_that_are_all_one_number_tell_nothing():
    assert set(proposed(np.zeros(4), np.zeros(4)).scores) == {"name"}
    assert set(proposed(np.zeros(4), ONE).scores) == {"name", "initial value"}


@pytest.mark.parametrize(("confidence", "sure"), [(0.5, True), (0.49, False)])
def test_what_is_less_than_half_sure_is_a_guess(confidence, sure):
    found = proposed(ONE, ONE)._replace(confidence=confidence)
    assert ("a guess" not in proposed_toml([found])) is sure


def test_a_rival_takes_away_from_confidence_as_it_comes_near():
    draw = np.random.default_rng(0).standard_normal((2, 8))
    reference = Values([Variable("a", (8,))], {"a": draw[0]}, {})

    def sure(rival):
        candidate = Values([Variable("one", (8,)), Variable("two", (8,))], {"one": draw[0], "two": rival}, {})
        [found] = propose(reference, candidate)
        assert found.candidate == ("one",)
        return found.confidence / found.total

    assert sure(draw[1]) == 1.0
    assert 0.0 < sure(draw[0] + 0.05 * draw[1]) < 0.25


@pytest.mark.parametrize("to", [["one", "missing"], ["missing", "two"], ["missing", "lost"]])
def test_every_name_behind_an_entry_has_to_be_there(to):
    reference, candidate = [Variable("bias", (4,))], [Variable("one", (4,)), Variable("two", (4,))]
    with pytest.raises(MappingError) as refused:
        build_mapping(reference, candidate, {"bias": MappingEntry(to=to, transform="sum")})
    lacking = [name for name in to if name in ("missing", "lost")]
    assert all(
        f"{name}: expected a variable of the candidate, got none of this name" in str(refused.value) for name in lacking
    )


def test_one_and_several_are_one_word():
    assert words("experts/w") == words("expert/w") == {"expert"}
    assert words("gas/w") == {"gas"} and words("Conv2d_3") == {"conv", "conv3"}


def test_values_that_no_option_exchanges_stay_and_those_that_one_does_become_their_mean():
    value, variable = np.arange(9.0).reshape(3, 3), Variable("w", (3, 3))
    unit = Unit("p", (Variable("p", (3, 3)),))
    for texts, wanted in ((("identity",), value), (("identity", "transpose"), (value + value.T) / 2)):
        guess = Guess(variable, unit, "identity", tuple((unit, text) for text in texts), "")
        np.testing.assert_array_equal(tied_values([guess], {"w": value})["w"], wanted)


@pytest.mark.parametrize(
    ("one", "of", "other", "use", "texts"),
    [
        ((1, 1, 5, 7), "Conv2D", (7, 5), "Linear", ["reshape(5, 7) | transpose"]),
        ((2, 3, 5, 7), "Conv2D", (7, 30), "Linear", ["reshape(30, 7) | flatten_hwc(2, 3, 5)"]),
        ((1, 3, 5, 7), "Conv2D", (7, 15), "Linear", ["reshape(15, 7) | flatten_hwc(1, 3, 5)"]),
        ((2, 3, 5, 7), "Conv2D", (30, 7), "Linear", []),
        ((5, 7), "MatMul", (7, 5, 1, 1), "Conv2d", ["transpose | reshape(7, 5, 1, 1)"]),
        ((5, 7), "MatMul", (5, 7, 1, 1), "Conv2d", []),
        ((5, 7), "MatMul", (7, 5, 1), "Conv1d", ["transpose | reshape(7, 5, 1)"]),
        ((1, 3, 5, 7), "Conv2D", (7, 5, 3), "Conv1d", ["reshape(3, 5, 7) | wio_to_oiw"]),
        ((3, 1, 5, 7), "Conv2D", (7, 5, 3), "Conv1d", ["reshape(3, 5, 7) | wio_to_oiw"]),
        ((3, 5, 1, 7), "Conv2D", (7, 5, 3), "Conv1d", ["reshape(3, 5, 7) | wio_to_oiw"]),
        ((5, 3, 1, 7), "Conv2D", (7, 5, 3), "Conv1d", ["reshape(5, 3, 7) | axes(2, 0, 1)"]),
        ((3, 5, 2, 7), "Conv2D", (7, 5, 6), "Conv1d", []),
        ((3, 2, 5, 7), "Conv2D", (7, 5, 6), "Conv1d", []),
        ((3, 4, 5), "Einsum", (20, 3), "Linear", ["reshape(3, 20) | transpose"]),
        ((3, 4, 5), "Einsum", (5, 12), "Linear", ["reshape(12, 5) | transpose"]),
        ((3, 4, 5), "Einsum", (12, 5), "Linear", ["reshape(12, 5)"]),
        ((3, 4, 5), "Einsum", (3, 20), "Linear", ["reshape(3, 20)"]),
        ((3, 4, 5), "MatMul", (3, 20), "Linear", []),
        ((3, 4, 5), "GatherV2", (3, 20), "Embedding", ["reshape(3, 20)"]),
        ((3, 4, 5), "GatherV2", (12, 5), "Embedding", []),
        ((4, 3), "Mul", (12,), "", ["reshape(12)"]),
        ((2, 2, 1, 3), "Conv2D", (12,), "BatchNorm2d", []),  # a kernel is no bias
    ],
)
def test_kernels_are_taken_for_those_of_other_axes_as_ops_and_modules_hold_them(one, of, other, use, texts):
    unit = Unit("p", (Variable("p", other, use=use),))
    assert unit.transforms(Variable("w", one, use=of)) == texts
    assert (
        unit.transforms(Variable("w", (*one, 2), use=of)) == unit.transforms(Variable("w", one, kind="statistic")) == []
    )


def option(label, *axes, text="identity"):
    return Unit(label, tuple(Variable(f"{label}.{place}", (3,) * count) for place, count in enumerate(axes))), text


@pytest.mark.parametrize(
    ("axes", "others", "leads"),
    [
        (2, [(2,)], True),
        (2, [(1,)], True),
        (3, [(2,), (1,)], True),
        (1, [(1,)], True),
        (1, [(1, 2)], True),  # the first of several parts counts
        (1, [(2,)], False),
        (1, [(2, 1)], False),
        (1, [(1,), (2,)], False),
        (0, [(1,)], True),
        (0, [(2,)], False),
    ],
)
def test_kernels_and_vectors_that_no_kernel_leads_are_tried_with_other_partners(axes, others, leads):
    own = option("own", 1 if axes < 2 else axes)
    units = [option(f"other{place}", *each) for place, each in enumerate(others)]
    turned = (own[0], "transpose")
    guess = Guess(Variable("v", (3,) * axes), own[0], "identity", (*units, own, turned), "")
    draft = SimpleNamespace(guesses=[guess])
    expected = [("v", turned), *(("v", each) for each in units if leads)]
    assert list(_choices(draft)) == expected


@pytest.mark.parametrize(
    ("most", "told"),
    [(36, "6 pairs that are no more than guessed"), (35, "at most 35 pairs .* got 6 variables for 6 weights: write")],
)
def test_more_pairs_than_memory_holds_are_refused_before_they_are_made(monkeypatch, most, told):
    monkeypatch.setattr(guesses, "MOST_PAIRS_OF_ONE_SHAPE", most)
    reference = [Variable(f"layer{number}/kernel", (2, 2)) for number in range(6)]
    candidate = [Variable(f"part{number}.weight", (2, 2)) for number in range(6)]
    with pytest.raises(MappingError, match=told):
        build_mapping(reference, candidate, {})


def test_a_product_that_is_overlapped_and_added_is_a_transposed_convolutions():
    reference = [
        Variable("encoder/kernel", (8, 1, 26), use="Conv2D"),
        Variable("decoder/kernel", (26, 8), use="MatMul"),
    ]
    uses = {"encoder.conv.weight": "Conv1d", "decoder.conv.weight": "ConvTranspose1d"}
    candidate = [Variable(name, (26, 1, 8), use=use) for name, use in uses.items()]
    pairs = {
        pair.reference: (*pair.candidate, pair.transform.text)
        for pair in draft_mapping(reference, candidate, {}).mapping().pairs
    }
    assert pairs == {
        "encoder/kernel": ("encoder.conv.weight", "wio_to_oiw"),
        "decoder/kernel": ("decoder.conv.weight", "reshape(26, 1, 8)"),
    }


@pytest.mark.parametrize(
    ("shape", "own", "use", "text"),
    [
        ((1, 4, 4, 12), (1, 12, 4, 4), "Tile", "nhwc_to_nchw"),
        ((6, 5, 3), (3, 6, 5), "AddV2", "axes(2, 0, 1)"),
        ((3, 4, 12, 5), (5, 12, 3, 4), "Conv2D", "hwio_to_oihw"),
        ((6, 5, 3), (3, 5, 6), "Einsum", "wio_to_oiw"),
    ],
)
def test_what_is_learned_and_no_kernel_may_be_a_map_with_channels_last(shape, own, use, text):
    draft = draft_mapping([Variable("a/learned", shape, use=use)], [Variable("a.learned", own)], {})
    assert [pair.transform.text for pair in draft.mapping().pairs] == [text]
