"""Masks that are made of data, however each side makes and applies them, are compared by the places that they leave out."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.located.masks import cause_of_mask
from parity.locate import locate

RANDOM = np.random.default_rng(2)
X, W, V = RANDOM.normal(size=(2, 5, 4)), RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(4, 3))
H = X @ W
SCORES = H @ H.transpose(0, 2, 1)
LINKS = np.zeros((2, 5, 5))
LINKS[0, [0, 1, 2, 3], [1, 2, 3, 4]] = LINKS[1, [4, 3, 0, 2], [0, 1, 2, 3]] = 1.0
LOOPS = np.minimum(LINKS + np.eye(5), 1.0)


def softmax(x):
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def attended(shares, at):
    out = shares @ H
    return [("MatMul", [at, 0], out), ("MatMul", [at + 1, V], out @ V), ("Mean", [at + 2], (out @ V).mean())]


def of_data(side, number=2):
    """The same pass, in which an op without inputs reads no weight."""
    ops = list(side.ops)
    ops[number] = ops[number]._replace(weights=[])
    return side._replace(ops=ops)


def added(seen):
    """As people wrote it for graphs: what is not seen gets a huge negative number added."""
    bias = -1e9 * (1.0 - seen)
    shares = softmax(SCORES + bias)
    return passed(
        ("MatMul", [X, W], H),
        ("BatchMatMulV2", [0, 0], SCORES, {"adj_y": True}),
        ("Sub", [1.0, seen], 1.0 - seen),
        ("Mul", [2, -1e9], bias),
        ("AddV2", [1, 3], SCORES + bias),
        ("Softmax", [4], shares),
        *attended(shares, 5),
    )


def filled(seen, scores=SCORES, function=softmax):
    """As ports do: scores of what is not seen are replaced."""
    hidden = np.where(seen > 0, scores, -1e9)
    shares = function(hidden)
    return passed(
        ("linear", [X, W], H),
        ("matmul", [0, H.transpose(0, 2, 1)], scores),
        ("eq", [seen], seen == 0, {"1": 0}),
        ("masked_fill", [1, 2], hidden, {"2": -1e9}),
        ("softmax", [3], shares, {"1": -1}),
        *attended(shares, 4),
    )


def cause(one, other):
    place = locate(of_data(one), of_data(other), {"w": ["w"]}, {"w": (4, 4)})
    return cause_of_mask(place) if place is not None else None


def test_a_mask_of_other_places_is_named_however_it_is_made_and_though_rows_are_left_empty():
    named = cause(added(LOOPS), filled(LINKS))
    assert named.name == "mask" and "10 of 50 of them" in named.title
    assert "of rows that are masked as a whole" in named.evidence
    full = np.minimum(LOOPS + LOOPS[:, ::-1], 1.0)
    named = cause(added(LOOPS), filled(full))
    assert named.name == "mask" and "rows that are masked" not in named.evidence


@pytest.mark.parametrize("scores", [1.5 * SCORES, np.tanh(SCORES)])
def test_the_same_mask_and_one_that_does_not_explain_the_numbers_are_not_named(scores):
    assert cause(added(LOOPS), filled(LOOPS)) is None
    assert cause(added(LOOPS), filled(LOOPS, scores)) is None
    assert cause(added(LOOPS), filled(np.minimum(LOOPS + LOOPS[:, ::-1], 1.0), scores)) is None


def test_a_mask_along_the_other_axis_of_two_is_another_mask():
    """Scores are as long in both directions, and the same numbers under another order of axes."""
    keys = np.array([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 0]])[:, None, :]
    along_keys, along_queries = np.broadcast_to(keys, (2, 5, 5)), np.broadcast_to(keys.transpose(0, 2, 1), (2, 5, 5))
    named = cause(added(along_keys), filled(along_queries))
    assert named.name == "mask" and "other places" in named.title
    assert cause(added(along_keys), filled(along_keys)) is None


KEYS = np.broadcast_to(np.array([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 0]])[:, None, :], (2, 5, 5))


def test_a_mask_in_front_of_where_the_passes_part_is_named():
    """Of symmetric scores the same numbers are left by either axis: the passes part at the softmax behind both masks."""
    one, other = of_data(added(KEYS)), of_data(filled(KEYS.swapaxes(1, 2)))
    place = locate(one, other, {"w": ["w"]}, {"w": (4, 4)})
    kinds = [side.ops[at].kind for side, at in zip(place.passes, place.parting[:2], strict=True)]
    assert kinds == ["Softmax", "softmax"]
    named = cause_of_mask(place)
    assert named.name == "mask" and "20 of 50" in named.title


@pytest.mark.parametrize("seen", [KEYS, KEYS.swapaxes(1, 2)])
def test_a_mask_in_front_of_where_the_passes_part_that_explains_nothing_is_not_named(seen):
    """The same mask, and another one in front of another function."""
    other = filled(seen, function=lambda x: softmax(x / 2))
    place = locate(of_data(added(KEYS)), of_data(other), {"w": ["w"]}, {"w": (4, 4)})
    assert [side.ops[at].kind for side, at in zip(place.passes, place.parting[:2], strict=True)] == [
        "Softmax",
        "softmax",
    ]
    assert cause_of_mask(place) is None
