"""What two sides compute where they part is said where numbers prove it, each rule on arrays made by hand."""

import numpy as np
import pytest

from parity.diagnose.layers.op import Op, Taken, at_op
from parity.diagnose.ops.table import computed, plain

RANDOM = np.random.default_rng(11)
X, Y = RANDOM.normal(size=(5, 4)), RANDOM.normal(size=(5, 4))
PROVEN = "what goes in is right"
LINES = "model_tf.py:31  y = f(x)", "model_torch.py:44  y = g(x)"


def op(kind, takes, output, side=0, attributes=None, later=()):
    given = [Taken(str(place), np.asarray(each), np.size(each) > 1) for place, each in enumerate(takes)]
    return Op(kind, attributes or {}, given, np.asarray(output), LINES[side], later)


def relu(x):
    return np.maximum(x, 0.0)


@pytest.mark.parametrize(
    ("reference", "candidate", "name", "words"),
    [
        (op("Relu", [X], relu(X)), op("tanh", [X], np.tanh(X), 1), "activation_function", "computes tanh where"),
        (  # in the port the axes lie otherwise
            op("Relu", [X], relu(X)),
            op("tanh", [X.T], np.tanh(X).T, 1),
            "activation_function",
            "model_torch.py:44",
        ),
        (  # one function in several ops
            op("Mul", [0.2, X], 0.2 * X, later=[np.maximum(X, 0.2 * X)]),
            op("relu", [X], relu(X), 1),
            "activation_function",
            "computes relu where the reference computes mul",
        ),
    ],
)
def test_what_gives_the_ports_numbers_is_named_with_both_lines(reference, candidate, name, words):
    cause = at_op(reference, candidate, proven="")
    assert cause.name == name and words in cause.title
    assert all(line in cause.title for line in LINES)


def test_an_op_is_left_out_where_what_follows_takes_what_it_takes():
    reference, reader = op("Mul", [X, 3.0], X * 3), op("AddV2", [X * 3, Y], X * 3 + Y)
    cause = at_op(reference, op("add", [X, Y], X + Y, 1), "", [reader])
    assert (cause.name, cause.title.startswith("the port leaves out mul: model_tf.py:31")) == ("op_left_out", True)
    assert at_op(reference, op("add", [X, Y], X + 1.01 * Y, 1), "", [reader]) is None


def test_where_no_rule_gives_the_numbers_the_place_is_told_only_if_it_is_proven():
    reference = op(
        "Conv2D", [X], X[:, :2], attributes={"strides": [1, 2, 2, 1], "dilations": [1, 2, 2, 1], "epsilon": 1e-3}
    )
    candidate = op("conv2d", [X], Y[:, :2], 1, {"stride": [2, 2], "dilation": [1, 1], "eps": float(np.float32(1e-3))})
    assert at_op(reference, candidate, proven="") is None
    cause = at_op(reference, candidate, proven=PROVEN)
    assert (cause.name, cause.evidence) == ("other_operation", PROVEN)
    assert cause.title.endswith("; dilation is [1, 1] in the port, [1, 2, 2, 1] in the reference")


def test_an_op_is_left_out_where_another_op_takes_what_it_takes_beside_all_that_its_reader_takes():
    memory = RANDOM.normal(size=(5, 3, 4))
    reference = op("AddV2", [X, Y], X + Y)
    reader = op("Mul", [memory, (X + Y)[:, None]], memory * (X + Y)[:, None])
    candidate = op("einsum", [memory, Y], np.einsum("bmd,bd->bm", memory, Y), 1)
    cause = at_op(reference, candidate, PROVEN, [reader])
    assert (cause.name, cause.title.startswith("the port leaves out add: model_tf.py:31")) == ("op_left_out", True)
    other = op("einsum", [memory[::-1], Y], np.einsum("bmd,bd->bm", memory[::-1], Y), 1)
    assert at_op(reference, other, PROVEN, [reader]).name == "other_operation"


def test_an_op_is_left_out_where_the_kind_of_its_reader_takes_what_it_takes():
    reference, reader = op("AddV2", [X, Y], X + Y), op("Pad", [X + Y], np.pad(X + Y, 1))
    assert at_op(reference, op("pad", [Y], np.pad(Y, 1), 1), PROVEN, [reader]).name == "op_left_out"
    assert at_op(reference, op("pad", [Y], np.pad(Y, 1), 1), PROVEN) is None  # to join and pad is no mistake itself


def test_ops_that_have_nothing_in_common_are_not_told_one_for_the_other():
    reference, candidate = op("AddV2", [X, Y], X + Y), op("einsum", [Y[::-1], X * Y], Y[::-1] * X * Y, 1)
    assert at_op(reference, candidate, PROVEN) is None


