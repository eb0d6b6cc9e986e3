"""How much each number of an output counts in a loss is the loss's slope in it, whatever linear op stands between."""

import numpy as np
import pytest

from parity.diagnose.layers.linear_terms import terms_of
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(2)
X, Y, SQUARE = RANDOM.normal(size=(4, 5)), RANDOM.normal(size=(4, 5)), RANDOM.normal(size=(4, 4))
ROW, COLUMN = RANDOM.normal(size=5), RANDOM.normal(size=(4, 1))
DATA, MASK = RANDOM.uniform(0.5, 2.0, size=(4, 5)), (RANDOM.uniform(size=(4, 5)) > 0.4).astype(np.float64)


class Ops:
    """A pass that is written down op by op."""

    def __init__(self):
        self.ops, self.values = [], []

    def add(self, kind, inputs, value, weights=(), operands=()):
        value = None if value is None else np.asarray(value)
        shape = [] if value is None else list(value.shape)
        self.ops.append(ForwardOp(f"op{len(self.ops)}", kind, inputs, list(weights), shape, {}, None, tuple(operands)))
        self.values.append(value)
        return len(self.ops) - 1

    def terms(self, known=()):
        return terms_of(self.ops, self.values.__getitem__, len(self.ops) - 1, known)


def between(kind, function, *outputs, operands=()):
    """The terms of a loss that sums up, with weights of data, what a function makes of outputs; and these weights."""
    ops = Ops()
    numbers = [ops.add("MatMul", [], each, [f"w{at}"]) for at, each in enumerate(outputs)]
    made = np.asarray(function(*outputs))
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=made.shape)
    middle = ops.add(kind, numbers, made, operands=operands)
    data = ops.add("Const", [], weights)
    ops.add("Sum", [ops.add("Mul", [middle, data], made * weights)], (made * weights).sum())
    return ops.terms(), weights


def slopes(function, outputs, at, weights):
    """How much more the loss is where one number of an output is more by 1."""
    found = np.zeros(outputs[at].shape)
    for place in np.ndindex(*found.shape):
        more = [each.copy() for each in outputs]
        more[at][place] += 1.0
        found[place] = ((function(*more) - function(*outputs)) * weights).sum()
    return found


FIRST_IS_CONSTANT = (Operand("x", "c", None, []), Operand("y", "", 0, [4, 5]))


