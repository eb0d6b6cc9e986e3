# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

COEFFICIENT = 0.5


def _with_regularizer(manual, coefficient):
    """A tower whose variable has a regulariser, or that adds its term to the collection by itself."""

    def half_the_squares(w):
        return coefficient * tf.nn.l2_loss(w)

    def tower(x, y):
        w = tf.get_variable(
            "w", [3, 2], x.dtype, tf.ones_initializer(), regularizer=None if manual else half_the_squares
        )
        if manual:
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, half_the_squares(w))
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

    return tower


def _counted(policy, towers, reduce, manual, coefficient, variables="cpu", accumulate=None):
    training = tf_towers.build(
        _with_regularizer(manual, coefficient),
        small.inputs(8),
        towers,
        small.sgd(),
        reduce,
        variables,
        regularization=policy,
        accumulate=accumulate,
    )
    stepper = small.stepper(training)
    # Inputs of zero: nothing but the regularisation has a gradient.
    recorded = stepper.step({"x": np.zeros([8, 3]), "y": np.zeros([8, 2])})
    stepper.close()
    known = tf_towers.facts(training, "float64", 1)
    return {
        "counts": float(recorded["grad/w"][0, 0] / coefficient),
        "terms": known["regularization_terms"],
        "told": known["regularization_counts"],
        "losses": [float(recorded[f"loss/{one.name}"] / coefficient / 3) for one in training.towers],
    }


@pytest.mark.covering(2)
@pytest.mark.parametrize("towers", [1, 4])
@pytest.mark.parametrize(
    ("policy", "mean", "total"),
    [
        ("every_tower", 1, "N"),
        ("divided", "1/N", 1),
        ("first_tower", "1/N", 1),
        ("last_tower", "1/N", 1),
        ("once", 1, 1),
        ("none", 0, 0),
    ],
)
@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_a_regulariser_counts_as_often_as_the_policy_and_the_reduction_make_it(tf, policy, mean, total, reduce, towers):
    expected = {"N": towers, "1/N": 1 / towers}.get(*[mean if reduce == "mean" else total] * 2)
    answer = tf(_counted, policy=policy, towers=towers, reduce=reduce, manual=False, coefficient=COEFFICIENT)
    assert answer["counts"] == pytest.approx(expected, rel=1e-14)
    assert answer["told"] == pytest.approx(expected, rel=1e-14)


def test_a_regulariser_of_get_variable_lies_outside_every_tower_s_scope_and_is_lost_there(tf):
    answer = tf(_counted, policy="scoped", towers=2, reduce="mean", manual=False, coefficient=COEFFICIENT)
    assert answer["terms"] == [0, 0]
    assert answer["counts"] == answer["told"] == 0


def test_terms_that_towers_add_themselves_are_found_by_scope_once_each(tf):
    answer = tf(_counted, policy="scoped", towers=2, reduce="mean", manual=True, coefficient=COEFFICIENT)
    assert answer["terms"] == [1, 1]
    assert answer["counts"] == answer["told"] == 1


def test_terms_that_towers_add_themselves_pile_up_where_the_whole_collection_is_taken(tf):
    answer = tf(_counted, policy="every_tower", towers=2, reduce="mean", manual=True, coefficient=COEFFICIENT)
    assert answer["terms"] == [1, 2]
    assert answer["counts"] == answer["told"] == 1.5
    assert answer["losses"] == pytest.approx([1, 2])


@pytest.mark.parametrize("manual", [False, True])
def test_added_after_the_towers_terms_count_once_whoever_put_them_there(tf, manual):
    answer = tf(_counted, policy="once", towers=2, reduce="sum", manual=manual, coefficient=COEFFICIENT)
    assert answer["counts"] == answer["told"] == 1


@pytest.mark.parametrize(("reduce", "expected"), [("mean", 1), ("sum", 2)])
def test_a_sum_over_micro_batches_multiplies_regularisation_too(tf, reduce, expected):
    accumulate = {"steps": 2, "reduce": reduce}
    answer = tf(
        _counted,
        policy="every_tower",
        towers=2,
        reduce="mean",
        manual=False,
        coefficient=COEFFICIENT,
        accumulate=accumulate,
    )
    assert answer["counts"] == answer["told"] == expected


@pytest.mark.parametrize("policy", ["every_tower", "once"])
def test_copies_of_a_variable_do_not_multiply_its_regulariser(tf, policy):
    answer = tf(
        _counted, policy=policy, towers=2, reduce="mean", manual=False, coefficient=COEFFICIENT, variables="replicated"
    )
    assert answer["counts"] == 1
    assert answer["told"] == 1


def _decayed(policy, only):
    training = tf_towers.build(
        small.linear,
        small.inputs(8),
        2,
        small.sgd(),
        weight_decay={"coefficient": 0.1, "only": only},
        **({"regularization": policy} if policy else {}),
    )
    stepper = small.stepper(training)
    stepper.load({"var/b": np.ones(2)})
    recorded = stepper.step({"x": np.zeros([8, 3]), "y": np.ones([8, 2])})
    stepper.close()
    return {"w": recorded["grad/w"], "b": recorded["grad/b"], "loss": recorded["loss/0"]}


@pytest.mark.parametrize("policy", ["", "every_tower", "once"])
def test_weight_decay_adds_half_the_squares_of_the_variables_it_names(tf, policy):
    answer = tf(_decayed, policy=policy, only="^w$")
    np.testing.assert_array_equal(answer["w"], np.full([3, 2], 0.1))
    np.testing.assert_array_equal(answer["b"], np.zeros(2))
    assert float(answer["loss"]) == pytest.approx(0 if policy == "once" else 0.3, abs=1e-15)


def _misspelt():
    table = {"coefficient": 0.1, "only": "kernel"}
    return {
        "refused": small.refused(tf_towers.build, small.linear, small.inputs(4), 1, small.sgd(), weight_decay=table)
    }


def test_weight_decay_that_fits_no_variable_is_refused(tf):
    assert tf(_misspelt)["refused"] == (
        "weight_decay: expected 'kernel' to be found in a variable's name, got w, b. "
        "Write a regular expression that fits one of them."
    )
