"""A cell is its formula, gate by gate, and goes over a sequence step by step: computed here example by example."""

import itertools

import numpy as np
import pytest

from parity.diagnose.layers.recurrent import Recurrent, other_last
from parity.diagnose.layers.recurrent_cells import Cell, Way, Weights, over_steps, step_of, weights_of

RANDOM = np.random.default_rng(17)
X, H, C = RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(2, 4)), RANDOM.normal(size=(2, 4))
FUNCTIONS = {"tanh": np.tanh, "relu": lambda x: np.where(x > 0, x, 0.0)}


# Sums of terms of size 1 round at that size, wherever they end near 0.
ROUNDING = {"rtol": 1e-12, "atol": 1e-14}


def drawn(gates):
    random = np.random.default_rng(gates)  # of its own: the same whichever tests ran before
    return Weights(*(random.normal(size=(*shape, 4 * gates)) for shape in ((3,), (4,), (), ())))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def blocks(weights, order):
    """The parts of each gate: what meets the input and the state, and the two biases."""
    return {letter: [each[..., 4 * at : 4 * at + 4] for each in weights[:4]] for at, letter in enumerate(order)}


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("order", ["ijfo", "ifjo", "ofij"])
@pytest.mark.parametrize(("bias", "biased"), [(0.0, "f"), (1.0, "f"), (1.0, "j")])
def test_an_lstm_is_its_formula(order, activation, bias, biased):
    weights, act = drawn(4), FUNCTIONS[activation]
    gates = {
        letter: X @ w + H @ u + b + b_of_state + (bias if letter == biased else 0.0)
        for letter, (w, u, b, b_of_state) in blocks(weights, order).items()
    }
    c = sigmoid(gates["f"]) * C + sigmoid(gates["i"]) * act(gates["j"])
    made = step_of(Cell("LSTM", order, bias, biased, activation=activation), weights)(X, (C, H))
    np.testing.assert_allclose(made[0], c, **ROUNDING)
    np.testing.assert_allclose(made[1], sigmoid(gates["o"]) * act(c), **ROUNDING)


def test_the_output_of_a_projected_lstm_is_its_state():
    whole = drawn(4)
    projection = RANDOM.normal(size=(4, 2))
    weights = whole._replace(of_state=whole.of_state[:2], projection=projection)
    cell, state = Cell("LSTM", "ijfo", 1.0), RANDOM.normal(size=(2, 2))
    made = step_of(cell, weights)(X, (C, state))
    bias = whole.bias + (state - H[:, :2]) @ whole.of_state[:2]  # of each example: what the other state adds
    zeros = np.concatenate([H[:, :2], np.zeros((2, 2))], axis=1)
    c, h = step_of(cell, whole._replace(bias=bias))(X, (C, zeros))
    np.testing.assert_allclose(made[0], c, **ROUNDING)
    np.testing.assert_allclose(made[1], h @ projection, **ROUNDING)
    assert weights.sizes == (4, 2) and weights.units == 2 and whole.sizes == (4, 4)


@pytest.mark.parametrize("order", ["rzh", "zrh", "hrz"])
@pytest.mark.parametrize(("reset", "inside"), [("before", False), ("after", False), ("after", True)])
@pytest.mark.parametrize("update", ["old", "new"])
@pytest.mark.parametrize("activation", FUNCTIONS)
def test_a_gru_is_its_formula(order, reset, inside, update, activation):
    weights = drawn(3)
    parts = blocks(weights, order)
    r, z = (sigmoid(X @ w + H @ u + b + b_of_state) for w, u, b, b_of_state in (parts["r"], parts["z"]))
    w, u, b, b_of_state = parts["h"]
    inner = {
        "before": X @ w + b + (r * H) @ u + b_of_state,
        "after": X @ w + r * (H @ u + b_of_state + b) if inside else X @ w + b + r * (H @ u + b_of_state),
    }[reset]
    new = FUNCTIONS[activation](inner)
    expected = z * H + (1 - z) * new if update == "old" else z * new + (1 - z) * H
    cell = Cell("GRU", order, reset=reset, bias_reset=inside, update=update, activation=activation)
    (made,) = step_of(cell, weights)(X, (H,))
    np.testing.assert_allclose(made, expected, **ROUNDING)


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_a_plain_cell_is_its_formula(activation):
    weights = drawn(1)
    w, u, b, b_of_state, _ = weights
    (made,) = step_of(Cell("RNN", "h", activation=activation), weights)(X, (H,))
    np.testing.assert_allclose(made, FUNCTIONS[activation](X @ w + H @ u + b + b_of_state), **ROUNDING)