@pytest.mark.parametrize(
    ("kind", "function", "outputs"),
    [
        ("Add", lambda x, y: x + y, (X, Y)),
        ("Sub", lambda x, y: x - y, (X, Y)),
        ("rsub", lambda x, y: y - x, (X, Y)),
        ("Add", lambda x, y: x + y, (X, ROW)),
        ("Add", lambda x, y: x + y, (COLUMN, X)),
        ("Add", lambda x, y: x + y, (COLUMN, ROW)),
        ("Sub", lambda x, y: x - y.T, (SQUARE, SQUARE[::-1] + 1.0)),
        ("AddN", lambda x, y, z: x + y + z, (X, Y, DATA)),
        ("add_n", lambda x, y, z: x + y + z, (X, ROW, COLUMN)),
        ("concat", lambda x, y: np.concatenate([x, y], 0), (X, Y[:2])),
        ("concat", lambda x, y: np.concatenate([x, y], 1), (X, Y[:, :3])),
        ("cat", lambda x, y, z: np.concatenate([x, y, z], 1), (X, Y, COLUMN)),
        ("cat", lambda x, y: np.concatenate([x, y], 1), (X, Y)),
        ("stack", lambda x, y: np.stack([x, y], 0), (X, Y)),
        ("stack", lambda x, y: np.stack([x, y], 1), (X, Y)),
        ("stack", lambda x, y, z: np.stack([x, y, z], 2), (X, Y, DATA)),
        ("Mul", lambda x: 3.0 * x, (X,)),
        ("Neg", lambda x: -x, (X,)),
        ("truediv", lambda x: x / 7.0, (X,)),
        ("Cast", lambda x: x, (X,)),
        ("clone", lambda x: 1.0 * x, (X,)),
        ("einsum", lambda x: 2.0 * x.T, (X,)),
        ("Mean", lambda x: x.mean(axis=0), (X,)),
        ("Mean", lambda x: x.mean(axis=1), (X,)),
        ("Mean", lambda x: x.mean(), (X,)),
        ("Sum", lambda x: x.sum(axis=1, keepdims=True), (X,)),
        ("sum", lambda x: x.sum(), (X,)),
        ("AvgPool", lambda x: x.mean(axis=(1, 2)), (RANDOM.normal(size=(2, 3, 3, 2)),)),
        ("sum", lambda x: x.sum(axis=(0, 2)), (RANDOM.normal(size=(2, 3, 2)),)),
        ("StridedSlice", lambda x: x[1:3], (X,)),
        ("getitem", lambda x: x[:, 2], (X,)),
        ("Gather", lambda x: x[[2, 0]], (X,)),
        ("index_select", lambda x: x[:, ::-2], (X,)),
        ("where", lambda x: np.where(MASK > 0, x, 0.0), (X,)),
        ("masked_fill", lambda x: np.where(MASK > 0, x, 0.0), (X,)),
        ("Mul", lambda x: x * MASK, (X,)),
    ],
)  # fmt: skip
def test_each_number_counts_as_much_as_the_loss_grows_with_it(kind, function, outputs):
    terms, weights = between(kind, function, *outputs)
    assert [term.number for term in terms.terms] == list(range(len(outputs)))
    for at, term in enumerate(terms.terms):
        np.testing.assert_allclose(term.counts, slopes(function, outputs, at, weights), rtol=1e-9, atol=1e-12)
    assert (terms.constant, terms.of_weights) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "function", "operands"),
    [
        ("Square", lambda x: x**2, ()),
        ("Mul", lambda x: x**2, ()),
        ("Exp", np.exp, ()),
        ("mul", lambda x: x**3, ()),
        ("reciprocal", lambda x: 1 / x, ()),
        ("rdiv", lambda x: 2 / x, ()),
        ("RealDiv", lambda x: 2 / x, FIRST_IS_CONSTANT),
        ("Relu", lambda x: np.maximum(x, 0), ()),  # though it is 0 or its input in every place
        ("getitem", lambda x: x[1:3] * (1 + 1e-9), ()),
        ("MaxPool", lambda x: x.max(axis=1), ()),
        ("max", lambda x: x.sum(axis=1), ()),
        ("Reshape", lambda x: x[1:3], ()),
        ("Mul", lambda x: 3 * x * (1 + 1e-11 * np.arange(20).reshape(4, 5)), ()),
        ("where", lambda x: np.where(MASK > 0, x, 1.0), ()),
        ("add", lambda x: x + np.arange(20).reshape(4, 5), ()),
    ],
)
def test_what_is_not_linear_is_a_term_itself(kind, function, operands):
    terms, weights = between(kind, function, X, operands=operands)
    assert [term.number for term in terms.terms] == [1]
    np.testing.assert_array_equal(terms.terms[0].counts, weights)


@pytest.mark.parametrize(
    ("kind", "function", "operands", "added", "sign"),
    [
        ("add", lambda x: x + 7.0, (), 7.0, 1.0),
        ("Sub", lambda x: x - 7.0, (), -7.0, 1.0),
        ("Sub", lambda x: 7.0 - x, FIRST_IS_CONSTANT, 7.0, -1.0),
        ("rsub", lambda x: 7.0 - x, (), 7.0, -1.0),
    ],
)
def test_a_constant_that_is_added_is_no_term(kind, function, operands, added, sign):
    terms, weights = between(kind, function, X, operands=operands)
    assert [term.number for term in terms.terms] == [0]
    np.testing.assert_allclose(terms.terms[0].counts, sign * weights)
    assert terms.constant == pytest.approx(added * weights.sum()) and terms.of_weights == 0.0


@pytest.mark.parametrize(
    "scale", [lambda x, d: x * d, lambda x, d: x / d, lambda x, d: x * d[0], lambda x, d: x / d[:, :1]]
)
def test_what_is_scaled_by_data_counts_as_much_as_they_say(scale):
    ops = Ops()
    x, data = ops.add("MatMul", [], X, ["w"]), DATA
    made = scale(X, data)
    shaped = next(
        each for each in (data, data[0], data[:, :1]) if np.allclose(X * each, made) or np.allclose(X / each, made)
    )
    ops.add("Sum", [ops.add("Mul", [x, ops.add("Const", [], shaped)], made)], made.sum())
    (term,) = ops.terms().terms
    np.testing.assert_allclose(term.counts, scale(np.ones_like(X), data), rtol=1e-12)


def test_a_mask_is_fixed_whatever_it_is_made_of_and_two_outputs_make_no_line():
    for factor, number in ((MASK, 0), (Y, 2)):
        ops = Ops()
        inputs = [ops.add("MatMul", [], X, ["w"]), ops.add("Greater", [], factor, ["w"])]
        ops.add("Sum", [ops.add("Mul", inputs, X * factor)], (X * factor).sum())
        assert [term.number for term in ops.terms().terms] == [number]
    ops = Ops()
    inputs = [ops.add("Const", [], X), ops.add("Const", [], Y)]
    ops.add("Sum", [ops.add("Mul", inputs, X * Y)], (X * Y).sum())
    assert [term.number for term in ops.terms().terms] == [2]


