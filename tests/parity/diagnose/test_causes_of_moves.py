"""Outputs whose numbers all stand in other places in the port are told at once, where that is proven by its loss."""

import numpy as np
from support.made_passes import passed

from parity.diagnose.located.moved import cause_of_moves
from parity.locate import locate

RANDOM = np.random.default_rng(7)
X, W, V = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(4, 4))
TARGETS = RANDOM.normal(size=(2, 6, 4))


def net(moved, factor=1.0):
    """Two heads that lay out alike what they give, each against its targets: one of them alone gives no loss of the port."""

    def laid(x):
        return x[[3, 4, 5, 0, 1, 2]] if moved else x

    one, two = laid(X @ W), laid(X @ V)
    apart = [one - TARGETS[0], two - TARGETS[1]]
    losses = [(each**2).mean() * factor for each in apart]
    return passed(
        ("MatMul", [X, W], one),
        ("MatMul", [X, V], two),
        ("Sub", [0, TARGETS[0]], apart[0]),
        ("Sub", [1, TARGETS[1]], apart[1]),
        ("Square", [2], apart[0] ** 2),
        ("Square", [3], apart[1] ** 2),
        ("Mean", [4], losses[0] / factor),
        ("Mean", [5], losses[1] / factor),
        ("Mul", [6, factor], losses[0]),
        ("Mul", [7, factor], losses[1]),
        ("AddV2", [8, 9], sum(losses)),
    )


def cause(one, other):
    place = locate(one, other, {"w": ["w"]}, {"w": (4, 4)})
    return cause_of_moves(place) if place is not None else None


def test_what_two_heads_lay_out_otherwise_is_told_once_and_proven_by_the_loss():
    named = cause(net(False), net(True))
    assert named.name == "moved_values" and "stand in other places in the port" in named.title
    assert "the same 48 numbers" in named.evidence


def test_a_loss_that_the_ports_places_do_not_give_shows_another_bug():
    assert cause(net(False), net(True, 1.5)) is None
    assert cause(net(False), net(False, 1.5)) is None
