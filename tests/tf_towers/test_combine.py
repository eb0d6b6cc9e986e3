# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

from parity.worker.process import SideFailed


def _combined(gradients, reduce, order=None, dtype="float64", **options):
    """`gradients`: per tower, a dict of variable name to its gradient or None; `order`: names by tower."""
    variables = {name: tf.get_variable(name, [2], dtype) for name in sorted(gradients[0])}
    towers = []
    for index, tower in enumerate(gradients):
        names = order[index] if order else sorted(tower)
        pairs = [(None if tower[name] is None else tf.constant(tower[name], dtype)) for name in names]
        towers.append([(pairs[place], variables[name]) for place, name in enumerate(names)])
    pairs = tf_towers.combine_gradients(towers, reduce, **options)
    values = small.run([gradient for gradient, _ in pairs])
    return {variable.op.name: values[place] for place, (_, variable) in enumerate(pairs)}


@pytest.mark.parametrize(("reduce", "expected"), [("mean", [2.0, 5.0]), ("sum", [6.0, 15.0])])
def test_gradients_are_averaged_or_summed(tf, reduce, expected):
    answer = tf(_combined, gradients=[{"a": [1, 4]}, {"a": [2, 5]}, {"a": [3, 6]}], reduce=reduce)
    assert answer["a"].tolist() == expected
    assert answer["a"].dtype == np.float64


def test_pairs_are_made_by_variable_whatever_the_order(tf):
    gradients = [{"a": [1, 1], "b": [10, 10]}, {"a": [3, 3], "b": [30, 30]}]
    answer = tf(_combined, gradients=gradients, reduce="mean", order=[["a", "b"], ["b", "a"]])
    assert {name: value.tolist() for name, value in answer.items()} == {"a": [2.0, 2.0], "b": [20.0, 20.0]}


def _published(gradients):
    """What published averaging does: drop what is missing, then pair by position. Shown beside ours."""
    a, b = (tf.get_variable(name, [2], tf.float64) for name in "ab")
    towers = [
        [(tf.constant(value, tf.float64), variable) for value, variable in pairs if value is not None]
        for pairs in ([(gradients[0][0], a), (gradients[0][1], b)], [(gradients[1][0], a), (gradients[1][1], b)])
    ]
    shortest = min(len(tower) for tower in towers)
    merged = [
        (tf.add_n([tower[place][0] for tower in towers]), towers[0][place][1].op.name) for place in range(shortest)
    ]
    values = small.run([gradient for gradient, _ in merged])
    return {name: values[place] for place, (_, name) in enumerate(merged)}


def test_dropping_what_is_missing_and_pairing_by_position_merges_different_variables(tf):
    answer = tf(_published, gradients=[[[1, 1], None], [None, [10, 10]]])
    assert list(answer) == ["a"]
    assert answer["a"].tolist() == [11.0, 11.0]


def test_ours_refuses_the_same_gradients_and_names_the_towers(tf):
    gradients = [{"a": [1, 1], "b": None}, {"a": None, "b": [10, 10]}]
    with pytest.raises(SideFailed) as refused:
        tf(_combined, gradients=gradients, reduce="mean")
    assert str(refused.value) == (
        "TensorFlow side: combine_gradients: expected a gradient of 'a' in every tower, got one in towers [0] of 2 only. "
        "Give every tower the same loss, or leave the variable out of all."
    )


def test_a_variable_without_a_gradient_in_any_tower_is_left_out(tf):
    answer = tf(_combined, gradients=[{"a": [1, 1], "b": None}, {"a": [3, 3], "b": None}], reduce="mean")
    assert {name: value.tolist() for name, value in answer.items()} == {"a": [2.0, 2.0]}


def _slices(reduce, towers, sparse="dense", weights=None):
    table = tf.get_variable("table", [4, 2], tf.float64)
    pairs = []
    for index in range(towers):
        rows = tf.constant([0, 0, index + 1])
        values = tf.constant(np.full([3, 2], index + 1.0))
        pairs.append([(tf.IndexedSlices(values, rows, tf.constant([4, 2])), table)])
    ((gradient, _),) = tf_towers.combine_gradients(pairs, reduce, sparse=sparse, weights=weights)
    found = {"gradient": small.run(tf.convert_to_tensor(gradient)), "sparse": isinstance(gradient, tf.IndexedSlices)}
    return dict(found, rows=small.run(gradient.indices).tolist() if found["sparse"] else [])


