"""A part of a longer sum tells only where the other side adds up the same terms."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.locate import sums
from parity.locate.divergence import Side, part
from parity.locate.downstream import behind_difference
from parity.locate.matching import reach
from parity.locate.sums import Sums

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(6, 4))
A, B, C = (X @ RANDOM.normal(size=(4, 4)) for _ in range(3))
TERMS = [("MatMul", [X, each], each) for each in (A, B, C)]


def sides(reference, candidate):
    found = reach(reference, candidate)
    known = (found.reference, found.candidate)
    return [
        Side(each.ops, told, by, behind_difference(each.ops, told, by))
        for each, told, by in zip((reference, candidate), found.told, known, strict=True)
    ]


def parts(one, other):
    reference, candidate = sides(one, other)
    left, right = Sums(reference.ops), Sums(candidate.ops)
    return (
        left.parts_without_a_like(reference.reached, right, candidate.reached),
        right.parts_without_a_like(candidate.reached, left, reference.reached),
    )


def summed(*order, last=1.0, kind="AddV2", of=np.add):
    """A sum of the three terms by pairs of places in what there is, a number times it, and its mean."""
    ops, values = list(TERMS), [A, B, C]
    for one, other in order:
        values.append(of(values[one], values[other]))
        ops.append((kind, [one, other], values[-1]))
    made = values[-1] * last
    return passed(*ops, ("Tanh", [len(ops) - 1], np.tanh(made)), ("Mean", [len(ops)], np.tanh(made).mean()))


FROM_THE_LEFT, FROM_THE_RIGHT = ((0, 1), (3, 2)), ((1, 2), (0, 3))


def test_sums_in_another_order_have_parts_that_tell_nothing():
    assert parts(summed(*FROM_THE_LEFT), summed(*FROM_THE_RIGHT)) == ({3}, {3})
    assert parts(summed(*FROM_THE_LEFT), summed(*FROM_THE_LEFT)) == (set(), set())


def test_products_are_too_and_a_product_is_no_part_of_a_sum():
    turned = [summed(*order, kind="Mul", of=np.multiply) for order in (FROM_THE_LEFT, FROM_THE_RIGHT)]
    assert parts(*turned) == ({3}, {3})
    mixed = passed(*TERMS, ("Mul", [0, 1], A * B), ("AddV2", [3, 2], A * B + C), ("Mean", [4], (A * B + C).mean()))
    assert parts(mixed, summed(*FROM_THE_RIGHT)) == (set(), {3})


def test_the_same_terms_tell_where_one_side_subtracts():
    other = passed(*TERMS, ("sub", [0, 1], A - B), ("add", [3, 2], A - B + C), ("mean", [4], (A - B + C).mean()))
    one = summed(*FROM_THE_LEFT)
    assert parts(one, other) == (set(), set())
    parting = part(*sides(one, other), {})
    assert (parting.reference, parting.candidate) == (3, 3)


def test_what_is_wrong_behind_a_sum_in_another_order_is_where_passes_part():
    parting = part(*sides(summed(*FROM_THE_LEFT), summed(*FROM_THE_RIGHT, last=1.5)), {})
    assert (parting.reference, parting.candidate) == (5, 5)


@pytest.mark.parametrize("read_again", [False, True])
def test_what_is_read_elsewhere_too_is_no_part(read_again):
    made = [*TERMS, ("AddV2", [0, 1], A + B), ("AddV2", [3, 2], A + B + C)]
    made += [("Tanh", [3], np.tanh(A + B)), ("AddV2", [4, 5], A + B + C + np.tanh(A + B))] if read_again else []
    end = made[-1][2]
    side = passed(*made, ("Mean", [len(made) - 1], end.mean()))
    found, _ = parts(side, summed(*FROM_THE_RIGHT))
    assert (3 in found) is not read_again


@pytest.mark.parametrize(("weights", "shape", "found"), [(["w"], (4,), set()), (["w"], (), {3}), ([], (4,), {3})])
def test_a_bias_ends_a_sum_and_a_number_is_a_term_that_may_be_added_anywhere(weights, shape, found):
    bias = np.ones(shape) * 0.5
    side = passed(
        *TERMS, ("AddV2", [0, bias], A + bias), ("AddV2", [3, 1], A + B + bias), ("Mean", [4], (A + B + bias).mean())
    )
    ops = [op._replace(weights=weights) if number == 3 else op for number, op in enumerate(side.ops)]
    other = passed(*TERMS, ("add", [0, 1], A + B), ("mean", [3], (A + B).mean()))
    assert parts(side._replace(ops=ops), other)[0] == found


@pytest.mark.parametrize(("most", "found"), [(2, set()), (1, {3})])
def test_a_part_of_more_terms_than_are_kept_tells_nothing(monkeypatch, most, found):
    monkeypatch.setattr(sums, "MOST_TERMS", most)
    assert parts(summed(*FROM_THE_LEFT), summed(*FROM_THE_LEFT))[0] == found
