"""Weights are moved aside alike on every side, by less than float32 can tell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from parity.trace import break_ties, break_ties_of_inputs

TIE_BREAK = 2.0**-30
SEEDS = st.integers(0, 2**40)
WEIGHTS = arrays.arrays(np.float32, st.integers(0, 9), elements=st.floats(-1e6, 1e6, width=32))


@given(WEIGHTS, SEEDS)
def test_each_weight_moves_by_at_most_2_to_the_minus_30_of_itself_and_back_by_as_much(weights, seed):
    exact = weights.astype(np.float64)
    there, back = (break_ties({"var/w": weights}, seed, towards)["var/w"] for towards in (1.0, -1.0))
    assert there.dtype == np.float64 and there.shape == weights.shape
    assert np.all(np.abs(there - exact) <= 1.001 * TIE_BREAK * np.abs(exact))
    np.testing.assert_allclose(
        there - exact, exact - back, rtol=0.0, atol=2.0**-50 * float(np.abs(exact).max(initial=0))
    )
    assert np.array_equal(there.astype(np.float32), weights)


@given(WEIGHTS, SEEDS)
def test_what_is_no_weight_stays(values, seed):
    tensors = {"stat/w": values, "state/global_step": np.int64(3), "section/G/slot/m/w": values}
    assert all(
        value is tensors[name] for name, value in break_ties(tensors, seed).items() if name != "state/global_step"
    )
    assert break_ties(tensors, seed)["state/global_step"] == 3


def test_equal_weights_go_each_its_own_way():
    moved = break_ties({"var/one": np.ones(4), "var/other": np.ones(4)}, 0)
    assert len({*moved["var/one"], *moved["var/other"]}) == 8
    assert not np.array_equal(moved["var/one"], break_ties({"var/one": np.ones(4)}, 1)["var/one"])


def test_the_amounts_are_the_same_in_every_version_of_numpy():
    moved = break_ties({"var/net/w": np.ones(3)}, 7)["var/net/w"]
    assert [float(each).hex() for each in moved] == [
        "0x1.0000000016f5bp+0",
        "0x1.fffffff8bcd42p-1",
        "0x1.ffffffffde014p-1",
    ]


@given(WEIGHTS, SEEDS, st.sampled_from(["var/w", "feed/x", "feed/0/x", "section/G/feed/0.1/x"]))
def test_with_inputs_a_zero_moves_by_a_part_of_the_largest_element(values, seed, name):
    exact = values.astype(np.float64)
    there, back = (break_ties_of_inputs({name: values}, seed, towards)[name] for towards in (1.0, -1.0))
    reach = np.where(exact == 0, np.abs(exact).max(initial=0), np.abs(exact))
    assert there.dtype == np.float64
    assert np.all(np.abs(there - exact) <= 1.001 * TIE_BREAK * reach)
    np.testing.assert_allclose(
        there - exact, exact - back, rtol=0.0, atol=2.0**-50 * float(np.abs(exact).max(initial=0))
    )
    assert np.all((there != exact) | (reach == 0))


def test_a_tensor_of_nothing_but_zeros_stays():
    assert not break_ties_of_inputs({"var/w": np.zeros(3, np.float32)}, 1)["var/w"].any()


def test_with_inputs_numbers_draws_integers_and_state_stay():
    tensors = {
        "feed/0/rate": np.float32(0.5),
        "feed/0/labels": np.arange(3),
        "noise/0/mask": np.ones(3, np.float32),
        "slot/m/w": np.ones(3, np.float32),
        "state/learning_rate": np.float32(0.1),
    }
    moved = break_ties_of_inputs(tensors, 3)
    assert all(moved[name] is value for name, value in tensors.items())


def test_unless_told_otherwise_all_go_there():
    tensors = {"var/w": np.ones(3), "feed/0/x": np.ones((2, 2))}
    for move in (break_ties, break_ties_of_inputs):
        assert all(np.array_equal(value, move(tensors, 3, 1.0)[name]) for name, value in move(tensors, 3).items())


def test_what_towers_share_is_moved_alike_and_repeated_inputs_are_not():
    batch = np.ones((2, 2), np.float32)
    moved = break_ties_of_inputs({"feed/0/x": batch, "feed/1.0/x": batch, "feed/x": batch, "feed/0/y": batch}, 5)
    assert np.array_equal(moved["feed/0/x"], moved["feed/1.0/x"]) and np.array_equal(moved["feed/0/x"], moved["feed/x"])
    assert len({*moved["feed/0/x"].ravel(), *moved["feed/0/y"].ravel()}) == 8