SEQUENCE, LENGTHS = RANDOM.normal(size=(3, 5, 2)), np.array([5, 2, 3])
KEEPS = (RANDOM.uniform(size=(3, 5)) > 0.4).astype(np.float64)


def summing(x, state):
    """A cell that adds up what it is given, and puts out twice that."""
    total = 0.5 * state[0] + x
    return total, 2.0 * total


def walked(way):
    """The same example by example: all that is put out, and the states behind the last step."""
    steps, states = np.zeros(SEQUENCE.shape), []
    for example, rows in enumerate(SEQUENCE):
        length = way.lengths[example] if way.lengths is not None else 5
        turned = list(range(5))
        if way.reverse:
            end = length if way.reverse == "each" else 5
            turned = [*reversed(turned[:end]), *turned[end:]]
        state = (np.zeros(2), np.ones(2))
        for t, place in enumerate(turned):
            state = tuple(each * (1.0 if way.keeps is None else way.keeps[example, t]) for each in state)
            if t < length or not way.frozen:
                state = summing(rows[place], state)
                steps[example, place] = state[-1]
        states.append(state)
    return steps, [np.stack(each) for each in zip(*states, strict=True)]


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("reverse", ["", "each", "all"])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("keeps", [None, KEEPS])
def test_a_cell_goes_over_each_example_within_its_length(lengths, reverse, frozen, keeps):
    way = Way(lengths, reverse, frozen, keeps)
    made = over_steps(summing, SEQUENCE, (np.zeros((3, 2)), np.ones((3, 2))), way)
    steps, states = walked(way)
    np.testing.assert_allclose(made.steps, steps, **ROUNDING)
    assert len(made.last) == (2 if reverse else 3)
    for one, other in zip(made.last, states, strict=False):
        np.testing.assert_allclose(one, other, **ROUNDING)
    if not reverse:
        np.testing.assert_allclose(made.last[2], steps[:, -1], **ROUNDING)


def kinds(*shapes):
    """Kinds of cells, with the shapes of their weights, that variables of these shapes may belong to."""
    variables = {str(at): RANDOM.normal(size=shape) for at, shape in enumerate(shapes)}
    return [(kind, each.of_input.shape, each.of_state.shape, each.bias.shape) for kind, each in weights_of(variables)]


LSTM, RNN = ("LSTM", (3, 16), (4, 16), (16,)), ("RNN", (3, 4), (4, 4), (4,))
GRU = ("GRU", (3, 12), (4, 12), (12,))
CUDNN = ("GRU", (5, 12), (4, 12), (12,))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(7, 16), (16,)], [LSTM]),
        ([(7, 16)], [LSTM]),
        ([(5, 16), (16,), (4, 2)], [("LSTM", (3, 16), (2, 16), (16,))]),  # a projected output
        ([(7, 4), (4,)], [("LSTM", (6, 4), (1, 4), (4,)), RNN]),
        ([(7, 16), (4,)], []),
        ([(4, 16), (16,)], []),  # as many rows as units: nothing goes in
        ([(5, 16), (16,)], [("LSTM", (1, 16), (4, 16), (16,))]),
        ([(7, 15), (15,)], []),
        ([(7, 16), (16,), (16,)], []),
        ([(7, 8), (8,), (7, 4), (4,)], [GRU]),
        ([(7, 8), (7, 4)], [GRU]),
        ([(7, 8), (8,), (6, 4), (4,)], []),
        ([(5, 12), (4, 12), (12,)], [CUDNN]),
        ([(5, 12), (4, 12)], [CUDNN]),
        ([(5, 12), (4, 12), (12,), (12,)], [CUDNN, CUDNN]),
        ([(3, 16), (4, 16), (16,)], [LSTM]),
        ([(3, 4), (4, 4), (4,)], [RNN]),
        ([(3, 11), (4, 11)], []),
        ([(3, 12), (4, 12), (4, 4)], []),
    ],
)
def test_shapes_tell_which_cells_variables_may_be_of(shapes, expected):
    assert kinds(*shapes) == expected


