# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""A table that is looked up: sparse gradients from the towers to the update."""

import numpy as np
import pytest

ROWS = np.array([0, 1, 1, 3])


def _tower(rows):
    table = tf.get_variable("table", [5, 2], tf.float64, tf.ones_initializer())
    return tf.reduce_sum(tf.nn.embedding_lookup(table, rows))


def _trained(sparse, steps=2, clip=None, reduce="mean", resource=False):
    def tower(rows):
        tf.get_variable_scope().set_use_resource(resource)
        return _tower(rows)

    inputs = {"rows": ("int32", [4])}
    training = tf_towers.build(
        tower, inputs, 2, lambda: tf.train.MomentumOptimizer(0.5, 0.9), reduce, sparse=sparse, clip=clip
    )
    stepper = small.stepper(training)
    stepper.load({"slot/momentum/table": np.ones([5, 2])})
    recorded = {}
    for _ in range(steps):
        recorded = stepper.step({"rows": np.array([0, 1, 1, 3])})
    state = stepper.state()
    stepper.close()
    return dict(recorded, table=state["var/table"], names=[name for name in recorded if "table" in name])


@pytest.mark.parametrize("resource", [False, True])
def test_dense_by_default_a_row_that_was_not_looked_up_moves_with_its_momentum(tf, resource):
    answer = tf(_trained, sparse="dense", resource=resource)
    assert answer["names"] == ["tower_grad/0/table", "tower_grad/1/table", "grad/table"]
    np.testing.assert_array_equal(answer["grad/table"][:, 0], [0.5, 1.0, 0.0, 0.5, 0.0])
    np.testing.assert_array_equal(answer["tower_grad/1/table"][:, 0], [0, 1, 0, 1, 0])
    momentum = float(np.float32(0.9))
    np.testing.assert_allclose(answer["table"][4], np.full(2, 1 - 0.5 * momentum - 0.5 * momentum**2), rtol=1e-14)


@pytest.mark.parametrize("resource", [False, True])
def test_kept_sparse_only_the_rows_that_were_looked_up_move(tf, resource):
    answer = tf(_trained, sparse="slices", resource=resource)
    assert answer["grad/table.indices"].tolist() == ROWS.tolist()
    np.testing.assert_array_equal(answer["grad/table.values"], np.full([4, 2], 0.5))
    assert answer["tower_grad/0/table.indices"].tolist() == [0, 1]
    np.testing.assert_array_equal(answer["table"][[2, 4]], np.ones([2, 2]))
    dense = tf(_trained, sparse="dense", resource=resource)
    np.testing.assert_allclose(answer["table"][[0, 1, 3]], dense["table"][[0, 1, 3]], rtol=1e-14)


def test_forgetting_to_divide_the_rows_makes_the_table_train_as_with_a_sum(tf):
    unscaled, total = (
        tf(_trained, sparse=sparse, reduce=reduce)
        for sparse, reduce in (("slices_unscaled", "mean"), ("slices", "sum"))
    )
    np.testing.assert_array_equal(unscaled["table"], total["table"])
    assert np.abs(unscaled["table"] - tf(_trained, sparse="slices")["table"]).max() > 0.1


@pytest.mark.parametrize(("sum_duplicates", "squares"), [(False, 4 * 0.5**2), (True, 2 * 0.5**2 + 1.0**2)])
def test_clipped_slices_are_recorded_as_slices(tf, sum_duplicates, squares):
    clip = {"by": "global_norm", "limit": 0.1, "sum_duplicates": sum_duplicates}
    answer = tf(_trained, sparse="slices", clip=clip)
    scale = 0.1 / np.sqrt(2 * squares)
    rows = {row: answer["clip/table.values"][answer["clip/table.indices"] == row].sum(0) for row in (0, 1, 3)}
    for row, count in ((0, 1), (1, 2), (3, 1)):
        np.testing.assert_allclose(rows[row], np.full(2, 0.5 * count * scale), rtol=1e-13)


def _half(scale):
    """A tower that computes in float16, with weights in float32."""

    def tower(x, y):
        w = tf.get_variable("w", [3], tf.float32, tf.ones_initializer())
        return tf.cast(tf.reduce_sum(tf.cast(w, tf.float16) * tf.cast(x[0], tf.float16)), tf.float32)

    training = tf_towers.build(tower, small.inputs(4, "float32"), 2, small.sgd(), loss_scale=scale)
    stepper = small.stepper(training)
    recorded = stepper.step({"x": np.full([4, 3], 1e-4, np.float32), "y": np.zeros([4, 2], np.float32)})
    stepper.close()
    return {"gradient": recorded["grad/w"]}


def test_half_precision_goes_through_the_builder_with_a_loss_scale(tf):
    plain, scaled = (tf(_half, scale=scale)["gradient"] for scale in (None, 1024.0))
    np.testing.assert_allclose(plain, np.full(3, np.float16(1e-4), np.float32))
    np.testing.assert_allclose(scaled, plain, rtol=1e-3)


def _vanishing(scale):
    def tower(x, y):
        w = tf.get_variable("w", [3], tf.float32, tf.ones_initializer())
        return tf.reduce_sum(tf.cast(tf.cast(w, tf.float16), tf.float32) * x[0])

    training = tf_towers.build(tower, small.inputs(4, "float32"), 2, small.sgd(), loss_scale=scale)
    stepper = small.stepper(training)
    recorded = stepper.step({"x": np.full([4, 3], 1e-9, np.float32), "y": np.zeros([4, 2], np.float32)})
    stepper.close()
    return {"gradient": recorded["grad/w"]}


def test_a_gradient_that_vanishes_in_half_precision_is_there_with_a_loss_scale(tf):
    assert tf(_vanishing, scale=None)["gradient"].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(tf(_vanishing, scale=2.0**16)["gradient"], np.full(3, 1e-9), rtol=1e-3)