def test_nothing_is_told_without_both_lines_or_where_rounding_would_have_to_be_larger():
    reference, candidate = op("Relu", [X], relu(X)), op("tanh", [X], np.tanh(X), 1)
    assert at_op(reference._replace(line=""), candidate, proven=PROVEN) is None
    near = op("tanh", [X], np.tanh(X) * (1 + 1e-6), 1)
    assert at_op(reference, near, proven="") is None
    assert at_op(op("Relu", [X], relu(X) + 1e-6), candidate, proven="") is None  # no function of the table's


@pytest.mark.parametrize(
    ("kind", "arguments", "attributes", "made"),
    [
        ("BatchMatMulV2", [X, Y], {"adj_y": True}, X @ Y.T),
        ("MatMul", [X, Y], {"transpose_a": True}, X.T @ Y),
        ("rsub", [X, 1.0], {}, 1 - X),
        ("__rtruediv__", [X, 2.0], {}, 2 / X),
        ("LeakyRelu", [X], {"alpha": 0.3}, np.where(X > 0, X, 0.3 * X)),
        ("softmax", [X], {"dim": 0}, np.exp(X) / np.exp(X).sum(0)),
        ("LogSoftmax", [X], {}, X - np.log(np.exp(X).sum(1, keepdims=True))),
        ("Mean", [X, np.array([1])], {"keep_dims": True}, X.mean(1, keepdims=True)),
        ("amax", [X, 1], {}, X.max(1)),
        ("unheard_of", [X], {}, None),
        ("add", [X, np.ones(3)], {}, None),
        ("add", [X, Y], {"alpha": 2}, None),
    ],
)
def test_the_table_computes_what_graphs_and_torch_do(kind, arguments, attributes, made):
    found = computed(kind, arguments, attributes)
    assert (found is None) == (made is None)
    if made is not None:
        np.testing.assert_allclose(found, made, rtol=1e-13)


def test_both_sides_names_are_one():
    assert {plain(kind) for kind in ("AddV2", "BiasAdd", "add", "__radd__", "add_")} == {"add"}


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_the_same_numbers_in_other_places_are_told_where_both_sides_do_the_same_with_theirs():
    moved = X.T.reshape(X.shape)  # a reshape without the transpose in front of it
    right = op("Softmax", [X], softmax(X))
    cause = at_op(right, op("softmax", [moved], softmax(moved), 1, {"dim": -1}), "")
    assert cause.name == "moved_values" and "model_torch.py:44" in cause.title
    # In another order of axes they are where they belong; other numbers, or another softmax, are another cause.
    assert at_op(right, op("softmax", [X.T], softmax(X.T), 1, {"dim": -1}), "") is None
    assert at_op(right, op("softmax", [moved + 1e-3], softmax(moved), 1, {"dim": -1}), "") is None
    assert at_op(right, op("softmax", [moved], softmax(2 * moved), 1, {"dim": -1}), "") is None


def test_an_op_that_hands_on_what_it_takes_is_no_place():
    cast = op("Cast", [X], X.astype(np.float32))
    assert at_op(cast, op("mul", [X, Y], X * Y, 1), PROVEN) is None
    assert at_op(op("Mul", [X, Y], X * Y), op("to", [X], X, 1), PROVEN) is None
    assert at_op(op("Mul", [X, Y], X * Y), op("mul", [X, Y], X * Y * 1.01, 1), PROVEN) is not None


def test_the_parts_of_torchs_attention_are_computed():
    queries, keys = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(2, 3, 4))
    scores = computed("scores", [queries, keys], {})
    np.testing.assert_allclose(scores, np.einsum("bqd,bkd->bqk", queries, keys))
    seen = np.tril(np.ones((3, 3), bool))
    for masked in ([scores], [scores, seen], [scores, np.where(seen, 0.0, -np.inf)]):
        np.testing.assert_array_equal(computed("masked scores", masked, {}), np.where(seen, scores, -np.inf))
    np.testing.assert_allclose(computed("scaled_dot_product_attention", [scores, keys], {}), scores @ keys)


def test_another_count_of_numbers_is_another_way_to_compute_and_no_wrong_op():
    """One side compares each with each where the other counts places: their differences are nobody's mistake."""
    apart, less = X[:, :, None] - X[0], X - X[0, 0]
    reference, candidate = op("Sub", [X, X[0]], apart), op("sub", [X, X[0, 0]], less, 1)
    assert at_op(reference, candidate, PROVEN) is None
    assert at_op(op("Sub", [X, X[0]], less), op("sub", [X, X[0, 0]], Y, 1), PROVEN).name == "other_operation"