def test_kernels_and_biases_stand_where_a_cell_takes_them():
    kernel, bias = RANDOM.normal(size=(7, 16)), RANDOM.normal(size=16)
    ((_, made),) = weights_of({"kernel": kernel, "bias": bias})
    for one, other in zip(made[:4], (kernel[:3], kernel[3:], bias, np.zeros(16)), strict=True):
        np.testing.assert_array_equal(one, other)
    gates, new = RANDOM.normal(size=(7, 8)), RANDOM.normal(size=(7, 4))
    b_gates, b_new = RANDOM.normal(size=8), RANDOM.normal(size=4)
    ((_, made),) = weights_of({"c": b_new, "k": gates, "b": b_gates, "n": new})
    both = np.concatenate([gates, new], axis=1)
    for one, other in zip(made[:4], (both[:3], both[3:], [*b_gates, *b_new], np.zeros(12)), strict=True):
        np.testing.assert_array_equal(one, other)
    w, u, one, two = (RANDOM.normal(size=shape) for shape in ((5, 12), (4, 12), (12,), (12,)))
    found = [made for _, made in weights_of({"w": w, "u": u, "one": one, "two": two})]
    for made, biases in zip(found, ((one, two), (two, one)), strict=True):
        for each, other in zip(made[:4], (w, u, *biases), strict=True):
            np.testing.assert_array_equal(each, other)


ROWS = np.arange(3)
STEPS_TAKEN = {
    "the last step": SEQUENCE[:, 4],
    "the first step": SEQUENCE[:, 0],
    "the mean of all steps": SEQUENCE.sum(1) / 5,
    "the largest of all steps": np.maximum.reduce([SEQUENCE[:, t] for t in range(5)]),
    "the sum of all steps": sum(SEQUENCE[:, t] for t in range(5)),
    "the step n - 1": SEQUENCE[ROWS, [4, 1, 2]],
    "the step n": SEQUENCE[ROWS, [4, 2, 3]],
    "the step n - 2": SEQUENCE[ROWS, [3, 0, 1]],
    "the mean of the steps before n": np.stack([rows[:n].mean(0) for rows, n in zip(SEQUENCE, LENGTHS, strict=True)]),
}


def last_of(reference, candidate, lengths=LENGTHS, sequence=SEQUENCE):
    layer = Recurrent("cell", {}, {}, {}, {"n": lengths}, {}, [], [])
    return other_last(layer._replace(sequences={"rnn": sequence}, parted=((reference,), (candidate,))))


@pytest.mark.parametrize(("own", "other"), list(itertools.permutations(STEPS_TAKEN, 2)))
def test_which_step_of_a_sequence_is_taken_is_told(own, other):
    cause = last_of(STEPS_TAKEN[own], STEPS_TAKEN[other])
    over_all = {own, other} <= {"the mean of all steps", "the largest of all steps", "the sum of all steps"}
    assert cause.name == ("reduction" if over_all else "sequence_lengths")
    assert own in cause.title and other in cause.title and "rnn" in cause.title


def test_a_step_that_is_no_steps_or_that_both_take_is_not_told():
    first, last = SEQUENCE[:, 0], SEQUENCE[:, 4]
    assert last_of(first, first) is None
    assert last_of(first, last * (1 + 1e-9)) is None
    assert last_of(first, last * (1 + 1e-11)) is not None
    assert last_of(0.0 * first, last, sequence=np.where(np.arange(5)[:, None] > 0, SEQUENCE, 0.0)) is None
    for lengths in (np.array([0, 2, 3]), np.array([6, 2, 3]), np.array([5, 2])):
        assert last_of(STEPS_TAKEN["the step n - 1"], last, lengths) is None