def test_sparse_gradients_become_dense_and_repeated_rows_are_added(tf):
    answer = tf(_slices, reduce="mean", towers=2)
    assert not answer["sparse"]
    assert answer["gradient"].tolist() == [[3.0, 3.0], [0.5, 0.5], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("sparse", "reduce", "factor"),
    [("slices", "mean", 0.5), ("slices", "sum", 1.0), ("slices_unscaled", "mean", 1.0)],
)
def test_sparse_gradients_can_stay_sparse_and_forgetting_to_divide_them_is_the_sum(tf, sparse, reduce, factor):
    answer = tf(_slices, reduce=reduce, towers=2, sparse=sparse)
    assert answer["sparse"]
    assert answer["rows"] == [0, 0, 1, 0, 0, 2]
    assert (answer["gradient"] / factor).tolist() == [[6.0, 6.0], [1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("missing", "a", "b"),
    [
        ("zeros", [0.5, 0.5], [5.0, 5.0]),
        ("present", [1.0, 1.0], [10.0, 10.0]),
        ("skip", None, None),
    ],
)
def test_what_some_towers_lack_is_combined_as_the_policy_says(tf, missing, a, b):
    gradients = [{"a": [1, 1], "b": None, "c": [1, 1], "d": None}, {"a": None, "b": [10, 10], "c": [3, 3], "d": None}]
    answer = tf(_combined, gradients=gradients, reduce="mean", missing=missing)
    expected = {"a": a, "b": b, "c": [2.0, 2.0]}
    assert {name: value.tolist() for name, value in answer.items()} == {
        name: value for name, value in expected.items() if value
    }


def test_weights_make_it_a_weighted_mean(tf):
    answer = tf(_combined, gradients=[{"a": [1, 4]}, {"a": [2, 8]}], reduce="mean", weights=[3, 1])
    assert answer["a"].tolist() == [1.25, 5.0]
    sparse = tf(_slices, reduce="mean", towers=2, sparse="slices", weights=[3, 1])
    assert sparse["sparse"]
    assert sparse["gradient"].tolist() == [[2.5, 2.5], [0.75, 0.75], [0.5, 0.5], [0.0, 0.0]]


def _half(reduce):
    a = tf.get_variable("a", [2], tf.float16)
    towers = [[(tf.constant([60000.0, 1.0], tf.float16), a)] for _ in range(2)]
    ((gradient, _),) = tf_towers.combine_gradients(towers, reduce)
    stacked = tf.add_n([pairs[0][0] for pairs in towers]) / 2
    ours, plain = small.run([gradient, stacked])
    return {"ours": ours, "plain": plain}


def test_half_precision_is_summed_in_float32_so_that_a_mean_cannot_overflow(tf):
    answer = tf(_half, reduce="mean")
    assert answer["ours"].dtype == np.float16
    assert answer["ours"].tolist() == [60000.0, 1.0]
    assert answer["plain"].tolist() == [np.inf, 1.0]


def _refusals():
    a, b = (tf.get_variable(name, [2]) for name in "ab")
    one = tf.ones([2])
    return {
        "reduce": small.refused(tf_towers.combine_gradients, [[(one, a)]], "average"),
        "none": small.refused(tf_towers.combine_gradients, []),
        "twice": small.refused(tf_towers.combine_gradients, [[(one, a), (one, a)]]),
        "others": small.refused(tf_towers.combine_gradients, [[(one, a)], [(one, a), (one, b)]]),
        "missing": small.refused(tf_towers.combine_gradients, [[(one, a)]], missing="ignore"),
        "weights": small.refused(tf_towers.combine_gradients, [[(one, a)]], weights=[1, 2]),
    }


def test_wrong_use_is_refused_in_one_line(tf):
    assert tf(_refusals) == {
        "reduce": "combine_gradients: expected reduce to be 'mean' or 'sum', got 'average'.",
        "none": "combine_gradients: expected at least one tower, got none.",
        "twice": "combine_gradients: expected each variable once, got 'a' twice in tower 0.",
        "others": "combine_gradients: expected the same variables in every tower, got b in only one of towers 0 and 1. "
        "Compute all gradients with the same variable list.",
        "missing": "combine_gradients: expected missing to be 'refuse', 'zeros', 'present' or 'skip', got 'ignore'.",
        "weights": "combine_gradients: expected a weight for each of 1 towers, and a mean, got 2 and 'mean'.",
    }


def _built(reduce, towers):
    training = tf_towers.build(small.linear, small.inputs(12), towers, small.sgd(), reduce)
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(12))
    stepper.close()
    return {"combined": recorded["grad/w"], "of_tower": recorded["tower_grad/0/w"], "loss": recorded["loss/0"]}


@pytest.mark.parametrize("reduce", ["prescaled", "mean_of_losses", "examples"])
def test_losses_divided_beforehand_and_one_loss_for_all_give_the_mean(tf, reduce):
    mean, answer = (tf(_built, reduce=one, towers=3) for one in ("mean", reduce))
    np.testing.assert_allclose(answer["combined"], mean["combined"], rtol=1e-13)
    np.testing.assert_array_equal(answer["loss"], mean["loss"])
    divisor = 3 if reduce == "prescaled" else 1
    np.testing.assert_allclose(answer["of_tower"] * divisor, mean["of_tower"], rtol=1e-13)


def _vector_loss():
    w = tf.get_variable("w", [], tf.float64, tf.ones_initializer())
    cross_entropy, terms = 3.0 * w, [0.5 * w * w] * 22
    wrong = tf.gradients(cross_entropy + terms, w)[0]
    right = tf.gradients(tf.add_n([cross_entropy, *terms]), w)[0]
    wrong, right = small.run([wrong, right])
    return {"wrong": float(wrong), "right": float(right)}


def test_a_scalar_plus_a_list_of_terms_is_a_vector_whose_gradient_counts_the_scalar_for_each(tf):
    assert tf(_vector_loss) == {"wrong": 3.0 * 22 + 22, "right": 3.0 + 22}