def test_numbers_that_are_read_twice_count_twice():
    ops = Ops()
    x = ops.add("MatMul", [], X, ["w"])
    parts = [ops.add("Sum", [x], X.sum()), ops.add("Mean", [x], X.mean())]
    ops.add("Add", parts, X.sum() + X.mean())
    (term,) = ops.terms().terms
    np.testing.assert_allclose(term.counts, np.full(X.shape, 1.05))
    assert term.factor == pytest.approx(1.05) and term.part == pytest.approx(1.05 * X.sum())


def test_behind_what_the_other_side_has_nothing_is_taken_apart():
    ops = Ops()
    middle = ops.add("Mul", [ops.add("MatMul", [], X, ["w"])], 3.0 * X)
    ops.add("Sum", [middle], 3.0 * X.sum())
    assert [term.number for term in ops.terms().terms] == [0]
    assert [term.number for term in ops.terms(known=[middle]).terms] == [middle]


def test_what_weights_add_is_told_from_a_constant():
    ops = Ops()
    x = ops.add("Mean", [ops.add("MatMul", [], X, ["w"])], X.mean())
    ops.add("add", [ops.add("add", [x], X.mean() + 0.25, ["w"])], X.mean() + 3.25)
    terms = ops.terms()
    assert (terms.constant, terms.of_weights) == (pytest.approx(3.0), pytest.approx(0.25))


def test_numbers_that_are_alike_may_be_picked_from_any_place():
    x = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 3.0]])
    terms, weights = between("getitem", lambda each: each[:, 1:], x)
    (term,) = terms.terms
    assert term.part == pytest.approx((x[:, 1:] * weights).sum())
    assert sorted(term.counts[x == 2.0]) == pytest.approx(sorted([weights[0, 1], *weights[1, :1], 0.0]))
    ops = Ops()
    first = ops.add("MatMul", [], x, ["w"])
    ops.add("Sum", [ops.add("getitem", [first], np.full(3, 3.0))], 9.0)  # 3 stands there once
    assert [term.number for term in ops.terms().terms] == [1]


PLAIN = RANDOM.uniform(0.1, 2.0, size=8)
OF_EACH = np.array([0.5, 1.0, 2.0, 0.25, 1.0, 0.5, 3.0, 1.0])


@pytest.mark.parametrize(
    ("each", "count"),
    [
        (PLAIN, 1.0),
        (PLAIN, 8.0),
        (np.where(np.arange(8) < 3, PLAIN, 0.0), 3.0),  # labels that are ignored do not count
        (np.where(np.arange(8) < 3, PLAIN, 0.0), 8.0),
        (PLAIN * OF_EACH, OF_EACH.sum()),
        (PLAIN * OF_EACH, 1.0),
    ],
)
def test_a_loss_of_torch_is_reduced_by_a_count_or_by_weights(each, count):
    ops = Ops()
    plain = ops.add("nll_loss of each", [ops.add("MatMul", [], X, ["w"])], PLAIN)
    weighted = ops.add("nll_loss of each, weighted", [plain], each)
    ops.add("nll_loss", [weighted], each.sum() / count)
    (term,) = ops.terms(known=[weighted]).terms
    assert term.number == weighted and term.factor == pytest.approx(1 / count)


@pytest.mark.parametrize("count", [2.0, 9.0, 3.5])
def test_a_loss_of_torch_over_no_count_of_its_examples_is_a_term_itself(count):
    each = np.where(np.arange(8) < 3, PLAIN, 0.0)
    ops = Ops()
    known = ops.add("nll_loss of each", [ops.add("MatMul", [], X, ["w"])], each)
    end = ops.add("nll_loss", [known], each.sum() / count)
    assert [term.number for term in ops.terms(known=[known]).terms] == [end]


def test_a_loss_that_is_no_single_number_or_not_known_is_not_taken_apart():
    for value in (None, X, np.array(3)):
        ops = Ops()
        ops.add("Sum", [ops.add("MatMul", [], X, ["w"])], value)
        assert ops.terms() is None


def test_integers_are_no_part_of_a_loss():
    ops = Ops()
    inputs = [ops.add("MatMul", [], X, ["w"]), ops.add("Const", [], np.arange(20).reshape(4, 5))]
    ops.add("Sum", [ops.add("Mul", inputs, 3.0 * X)], 3.0 * X.sum())
    (term,) = ops.terms().terms
    assert term.number == 0 and term.factor == pytest.approx(3.0)
